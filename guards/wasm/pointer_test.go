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
		`"s":"\u0041\/\n\ud83d\ude00\"","o":{"x":{"y":[[],[[1.50]],{"z":null}]}},"t":true,"\u0065sc":"e","num":12345678901234567890}`
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
		{"/num", "12345678901234567890", true, true},
		{"/absent", "", false, true},
		{"foo", "", false, false},
		{"/m~n", "", false, false},
		{"/m~2n", "", false, false},
		{"/m~", "", false, false},
		{"/\xff", "", false, false},
	} {
		t.Run(tc.ptr, func(t *testing.T) {
			var d document
			if err := d.parse([]byte(doc)); err != nil {
				t.Fatal(err)
			}
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
		var d document
		if err := d.parse(b); err != nil {
			t.Fatal(err)
		}
		for ptr, want := range at {
			got, found, ok := d.get(ptr)
			if string(got) != want || !found || !ok {
				t.Fatalf("%q in %s: got %q, %v, %v; want %q", ptr, b, got, found, ok, want)
			}
		}
	})
}

// walk answers a pointer by way of decoded values, the plain way of RFC 6901:
// what get has to agree with.
func walk(doc []byte, ptr string) (value []byte, found bool) {
	raw := json.RawMessage(doc)
	for ptr != "" {
		token, rest, more := strings.Cut(ptr[1:], "/")
		if ptr = ""; more {
			ptr = "/" + rest
		}
		var object map[string]json.RawMessage
		var array []json.RawMessage
		switch raw[0] {
		case '{':
			if json.Unmarshal(raw, &object) != nil {
				return nil, false
			}
			if raw, found = object[strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")]; !found {
				return nil, false
			}
		case '[':
			i, err := strconv.Atoi(token)
			if json.Unmarshal(raw, &array) != nil || err != nil || strconv.Itoa(i) != token || i < 0 || i >= len(array) {
				return nil, false
			}
			raw = array[i]
		default:
			return nil, false
		}
	}
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return []byte(s), true
	}
	return raw, true
}

// FuzzPointer: get answers as a walk over decoded values does, the first time
// and when asked again.
func FuzzPointer(f *testing.F) {
	for _, s := range [][3]string{
		{`{"a":[1,{"b":"\""}]}`, "/a/1/b", "/a/0"},
		{`{"a/b":{"":[]}}`, "/a~1b//0", "/a~1b/"},
		{`"x"`, "", "/0"},
		{`[["\ud83d\ude00","\ud83d"],[1e5,-0],[]]`, "/0/1", "/1/1"},
		{`{"~1":1,"/":2,"~":{"0":[0]},"\u0061":null}`, "/~01", "/a"},
		{`[0,1,2,3,4,5,6,7,8,9,[10]]`, "/10/0", "/01"},
		{`[{"0":"o"}]`, "/0/0", "/-"},
		{`{"a":1}`, "a", "/~"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, text, first, second string) {
		doc := compact(json.RawMessage(text))
		var d document
		if d.parse(doc) != nil {
			if v, found, _ := d.get(first); found {
				t.Fatalf("a text that was refused answers %q", v)
			}
			return
		}
		for _, ptr := range []string{first, second, first} {
			got, found, ok := d.get(ptr)
			if ok != wellFormed(ptr) {
				t.Fatalf("%q is well-formed: %v, get says %v", ptr, wellFormed(ptr), ok)
			}
			if !ok {
				continue
			}
			want, there := walk(doc, ptr)
			if found != there || string(got) != string(want) {
				t.Fatalf("%q in %s: got %q, %v; want %q, %v", ptr, doc, got, found, want, there)
			}
		}
	})
}

// Two readers could see two documents in these: they are refused as a whole.
func TestDocumentRefused(t *testing.T) {
	for _, text := range []string{"", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "\"\xff\"", `[1,]`, `{} {}`} {
		var d document
		if d.parse([]byte(text)) == nil {
			t.Errorf("%q is taken", text)
		}
		if _, found, ok := d.get(""); found || !ok {
			t.Errorf("%q: the document is found %v, the pointer is good %v", text, found, ok)
		}
	}
}

// Every word of 4,096 commands, read in order and by one: the work of a guard
// that looks at all of a long script.
func BenchmarkGet(b *testing.B) {
	const commands = 4096
	argv := strings.TrimSuffix(strings.Repeat(`["cp","-r","a\\b","c"],`, commands), ",")
	text := []byte(`{"abi":"guard/1","call":{"arguments":{"command":"` + strings.Repeat("cp -r a c;", commands) + `"},"shell":{"argv":[` + argv + `],"opaque":false}}}`)
	var words, lists []string
	for i := range commands {
		lists = append(lists, "/call/shell/argv/"+strconv.Itoa(i))
		for j := range 4 {
			words = append(words, lists[i]+"/"+strconv.Itoa(j))
		}
	}
	for _, bc := range []struct {
		name string
		ptrs []string
	}{{"words", words}, {"lists", lists}} {
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var d document
				if err := d.parse(text); err != nil {
					b.Fatal(err)
				}
				for _, ptr := range bc.ptrs {
					if _, found, _ := d.get(ptr); !found {
						b.Fatal(ptr)
					}
				}
			}
		})
	}
}
