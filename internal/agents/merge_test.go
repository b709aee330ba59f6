package agents

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// For every two entries of one name: what either would judge, the merge does.
func TestMergeOfEachPairJudgesWhatEitherJudges(t *testing.T) {
	pairs := 0
	for _, name := range sharedNames() {
		var all []Tool
		for _, c := range Builtin().Clients() {
			if tool, ok := c.tool(name); ok {
				all = append(all, tool)
			}
		}
		for i, a := range all {
			for _, b := range all[i+1:] {
				pairs++
				checkCovers(t, Merge(a, b), a, b)
			}
		}
		whole, _ := Builtin().ByName(name, nil)
		checkCovers(t, whole, all...)
		checkTool(t, "merge of "+name, whole)
	}
	if pairs < 20 {
		t.Errorf("only %d pairs share a name: the table lost entries", pairs)
	}
}

type reporter interface{ Errorf(string, ...any) }

func checkCovers(t reporter, m Tool, parts ...Tool) {
	for _, p := range parts {
		at := "merge of " + m.Name
		if m.Kind.rank() < p.Kind.rank() {
			t.Errorf("%s: kind %s is watched less than %s", at, m.Kind, p.Kind)
		}
		for _, lists := range [][2][]Arg{{m.Command, p.Command}, {m.Code, p.Code}, {m.Patch, p.Patch}, {m.Paths, p.Paths}, {m.Dir, p.Dir}} {
			for _, a := range lists[1] {
				i := slices.IndexFunc(lists[0], func(x Arg) bool { return x.Path == a.Path })
				if i < 0 {
					t.Errorf("%s: argument %s is lost", at, a.Path)
					continue
				}
				got := lists[0][i]
				if got.Form&a.Form != a.Form {
					t.Errorf("%s: argument %s lost a type", at, a.Path)
				}
				if got.Required && !a.Required {
					t.Errorf("%s: argument %s is required though an entry doesn't need it", at, a.Path)
				}
				if a.Op == OpWrite && got.Op != OpWrite {
					t.Errorf("%s: argument %s is no longer written", at, a.Path)
				}
			}
		}
		for _, f := range p.Escalation {
			i := slices.IndexFunc(m.Escalation, func(x Field) bool { return x.Name == f.Name })
			if i < 0 {
				t.Errorf("%s: field %s is lost", at, f.Name)
				continue
			}
			for _, v := range f.Values {
				if !slices.Contains(m.Escalation[i].Values, v) {
					t.Errorf("%s: value %s is lost", at, v)
				}
			}
			if f.Group != "" && m.Escalation[i].Group == "" {
				t.Errorf("%s: field %s lost its partners", at, f.Name)
			}
		}
		for _, h := range m.Harmless {
			if !slices.Contains(p.Harmless, h) {
				t.Errorf("%s: %s is harmless for some only", at, h)
			}
		}
		if p.Opaque && !m.Opaque || p.Escalates && !m.Escalates {
			t.Errorf("%s: a mark is lost", at)
		}
		if m.Refusal != ByClient && m.Refusal != p.Refusal {
			t.Errorf("%s: refused as %s, which an entry doesn't take", at, m.Refusal)
		}
	}
}

func toolGen(name string) *rapid.Generator[Tool] {
	return rapid.Custom(func(t *rapid.T) Tool {
		args := func(label string, ops []Op) []Arg {
			paths := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"command", "cmd", "path", "edits[].path"}), 0, 3, rapid.ID[string]).Draw(t, label)
			var out []Arg
			for i, p := range paths {
				out = append(out, Arg{Path: p,
					Form:     rapid.SampledFrom([]Form{String, List, String | List}).Draw(t, fmt.Sprint(label, " form ", i)),
					Required: rapid.Bool().Draw(t, fmt.Sprint(label, " required ", i)),
					Op:       rapid.SampledFrom(ops).Draw(t, fmt.Sprint(label, " op ", i))})
			}
			return out
		}
		var fields []Field
		for i, f := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "fields") {
			fields = append(fields, Field{Name: f,
				Values: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID[string]).Draw(t, fmt.Sprint("values ", i)),
				Group:  rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, fmt.Sprint("group ", i))})
		}
		return Tool{
			Name: name, Kind: rapid.SampledFrom([]Kind{Shell, Code, Write, Read, Other}).Draw(t, "kind"),
			Command: args("command", []Op{""}), Code: args("code", []Op{""}), Patch: args("patch", []Op{""}),
			Paths: args("paths", []Op{OpRead, OpWrite}), Dir: args("dir", []Op{""}),
			Escalation: fields, Escalates: rapid.Bool().Draw(t, "escalates"), Opaque: rapid.Bool().Draw(t, "opaque"),
			Harmless: rapid.SliceOfN(rapid.SampledFrom([]string{"command", "code"}), 0, 2).Draw(t, "harmless"),
			Refusal:  rapid.SampledFrom([]Refusal{ByClient, Printf, Text}).Draw(t, "refusal"), Seen: rapid.Bool().Draw(t, "seen"),
		}
	})
}

func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := toolGen("x").Draw(t, "a"), toolGen("x").Draw(t, "b"), toolGen("x").Draw(t, "c")
		same := func(law string, x, y Tool) {
			if diff := cmp.Diff(x, y); diff != "" {
				t.Fatalf("%s:\n%s", law, diff)
			}
		}
		same("order doesn't matter", Merge(a, b), Merge(b, a))
		same("grouping doesn't matter", Merge(Merge(a, b), c), Merge(a, Merge(b, c)))
		same("itself adds nothing", Merge(a, a), Merge(a))
		same("all at once or one by one", Merge(a, b, c), Merge(Merge(a, b), c))
		checkCovers(t, Merge(a, b, c), a, b, c)
	})
}

// Merging must not write into the entries it reads.
func TestMergeLeavesItsEntriesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := toolGen("x").Draw(t, "a")
		for i := range a.Escalation {
			slices.Reverse(a.Escalation[i].Values)
		}
		before := fmt.Sprintf("%+v", a)
		Merge(a, toolGen("x").Draw(t, "b"))
		if after := fmt.Sprintf("%+v", a); after != before {
			t.Fatalf("entry changed\nfrom %s\nto   %s", before, after)
		}
	})
}
