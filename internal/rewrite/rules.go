package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/guardproxy/guardproxy/schema"
)

// Rules is all that decides what a Narrower does. Its JSON form is stable,
// since recordings carry it: equal rules have equal bytes.
type Rules struct {
	schema.Rules
	KeepTexts bool `json:"keep_texts,omitempty"`
	KeepHints bool `json:"keep_hints,omitempty"`
}

// Narrower narrows by r.
func (r Rules) Narrower() *Narrower {
	return NewNarrower(r.Rules, Options{KeepTexts: r.KeepTexts, KeepHints: r.KeepHints})
}

// JSON is the rules on one line.
func (r Rules) JSON() json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		panic(err) // maps, lists and texts
	}
	return bytes.TrimSpace(b.Bytes())
}

// ParseRules reads what JSON wrote. A member that it does not know is an error:
// it could change what is narrowed.
func ParseRules(text json.RawMessage) (Rules, error) {
	var r Rules
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Rules{}, fmt.Errorf("rules of a recording: %w", err)
	}
	return r, nil
}
