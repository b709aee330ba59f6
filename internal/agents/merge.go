package agents

import (
	"cmp"
	"slices"
	"strings"
)

// Merge combines entries of one name for the case that nobody knows which of
// them is meant. It errs on the side of judging more:
//
//   - the kind is the most watched one;
//   - an argument counts if any entry has it, in any type that one accepts,
//     and is required only if all entries require it;
//   - a path that any entry writes is written;
//   - all escalation fields count, with all their values;
//   - a parameter is harmless only if all entries say so;
//   - it is opaque, or an escalation as a whole, if any entry is;
//   - a refusal keeps its form only if all entries agree, since the common
//     form (an unknown tool) works with any client.
//
// The result doesn't depend on the order or the grouping of the entries, and
// merging an entry with itself changes nothing. Entries must have one name,
// and at least one must be given.
func Merge(entries ...Tool) Tool {
	out := canonical(entries[0])
	for _, e := range entries[1:] {
		e = canonical(e)
		if e.Kind.rank() > out.Kind.rank() {
			out.Kind = e.Kind
		}
		out.Command = mergeArgs(out.Command, e.Command)
		out.Code = mergeArgs(out.Code, e.Code)
		out.Patch = mergeArgs(out.Patch, e.Patch)
		out.Paths = mergeArgs(out.Paths, e.Paths)
		out.Dir = mergeArgs(out.Dir, e.Dir)
		out.Interpreter = mergeArgs(out.Interpreter, e.Interpreter)
		out.Env = mergeArgs(out.Env, e.Env)
		out.Escalation = mergeFields(out.Escalation, e.Escalation)
		out.Harmless = slices.DeleteFunc(out.Harmless, func(p string) bool { return !slices.Contains(e.Harmless, p) })
		if len(out.Harmless) == 0 {
			out.Harmless = nil
		}
		out.Escalates = out.Escalates || e.Escalates
		out.Opaque = out.Opaque || e.Opaque
		out.Seen = out.Seen || e.Seen
		if e.Refusal != out.Refusal {
			out.Refusal = ByClient
		}
	}
	return out
}

// canonical puts a tool's lists in order and joins doubled rows, on fresh
// slices. Merge relies on it.
func canonical(t Tool) Tool {
	t.Command, t.Code, t.Patch = ordered(t.Command), ordered(t.Code), ordered(t.Patch)
	t.Paths, t.Dir = ordered(t.Paths), ordered(t.Dir)
	t.Interpreter, t.Env = ordered(t.Interpreter), ordered(t.Env)
	t.Escalation = mergeFields(nil, t.Escalation)
	t.Harmless = slices.Compact(slices.Sorted(slices.Values(t.Harmless)))
	return t
}

func ordered(args []Arg) []Arg {
	args = slices.Clone(args)
	slices.SortFunc(args, func(a, b Arg) int { return strings.Compare(a.Path, b.Path) })
	return args
}

func mergeArgs(a, b []Arg) []Arg {
	byPath := func(x, y Arg) int { return strings.Compare(x.Path, y.Path) }
	var out []Arg
	for len(a) > 0 || len(b) > 0 {
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = byPath(a[0], b[0])
		}
		switch {
		case order < 0:
			out, a = append(out, optional(a[0])), a[1:]
		case order > 0:
			out, b = append(out, optional(b[0])), b[1:]
		default:
			m := a[0]
			m.Form |= b[0].Form
			m.Required = m.Required && b[0].Required
			m.Op = max(m.Op, b[0].Op) // "write" sorts after "read"
			out, a, b = append(out, m), a[1:], b[1:]
		}
	}
	return out
}

func optional(a Arg) Arg {
	a.Required = false
	return a
}

func mergeFields(a, b []Field) []Field {
	var out []Field
	for _, f := range slices.Concat(a, b) {
		f.Values = slices.Clone(f.Values)
		i := slices.IndexFunc(out, func(g Field) bool { return g.Name == f.Name })
		if i < 0 {
			out = append(out, f)
			i = len(out) - 1
		} else {
			out[i].Values = append(out[i].Values, f.Values...)
			out[i].Group = minNonEmpty(out[i].Group, f.Group)
		}
		slices.Sort(out[i].Values)
		out[i].Values = slices.Compact(out[i].Values)
	}
	slices.SortFunc(out, func(x, y Field) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// minNonEmpty lets a field that some client pairs stay paired.
func minNonEmpty(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return min(a, b)
}
