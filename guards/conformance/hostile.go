package conformance

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/guardproxy/guardproxy/internal/command"
)

// input is a call that no author thinks of. A guard may judge it as it likes,
// and has to judge it.
type input struct {
	name string
	call Call
	raw  bool // give the call even if the proxy would refuse it before
}

// hostile lists the inputs that every guard is given.
func hostile() []input {
	shell := func(script string) Call {
		b, _ := json.Marshal(map[string]string{"command": script}) // a map of strings
		return Call{Name: "bash", Arguments: b}
	}
	args := func(tool, text string) Call { return Call{Name: tool, Arguments: json.RawMessage(text)} }
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	var patch strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&patch, "*** Update File: src/dir%d/file.go\\n", i)
	}
	return []input{
		{name: "no arguments", call: args("bash", "")},
		{name: "an empty object", call: args("bash", "{}")},
		{name: "an empty command", call: shell("")},
		{name: "a command of one space", call: shell(" ")},
		{name: "a command of wrong type", call: args("frob", `{"command":7,"cmd":{},"script":[[]],"code":null,"path":[],"file_path":true}`), raw: true},
		{name: "an empty argv", call: args("shell", `{"command":[]}`)},
		{name: "empty words", call: args("shell", `{"command":["ls","",""]}`)},
		{name: "a NUL", call: args("shell", `{"command":["ls","a\u0000b","\u0000"]}`)},
		{name: "control characters", call: shell("ls '\x01\x02\x1b[31m\x7f\t\n\r'")},
		{name: "quotes and backslashes", call: shell(`ls '"' '\' '\"' '\\u0041'`)},
		{name: "line separators and emoji", call: shell("ls '\u2028\u2029\u0085\ufeff' 😀")},
		{name: "half of a surrogate pair", call: args("bash", `{"command":"ls \ud83d x"}`)},
		{name: "a long word", call: shell("ls " + strings.Repeat("x", 200<<10))},
		{name: "more than a script may have", call: shell("ls " + strings.Repeat("x", command.MaxScript))},
		{name: "many words", call: shell("ls" + strings.Repeat(" src/file.c", 20_000))},
		{name: "the most words", call: shell("ls" + strings.Repeat(" a", (command.MaxScript-2)/2))},
		{name: "the most commands", call: shell(strings.Repeat("a b\n", command.MaxCommands))},
		{name: "more than the most commands", call: shell(strings.Repeat("a b\n", command.MaxCommands+1))},
		{name: "nested subshells", call: shell(deep("( ", " )", 200))},
		{name: "nested substitutions", call: shell(deep("$( a ", ")", 200))},
		{name: "nested shells", call: shell(strings.Repeat("bash -c ", 300) + "ls")},
		{name: "many wrappers", call: shell(strings.Repeat("sudo ", 300) + "ls")},
		{name: "not shell", call: shell("if then fi ( ; ;; && <<")},
		{name: "a long here-document", call: shell("cat <<'E'\n" + strings.Repeat("some text of a file\n", 5000) + "E")},
		{name: "many redirections", call: shell("a" + strings.Repeat(" >b >c <d", 1000))},
		{name: "deep arguments", call: args("bash", `{"command":"ls","x":`+deep("[", "]", 120)+`}`)},
		{name: "many members", call: args("frob", "{"+members(5000)+"}")},
		{name: "large arguments", call: args("Write", `{"file_path":"/work/a","content":"`+strings.Repeat("x", 900<<10)+`"}`)},
		{name: "larger than is judged", call: args("Write", `{"file_path":"/work/a","content":"`+strings.Repeat("x", 1<<20)+`"}`)},
		{name: "many paths", call: args("apply_patch", `{"input":"*** Begin Patch\n`+patch.String()+`*** End Patch"}`)},
		{name: "an empty path", call: args("Write", `{"file_path":"","content":""}`)},
		{name: "a long path", call: args("Read", `{"file_path":"/`+strings.Repeat("a/", 100<<10)+`"}`)},
		{name: "an unknown tool", call: args("frobnicate", `{"x":[1,2.5e300,-0,true,null]}`)},
		{name: "a tool without a name", call: args("", `{"x":"y"}`)},
		{name: "numbers of any size", call: args("frob", `{"x":`+strings.Repeat("9", 5000)+`,"y":1e-400}`)},
		{name: "arguments that are no object", call: args("bash", `[]`), raw: true},
		{name: "invalid UTF-8", call: args("bash", "{\"command\":\"ls \xff\xfe\"}"), raw: true},
		{name: "cut off", call: args("bash", `{"command":"l`), raw: true},
		{name: "a doubled key", call: args("bash", `{"command":"ls","command":"id"}`), raw: true},
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"member%d":%d`, i, i)
	}
	return b.String()
}
