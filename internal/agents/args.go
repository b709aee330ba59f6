package agents

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// ErrArgument says that a call lacks an argument that its tool can't do
// without, or has it in a type that the tool doesn't take. The message names
// the argument.
var ErrArgument = errors.New("the call's arguments don't fit its tool")

// Value is one argument as the model wrote it, decoded.
type Value struct {
	// Path is the Arg's path.
	Path string
	// Text is the string, when List is nil.
	Text string
	// List is the array, not nil when the argument is one. Of an object it has
	// NAME=VALUE for each member, in the order of the call.
	List []string
}

// Path is a path that a call names, decoded and otherwise as written:
// relative ones are relative to whatever the client makes of them.
type Path struct {
	Path string
	Op   Op
}

// Commands returns the commands that a call of t would run. args must be one
// JSON object without doubled keys, which the caller has checked; anything
// else is an error. No command and no error means that the call says nothing
// of what it runs: a shell call like that is opaque.
//
// Errors wrap ErrArgument. Values are copies.
func (t Tool) Commands(args []byte) ([]Value, error) { return find(args, t.Command) }

// Programs is Commands for the arguments that are code in other languages.
func (t Tool) Programs(args []byte) ([]Value, error) { return find(args, t.Code) }

// Dirs is Commands for the directories in which a command starts.
func (t Tool) Dirs(args []byte) ([]Value, error) { return find(args, t.Dir) }

// Interpreters is Commands for the programs that read a command.
func (t Tool) Interpreters(args []byte) ([]Value, error) { return find(args, t.Interpreter) }

// Environment is Commands for the variables that a command gets: one
// NAME=VALUE each.
func (t Tool) Environment(args []byte) ([]string, error) {
	found, err := find(args, t.Env)
	var out []string
	for _, v := range found {
		out = append(out, v.List...)
	}
	return out, err
}

// PathsIn returns the paths that a call of t names in path arguments and in
// patches, without the directories of Dirs; each once for each Op, in the
// order of the table and, for one argument, of the call. A patch that can't be
// read to its end is an error: its paths would not be all. args and errors are
// as for Commands.
func (t Tool) PathsIn(args []byte) ([]Path, error) {
	var out []Path
	seen := map[Path]bool{}
	add := func(p Path) {
		if p.Path != "" && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, a := range t.Paths {
		vs, err := find(args, []Arg{a})
		if err != nil {
			return nil, err
		}
		for _, v := range vs {
			if v.List == nil {
				add(Path{v.Text, a.Op})
			}
			for _, s := range v.List {
				add(Path{s, a.Op})
			}
		}
	}
	patches, err := find(args, t.Patch)
	if err != nil {
		return nil, err
	}
	for _, v := range patches {
		if err := CheckPatch(v.Text); err != nil {
			return nil, err
		}
		for _, p := range PatchPaths(v.Text) {
			add(p)
		}
	}
	return out, nil
}

// find looks the arguments up. Keys match with their case folded, because
// clients written in Go decode them so: what one client would ignore is at
// worst judged in vain.
func find(args []byte, table []Arg) ([]Value, error) {
	if !gjson.ValidBytes(args) {
		return nil, fmt.Errorf("%w: they are not JSON", ErrArgument)
	}
	root := gjson.ParseBytes(args)
	if !root.IsObject() {
		return nil, fmt.Errorf("%w: they are not an object", ErrArgument)
	}
	var out []Value
	for _, a := range table {
		found := descend(root, a.Path)
		seen := false
		for _, r := range found {
			if r.Type == gjson.Null {
				continue
			}
			v, ok := a.value(r)
			if !ok {
				return nil, fmt.Errorf("%w: %s is %s", ErrArgument, a.Path, typeName(r))
			}
			seen, out = true, append(out, v)
		}
		if a.Required && !seen {
			return nil, fmt.Errorf("%w: %s is missing", ErrArgument, a.Path)
		}
	}
	return out, nil
}

// descend follows a path of the table and returns all that it leads to.
func descend(at gjson.Result, path string) []gjson.Result {
	if path == "" {
		return []gjson.Result{at}
	}
	step, rest, _ := strings.Cut(path, ".")
	name, each := strings.CutSuffix(step, "[]")
	if !at.IsObject() {
		return nil
	}
	var out []gjson.Result
	at.ForEach(func(key, value gjson.Result) bool {
		if !strings.EqualFold(key.Str, name) {
			return true
		}
		if !each {
			out = append(out, descend(value, rest)...)
			return true
		}
		if !value.IsArray() {
			// A string in the place of an array of paths still names a path.
			if rest == "" {
				out = append(out, value)
			}
			return true
		}
		value.ForEach(func(_, element gjson.Result) bool {
			out = append(out, descend(element, rest)...)
			return true
		})
		return true
	})
	return out
}

// value decodes one result, if it has a type that the argument may have.
func (a Arg) value(r gjson.Result) (Value, bool) {
	switch {
	case r.Type == gjson.String && a.Form&String != 0:
		return Value{Path: a.Path, Text: r.String()}, true
	case r.IsArray() && a.Form&List != 0:
		list := []string{}
		for _, e := range r.Array() {
			if e.Type != gjson.String {
				return Value{}, false
			}
			list = append(list, e.String())
		}
		return Value{Path: a.Path, List: list}, true
	case r.IsObject() && a.Form&Map != 0:
		list, ok := []string{}, true
		r.ForEach(func(name, value gjson.Result) bool {
			ok = value.Type == gjson.String
			list = append(list, name.String()+"="+value.String())
			return ok
		})
		return Value{Path: a.Path, List: list}, ok
	}
	return Value{}, false
}

func typeName(r gjson.Result) string {
	switch {
	case r.IsObject():
		return "an object"
	case r.IsArray():
		return "an array"
	case r.Type == gjson.Number:
		return "a number"
	case r.IsBool():
		return "a boolean"
	}
	return "a string"
}
