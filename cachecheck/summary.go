package cachecheck

import "slices"

// Summary counts what a Checker has seen.
type Summary struct {
	Requests int   `json:"requests"` // exchanges, compared or not
	Compared int   `json:"compared"` // that had an earlier one
	Lineages int   `json:"lineages"`
	Bytes    int64 `json:"bytes"` // of bodies
	// Breaks counts moved or unreadable prefixes, Waste those that are waste
	// and nobody planned, Findings everything that --fail-on any counts.
	Breaks   int           `json:"breaks"`
	Waste    int           `json:"waste"`
	Findings int           `json:"findings"`
	Labels   map[Label]int `json:"labels"`
	// Odd counts what was not compared, by reason.
	Odd   map[Odd]int `json:"odd"`
	Notes []string    `json:"notes,omitempty"` // the first of each reason
	// Forgotten counts bodies that were given up to save memory.
	Forgotten int `json:"forgotten,omitempty"`
	// Agrees and Disagrees count the vendors' own verdicts.
	Agrees    int `json:"vendor_agrees"`
	Disagrees int `json:"vendor_disagrees"`
	// Planned counts how often each plan held.
	Planned []int `json:"planned,omitempty"`
	// Lost is what breaks cost in tokens, and LostEstimated how much of that
	// is estimated.
	Lost          int   `json:"lost_tokens"`
	LostEstimated int   `json:"lost_tokens_estimated"`
	Tokens        Turn  `json:"-"`
	Total         Usage `json:"usage"`
}

func (s *Summary) skip(r *Result) {
	s.Odd[r.Odd]++
	if r.Note != "" && s.Odd[r.Odd] <= 3 {
		s.Notes = append(s.Notes, string(r.Odd)+": "+r.File+": "+r.Note)
	}
	for _, l := range r.Labels {
		s.Labels[l]++
	}
	if r.Break { // refused for what is in it
		s.Breaks++
		s.Waste++
		s.Findings++
	}
}

func (s *Summary) count(r *Result) {
	if r.Previous > 0 {
		s.Compared++
	}
	s.Lineages = max(s.Lineages, r.Lineage)
	for _, l := range r.Labels {
		s.Labels[l]++
	}
	if r.Break {
		s.Breaks++
	}
	if r.IsWaste() {
		s.Waste++
	}
	if r.IsFinding() {
		s.Findings++
	}
	if r.Break && r.LostTokens != nil {
		s.Lost += r.LostTokens.Tokens
		if r.LostTokens.Method != "reported" {
			s.LostEstimated += r.LostTokens.Tokens
		}
	}
	if r.Vendor != nil {
		switch r.Vendor.Agreement {
		case "agrees":
			s.Agrees++
		case "disagrees":
			s.Disagrees++
		}
	}
	if u := r.Usage; u != nil {
		s.Total.Counted = s.Total.Counted || u.Counted
		s.Total.Reported = s.Total.Reported || u.Reported
		s.Total.Read += u.Read
		s.Total.Written += u.Written
		s.Total.Uncached += u.Uncached
		s.Total.Total += u.Total
	}
}

// IsWaste reports whether a result is waste that nobody planned: what
// --fail-on waste counts.
func (r *Result) IsWaste() bool {
	return r.Break && (r.Waste == WasteYes || r.Waste == WasteDepends)
}

// IsFinding reports whether a result is what --fail-on any counts: every break,
// planned or not, and every warning.
func (r *Result) IsFinding() bool {
	return r.Break || slices.ContainsFunc(r.Labels, func(l Label) bool { return l == WireBodyOrder })
}

// Summary returns the counts so far.
func (c *Checker) Summary() Summary {
	s := c.sum
	s.Planned = slices.Clone(s.Planned)
	return s
}

// Lineage is a run of requests, for reports.
type Lineage struct {
	ID, Parent int
	Kind       LineageKind
	Session    string
	Turns      []Turn
}

// Lineages lists the lineages in the order in which they began, without those
// of one request that were given up to save memory. The turns are the
// Checker's.
func (c *Checker) Lineages() []Lineage {
	var out []Lineage
	for _, l := range c.all {
		if l != nil {
			out = append(out, Lineage{l.id, l.parent, l.kind, l.session, l.turns})
		}
	}
	return out
}
