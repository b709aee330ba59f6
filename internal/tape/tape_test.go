package tape

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the text ends where a value should start at byte 0"},
		{"only space", " \n", "the text ends where a value should start at byte 2"},
		{"cut object", `{"a":1`, "the text ends inside an object at byte 6"},
		{"cut string", `{"a`, "the text ends inside a string at byte 3"},
		{"two values", `{} {}`, "more text after the value at byte 3"},
		{"trailing comma", `[1,]`, "no JSON value at byte 3"},
		{"trailing comma in an object", `{"a":1,}`, "a key is missing at byte 7"},
		{"same key", `{"a":1,"b":2,"a":3}`, "a key that the object has already at byte 13"},
		{"same key, escaped", `{"a":1,"\u0061":3}`, "a key that the object has already at byte 7"},
		{"same key, deep", `[{"x":{"a":1,"a":1}}]`, "a key that the object has already at byte 13"},
		{"same key among many", `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"c":1}`, "a key that the object has already at byte 79"},
		{"raw newline in a string", "\"a\nb\"", "a control character inside a string at byte 2"},
		{"bad escape", `"\x"`, "an unknown escape at byte 1"},
		{"bad \\u", `"\u12g4"`, "a broken \\u escape at byte 1"},
		{"leading zero", `01`, "more text after the value at byte 1"},
		{"bare minus", `-`, "no JSON value at byte 0"},
		{"NaN", `NaN`, "no JSON value at byte 0"},
		{"nul word", `nul`, "an unknown word at byte 0"},
		{"invalid UTF-8", "\"\xff\"", "invalid UTF-8 at byte 1"},
		{"byte order mark", "\ufeff{}", "no JSON value at byte 0"},
		{"mismatched", `[}`, "no JSON value at byte 1"},
		{"comment", `{/**/}`, "a key is missing at byte 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tp Tape
			err := tp.Parse([]byte(c.in))
			if err == nil || err.Error() != c.want {
				t.Fatalf("Parse(%q) = %v, want %q", c.in, err, c.want)
			}
			if tp.Len() != 0 {
				t.Error("a refused text left nodes behind")
			}
		})
	}
	var tp Tape
	if err := tp.Parse([]byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1))); err == nil {
		t.Error("nesting over MaxDepth was accepted")
	}
	if err := tp.Parse([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))); err != nil || tp.Depth() != MaxDepth {
		t.Errorf("nesting of MaxDepth: %v, depth %d", err, tp.Depth())
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		in        string
		lone, nul bool
		value     string
	}{
		{`"\ud83d\ude00"`, false, false, "😀"},
		{`"\ud83d"`, true, false, "\ufffd"},
		{`"\ude00\ud83d"`, true, false, "\ufffd\ufffd"},
		{`"\ud83d\ud83d\ude00"`, true, false, "\ufffd😀"},
		{`"a\u0000b"`, false, true, "a\x00b"},
		{`"\\u0000"`, false, false, `\u0000`},
		{`"\/\"\b\f\n\r\t\\"`, false, false, "/\"\b\f\n\r\t\\"},
	} {
		var tp Tape
		if err := tp.Parse([]byte(c.in)); err != nil {
			t.Fatal(c.in, err)
		}
		if tp.LoneSurrogate() != c.lone || tp.NUL() != c.nul || tp.Str(0) != c.value {
			t.Errorf("%s: lone %v, nul %v, value %q", c.in, tp.LoneSurrogate(), tp.NUL(), tp.Str(0))
		}
	}
}

// build turns a tape back into Go values, as encoding/json would decode them.
func build(t *Tape, i int) any {
	switch t.Kind(i) {
	case Object:
		m := map[string]any{}
		for k := i + 1; k < t.After(i); k = t.After(k + 1) {
			m[t.Str(k)] = build(t, k+1)
		}
		return m
	case Array:
		a := []any{}
		for c := i + 1; c < t.After(i); c = t.After(c) {
			a = append(a, build(t, c))
		}
		return a
	case String:
		return t.Str(i)
	case Number:
		return json.Number(t.Raw(i))
	case True:
		return true
	case False:
		return false
	}
	return nil
}

func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// value draws a JSON value whose objects have distinct keys.
func value(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	return rapid.OneOf(append(scalars,
		rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(a []any) any { return a }),
		rapid.Map(rapid.MapOfN(rapid.String(), value(depth-1), 0, 15), func(m map[string]any) any { return m }),
	)...)
}

func TestIndexIsTheDocument(t *testing.T) {
	var tp Tape // one tape for all: reuse must not leak a document into the next
	rapid.Check(t, func(r *rapid.T) {
		src, err := json.Marshal(value(3).Draw(r, "value"))
		if err != nil {
			r.Fatal(err)
		}
		if rapid.Bool().Draw(r, "indent") {
			var b bytes.Buffer
			json.Indent(&b, src, " ", "\t")
			src = b.Bytes()
		}
		if err := tp.Parse(src); err != nil {
			r.Fatalf("%s: %v", src, err)
		}
		want, _ := decode(src)
		if diff := cmp.Diff(want, build(&tp, 0)); diff != "" {
			r.Fatal(diff)
		}
		var other Tape
		if err := other.Parse(src); err != nil || !Equal(&tp, 0, &other, 0) {
			r.Fatal("a document is not equal to itself")
		}
		if err := other.ParseLoose(src); err != nil || !slices.Equal(tp.nodes, other.nodes) {
			r.Fatalf("read loosely, %s has other nodes", src)
		}
	})
}

func TestQuoteRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := rapid.String().Draw(r, "s")
		q := Quote(nil, s)
		var back string
		if err := json.Unmarshal(q, &back); err != nil || back != s {
			r.Fatalf("%q: %s: %q, %v", s, q, back, err)
		}
		var tp Tape
		if err := tp.Parse(q); err != nil || tp.Str(0) != s {
			r.Fatalf("%q: %v", s, err)
		}
	})
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, ` { "b":[true , null],"\u0061":1.0}`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"b":2}`, `{"a":1,"c":2}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`"\u00e9"`, `"é"`, true},
		{`1e2`, `100`, true},
		{`1`, `"1"`, false},
		{`null`, `false`, false},
	} {
		var a, b Tape
		if a.Parse([]byte(c.a)) != nil || b.Parse([]byte(c.b)) != nil {
			t.Fatal(c)
		}
		if got := Equal(&a, 0, &b, 0); got != c.want {
			t.Errorf("Equal(%s, %s) = %v", c.a, c.b, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"\ud83d\ude00"],"b":{"c":null}}`, `[]`, `"\u0000"`, `{"a":1,"\u0061":2}`, "\xff", `[1,2`, `{"a":tru}`, `1e`, `0.`, ` {"k" : "v" } `, `["\x", "\u12", "\\\""]`, "[\"a\nb\\\\\"]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var tp, loose Tape
		// Read loosely, a text has the same nodes, and a broken one has some
		// that can be asked for.
		slack := loose.ParseLoose(src)
		if slack == nil {
			build(&loose, 0)
		}
		if err := tp.Parse(src); err != nil {
			if e := err.(*Error); e.Offset < 0 || e.Offset > len(src) {
				t.Fatalf("offset %d of %d", e.Offset, len(src))
			}
			return
		}
		if slack != nil || !slices.Equal(tp.nodes, loose.nodes) {
			t.Fatalf("read loosely, %q has other nodes: %v", src, slack)
		}
		// What we accept, both other readers accept, with the same value.
		want, err := decode(src)
		if err != nil || !json.Valid(src) {
			t.Fatalf("accepted %q, which encoding/json refuses: %v", src, err)
		}
		if got := build(&tp, 0); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %#v, want %#v", src, got, want)
		}
		if tp.Kind(0) == Object {
			for k := 1; k < tp.After(0); k = tp.After(k + 1) {
				if got := tp.Get(0, tp.Str(k)); got != k+1 && !tp.LoneSurrogate() {
					t.Fatalf("Get(%q) = %d, want %d", tp.Str(k), got, k+1)
				}
			}
		}
	})
}

func body() []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"m","messages":[`)
	line := strings.Repeat("the quick brown fox said \\\"no\\\" and left\\n", 40)
	for i := 0; b.Len() < 400_000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":"` + line + `"}]}`)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkParse400K(b *testing.B) {
	src := body()
	if f := os.Getenv("TAPE_BODY"); f != "" {
		src, _ = os.ReadFile(f)
	}
	b.Run("tape", func(b *testing.B) {
		var tp Tape
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for b.Loop() {
			if err := tp.Parse(src); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tape, loose", func(b *testing.B) {
		var tp Tape
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for b.Loop() {
			if err := tp.ParseLoose(src); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("gjson.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			if !gjson.ValidBytes(src) {
				b.Fatal()
			}
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			if !json.Valid(src) {
				b.Fatal()
			}
		}
	})
}

// A key that repeats is an error for one reader and two members for the other;
// the tape may be used for both in turn.
func TestParseRepeats(t *testing.T) {
	var tp Tape
	src := []byte(`{"a":1,"\u0061":{"b":2,"b":3}}`)
	for range 2 {
		if err := tp.ParseRepeats(src); err != nil {
			t.Fatal(err)
		}
		if got := tp.Count(0); got != 2 {
			t.Fatalf("%d members", got)
		}
		if got := string(tp.Raw(tp.Get(0, "a"))); got != "1" {
			t.Fatalf("the first is %s", got)
		}
		if err := tp.Parse(src); err == nil {
			t.Fatal("Parse took a repeated key")
		}
		if err := tp.ParseRepeats([]byte(`{"a":1,"a"}`)); err == nil {
			t.Fatal("took broken JSON")
		}
	}
}

// What ParseLoose lets pass is decoded somehow, and what ends a string does not
// depend on what is in it.
func TestParseLoose(t *testing.T) {
	for src, want := range map[string][]any{
		`["\x","\u12","\uzzzz",""]`:   {"x", "\ufffd12", "\ufffdzzzz", ""},
		`["\\","\"","\\\"",1]`:        {`\`, `"`, `\"`, json.Number("1")},
		"[\"a\nb\",\"\\ud800\"]":      {"a\nb", "\ufffd"},
		`[{"a\"b":"c\\"},"\\\\\\\\"]`: {map[string]any{`a"b`: `c\`}, `\\\\`},
	} {
		var tp Tape
		if err := tp.ParseLoose([]byte(src)); err != nil {
			t.Errorf("%s: %v", src, err)
		} else if diff := cmp.Diff(any(want), build(&tp, 0)); diff != "" {
			t.Errorf("%s: %s", src, diff)
		}
	}
	for _, src := range []string{`"`, `"\"`, `["\\\"]`, `{"a":"b","a":"c"}`, `{"\x":1}`, "[\"\xff\"]", `["a"`} {
		var tp Tape
		if err := tp.ParseLoose([]byte(src)); err == nil {
			t.Errorf("%s was read", src)
		}
	}
}
