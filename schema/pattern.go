package schema

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first asked. The
// patterns of this package take longer to compile than a short program to run,
// and most programs that link it narrow nothing.
type pattern struct{ compiled func() *regexp.Regexp }

// patterns are all that there are.
var patterns []*pattern

func lazily(expr string) *pattern {
	p := &pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
	patterns = append(patterns, p)
	return p
}

func (p *pattern) MatchString(s string) bool            { return p.compiled().MatchString(s) }
func (p *pattern) FindString(s string) string           { return p.compiled().FindString(s) }
func (p *pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }
