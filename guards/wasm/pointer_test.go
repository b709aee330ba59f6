package wasm

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPointer(t *testing.T) {
	// The first members are the examples of RFC 6901, section 5.
	const doc = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,` +
		`"s":"\u0041\/\n\ud83d\ude00\"","o":{"x":{"y":[[],[[1.50]],{"z":null}]}},"t":true,"\u0065sc":"e","d":1,"d":2,"num":12345678901234567890}`
	for _, tc := range []struct {
		ptr, want string
		found     bool
		ok        bool
	}{
		{"", doc, true, true},
		{"/foo", `["bar","baz"]`, true, true},
		{"/foo/0", "bar", true, true},
		{"/foo/1", "baz", true, true},
		{"/foo/2", "", false, true},
		{"/foo/-", "", false, true},
		{"/foo/00", "", false, true},
		{"/foo/01", "", false, true},
		{"/foo/+1", "", false, true},
		{"/foo/99999999999999999999", "", false, true},
		{"/foo/", "", false, true},
		{"/foo/0/x", "", false, true},
		{"/", "0", true, true},
		{"/a~1b", "1", true, true},
		{"/c%d", "2", true, true},
		{"/e^f", "3", true, true},
		{"/g|h", "4", true, true},
		{`/i\j`, "5", true, true},
		{`/k"l`, "6", true, true},
		{"/ ", "7", true, true},
		{"/m~0n", "8", true, true},
		{"/s", "A/\n😀\"", true, true},
		{"/o/x/y/1/0/0", "1.50", true, true},
		{"/o/x/y/2/z", "null", true, true},
		{"/o/x/y/0", "[]", true, true},
		{"/o/x/y/0/0", "", false, true},
		{"/o/x/y/2", `{"z":null}`, true, true},
		{"/t", "true", true, true},
		{"/t/x", "", false, true},
		{"/esc", "e", true, true},
		{"/d", "2", true, true}, // of equal keys the last
		{"/num", "12345678901234567890", true, true},
		{"/absent", "", false, true},
		{"foo", "", false, false},
		{"/m~n", "", false, false},
		{"/m~2n", "", false, false},
		{"/m~", "", false, false},
		{"/\xff", "", false, false},
	} {
		t.Run(tc.ptr, func(t *testing.T) {
			d := document{json: []byte(doc)}
			for range 2 { // the second time from where the first ended
				v, found, ok := d.get(tc.ptr)
				if string(v) != tc.want || found != tc.found || ok != tc.ok {
					t.Errorf("got %q, %v, %v; want %q, %v, %v", v, found, ok, tc.want, tc.found, tc.ok)
				}
			}
		})
	}
}

// value draws a JSON value with its pointers: pointer to expected answer.
func value(t *rapid.T, depth int, ptr string, at map[string]string) any {
	n := 5
	if depth == 0 {
		n = 3
	}
	switch rapid.IntRange(0, n).Draw(t, "kind") {
	case 0:
		at[ptr] = "null"
		return nil
	case 1:
		v := rapid.Int().Draw(t, "number")
		at[ptr] = strconv.Itoa(v)
		return v
	case 2, 3:
		v := rapid.String().Draw(t, "string")
		at[ptr] = v
		return v
	case 4:
		v := []any{}
		for i := range rapid.IntRange(0, 4).Draw(t, "length") {
			v = append(v, value(t, depth-1, ptr+"/"+strconv.Itoa(i), at))
		}
		b, _ := json.Marshal(v)
		at[ptr] = string(b)
		return v
	default:
		v := map[string]any{}
		for _, k := range rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("ab/~\"\\é\n0")), 0, 3, -1), 0, 4, rapid.ID).Draw(t, "keys") {
			v[k] = value(t, depth-1, ptr+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), at)
		}
		b, _ := json.Marshal(v)
		at[ptr] = string(b)
		return v
	}
}

// For all documents, every value is found by its pointer, whatever was asked
// before.
func TestPointerFindsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := map[string]string{}
		b, err := json.Marshal(value(t, 4, "", at))
		if err != nil {
			t.Fatal(err)
		}
		d := document{json: b}
		for ptr, want := range at {
			got, found, ok := d.get(ptr)
			if string(got) != want || !found || !ok {
				t.Fatalf("%q in %s: got %q, %v, %v; want %q", ptr, b, got, found, ok, want)
			}
		}
	})
}

func FuzzPointer(f *testing.F) {
	f.Add(`{"a":[1,{"b":"\""}]}`, "/a/1/b")
	f.Add(`{"a/b":{"":[]}}`, "/a~1b//0")
	f.Add(`"x"`, "")
	f.Fuzz(func(t *testing.T, doc, ptr string) {
		if !json.Valid([]byte(doc)) {
			return
		}
		d := document{json: compact(json.RawMessage(doc))}
		v1, f1, _ := d.get(ptr)
		v2, f2, _ := d.get(ptr)
		if string(v1) != string(v2) || f1 != f2 {
			t.Fatal("two answers")
		}
	})
}
