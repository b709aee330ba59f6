package wire

// Marker is the member that is the cache marker of a tool, key and value as they
// are written, nil when it has none: up to there the provider keeps what it has read. Source: Anthropic's API
// reference, "Prompt caching"; servers that speak Chat take it in the same
// place.
func (q *Request) Marker(t Tool) []byte {
	if i := q.t.Get(t.node, "cache_control"); i >= 0 {
		from, _ := q.t.Span(i - 1)
		_, to := q.t.Span(i)
		return q.src[from:to]
	}
	return nil
}

// SameList reports whether two tools stand in the same array.
func (t Tool) SameList(o Tool) bool { return t.list == o.list }
