package cachecheck_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/guardproxy/guardproxy/cachecheck"
)

// Two requests of one conversation; the second one has a later time in its
// system text.
func Example() {
	const recording = `{"model":"gpt-5","messages":[{"role":"system","content":"It is 10:15. Be kind."},{"role":"user","content":"Hello."}]}
{"model":"gpt-5","messages":[{"role":"system","content":"It is 10:16. Be kind."},{"role":"user","content":"Hello."},{"role":"assistant","content":"Good morning."},{"role":"user","content":"What now?"}]}
`
	r, err := cachecheck.Open("session.jsonl", strings.NewReader(recording))
	if err != nil {
		fmt.Println(err)
		return
	}
	c := cachecheck.New(cachecheck.Options{})
	for {
		x, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		res := c.Add(x)
		fmt.Printf("%d %s: %q\n", res.N, res.Label, res.Detail)
	}
	fmt.Println(c.Summary().Waste, "of", c.Summary().Compared)
	// Output:
	// 1 first: ""
	// 2 system.time: "a date or time, changing by the minute, at byte 6 of the block (26% of the system text)"
	// 1 of 1
}
