package cachecheck

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// A chain is a request's prompt as a list of blocks, in the order in which
// providers render it: tools, then instructions, then the messages, content
// block by content block. A message's own members (its role, say) are a block
// too, a frame: it holds no marker and counts as no position. Of a block the
// chain keeps a hash of its tokens without its cache markers: a marker that
// moves on changes no content. Members of the request beside the prompt are
// none of the chain; P2 holds that they stay as they are.
type chain struct {
	blocks []chainBlock
	buf    []byte
}

type chainBlock struct {
	hash  [16]byte
	node  int // of the value in the tape that was read
	start int // byte offset
	size  int // bytes without markers
	marks int // cache markers in it
	frame bool
	where string // JSON pointer; "" where nobody asks
}

// markerKeys mark a place up to which a provider keeps what it has read.
var markerKeys = []string{"cache_control", "prompt_cache_breakpoint", "cachePoint"}

func isMark(t *tape.Tape, key int) bool {
	return slices.ContainsFunc(markerKeys, func(m string) bool { return t.Is(key, m) })
}

func (c *chain) clone() chain { return chain{blocks: slices.Clone(c.blocks)} }

// read takes the blocks of a request.
func (c *chain) read(t *tape.Tape, dialect string) {
	c.blocks = c.blocks[:0]
	c.elements(t, t.Get(0, "tools"), "/tools")
	switch dialect {
	case "openai-responses":
		c.content(t, t.Get(0, "instructions"), "/instructions")
		in := t.Get(0, "input")
		if t.Kind(in) != tape.Array {
			c.content(t, in, "/input")
			break
		}
		for n, i := 0, in+1; i < t.After(in); n, i = n+1, t.After(i) {
			at := "/input/" + strconv.Itoa(n)
			c.parts(t, i, at, "content", "tools")
		}
	default:
		c.content(t, t.Get(0, "system"), "/system")
		ms := t.Get(0, "messages")
		if t.Kind(ms) != tape.Array {
			c.content(t, ms, "/messages")
			break
		}
		for n, i := 0, ms+1; i < t.After(ms); n, i = n+1, t.After(i) {
			c.parts(t, i, "/messages/"+strconv.Itoa(n), "content", "tool_calls")
		}
	}
	// A marker of the whole request stands for one on its last block.
	for k, end := 1, t.After(0); k < end && t.Kind(0) == tape.Object; k = t.After(k + 1) {
		if isMark(t, k) && t.Kind(k+1) == tape.Object && len(c.blocks) > 0 {
			c.blocks[len(c.blocks)-1].marks++
		}
	}
}

// parts takes an object whose named members are content, and the rest of it a
// frame before them.
func (c *chain) parts(t *tape.Tape, i int, at string, named ...string) {
	if t.Kind(i) != tape.Object {
		c.add(t, i, at, false, nil)
		return
	}
	var inner []int
	for _, name := range named {
		// An object without any is a block of its own: a call, say.
		if v := t.Get(i, name); t.Kind(v) == tape.Array || t.Kind(v) == tape.String {
			inner = append(inner, v)
		}
	}
	c.add(t, i, at, len(inner) > 0, inner)
	for _, name := range named {
		if v := t.Get(i, name); slices.Contains(inner, v) {
			c.content(t, v, at+"/"+name)
		}
	}
}

// content takes a text, or the elements of an array.
func (c *chain) content(t *tape.Tape, i int, at string) {
	if t.Kind(i) == tape.Array {
		c.elements(t, i, at)
	} else if i >= 0 {
		c.add(t, i, at, false, nil)
	}
}

func (c *chain) elements(t *tape.Tape, i int, at string) {
	if t.Kind(i) != tape.Array {
		return
	}
	for n, e := 0, i+1; e < t.After(i); n, e = n+1, t.After(e) {
		c.add(t, e, at+"/"+strconv.Itoa(n), false, nil)
	}
}

// add takes one block; what is without the values in except.
func (c *chain) add(t *tape.Tape, i int, at string, frame bool, except []int) {
	start, _ := t.Span(i)
	b := chainBlock{node: i, start: start, frame: frame, where: at}
	c.buf, b.marks = emit(c.buf[:0], t, i, except)
	b.size = len(c.buf)
	sum := sha256.Sum256(c.buf)
	copy(b.hash[:], sum[:])
	c.blocks = append(c.blocks, b)
}

// emit appends the tokens of a value without the markers in it, and counts
// those. Texts and numbers are spelled as they are, keys stay in their order.
func emit(dst []byte, t *tape.Tape, i int, except []int) ([]byte, int) {
	marks := 0
	switch t.Kind(i) {
	case tape.Object:
		dst = append(dst, '{')
		for k, end := i+1, t.After(i); k < end; k = t.After(k + 1) {
			if isMark(t, k) {
				if t.Kind(k+1) == tape.Object {
					marks++
				}
				continue
			}
			dst = append(append(dst, t.Raw(k)...), ':')
			if !slices.Contains(except, k+1) {
				var n int
				dst, n = emit(dst, t, k+1, except)
				marks += n
			}
			dst = append(dst, ',')
		}
		return append(dst, '}'), marks
	case tape.Array:
		dst = append(dst, '[')
		for e, end := i+1, t.After(i); e < end; e = t.After(e) {
			var n int
			dst, n = emit(dst, t, e, except)
			marks += n
			dst = append(dst, ',')
		}
		return append(dst, ']'), marks
	}
	return append(dst, t.Raw(i)...), 0
}

// shared counts the blocks at the start that two chains have in common.
func (c *chain) shared(o *chain) int {
	n := 0
	for n < len(c.blocks) && n < len(o.blocks) && c.blocks[n].hash == o.blocks[n].hash {
		n++
	}
	return n
}

// follow turns a map of nodes into one of blocks: for each block of c the block
// of out that it became, or -1. nodes nil gives nil.
func (c *chain) follow(out *chain, nodes []int) []int {
	if nodes == nil {
		return nil
	}
	at := map[int]int{}
	for j, b := range out.blocks {
		at[b.node] = j
	}
	to := make([]int, len(c.blocks))
	for i, b := range c.blocks {
		to[i] = -1
		if j, ok := at[nodes[b.node]]; ok && nodes[b.node] >= 0 {
			to[i] = j
		}
	}
	return to
}

// proofLookback is how many positions before a marker Anthropic looks for what an
// earlier request has written, the marker's own included.
const proofLookback = 20

// hit is the last block up to which a cache written by c's markers is found by
// o's, if their first shared blocks are the same; -1 for none.
func (c *chain) hit(o *chain, shared int) int {
	best, position := -1, 0
	positions := make([]int, len(o.blocks))
	for i, b := range o.blocks {
		if !b.frame {
			position++
		}
		positions[i] = position
	}
	for p := 0; p < shared && p < len(c.blocks); p++ {
		if c.blocks[p].marks == 0 {
			continue
		}
		for q := p; q < len(o.blocks); q++ {
			if o.blocks[q].marks > 0 && positions[q]-positions[p] < proofLookback {
				best = p
				break
			}
		}
	}
	return best
}

func (c *chain) marks() (n int) {
	for _, b := range c.blocks {
		n += b.marks
	}
	return n
}

func (c *chain) place(i int) string {
	if i < 0 || i >= len(c.blocks) {
		return ""
	}
	return c.blocks[i].where
}

func (c *chain) at(i int) int {
	if i < 0 || i >= len(c.blocks) {
		return -1
	}
	return c.blocks[i].start
}

// what names a block for people.
func (c *chain) what(i int) string {
	where := c.place(i)
	first, rest, _ := strings.Cut(strings.TrimPrefix(where, "/"), "/")
	switch {
	case first == "tools":
		return "tool " + rest
	case rest == "":
		return first
	}
	return "block " + where
}

// upTo names a prefix for people.
func (c *chain) upTo(i int) string {
	if i < 0 {
		return "nothing"
	}
	size := 0
	for _, b := range c.blocks[:i+1] {
		size += b.size
	}
	return counted(size, "byte") + ", up to " + c.what(i)
}
