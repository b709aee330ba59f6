// Package cachecheck finds what moves a provider's prompt cache, from
// recordings alone.
//
// A [Reader] yields one [Exchange] after the other out of whatever holds them:
// guardproxy's own recordings, folders or lines of raw bodies, HAR, mitmproxy
// flows, Claude Code's raw-body folder, VCR cassettes. A [Checker] takes them
// one by one, finds which earlier request each one continues, compares the two
// block by block in the order in which the provider renders them, and gives a
// [Result]: the earliest place at which they part, what is lost there, and the
// cause, by a name of the taxonomy (see [Labels]).
//
//	r, err := cachecheck.Open("session.jsonl", file)
//	c := cachecheck.New(cachecheck.Options{})
//	for {
//		x, err := r.Next()
//		if err != nil { // io.EOF at the end
//			break
//		}
//		res := c.Add(x)
//		fmt.Println(res.N, res.Label)
//	}
//	fmt.Println(c.Summary().Waste)
//
// Everything here is pure: bytes in, findings out; no clock, no network, no
// file that was not handed in. Memory is bounded by the largest exchange and by
// Options.Retain, not by the length of a recording.
//
// Three rules of judgement hold everywhere. What was not reported is never a
// miss. What can't be compared is counted, with the reason. And of several
// changes the earliest is the cause, since it hides the rest.
package cachecheck
