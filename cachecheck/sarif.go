package cachecheck

import (
	"encoding/json"
	"io"
	"net/url"
)

// SARIF collects findings as a SARIF 2.1.0 log, which code hosts show beside
// the files. Source: the OASIS standard "Static Analysis Results Interchange
// Format 2.1.0".
type SARIF struct{ results []sarifResult }

type sarifResult struct {
	RuleID     string          `json:"ruleId"`
	Level      string          `json:"level"`
	Message    sarifText       `json:"message"`
	Locations  []sarifLocation `json:"locations"`
	Properties map[string]any  `json:"properties"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine int `json:"startLine,omitempty"`
}

type sarifRule struct {
	ID    string     `json:"id"`
	Short sarifText  `json:"shortDescription"`
	Help  *sarifText `json:"help,omitempty"`
}

// Add takes a result; only findings are kept.
func (s *SARIF) Add(r *Result) {
	if !r.IsFinding() {
		return
	}
	label, level := r.Label, "note"
	switch {
	case r.IsWaste():
		level = "error"
	case r.Break && r.Planned == "" && r.Waste != WasteNo:
		level = "warning"
	case !r.Break:
		label = WireBodyOrder
	}
	text := label.Info().Says
	if r.Detail != "" && label == r.Label {
		text += ": " + r.Detail
	}
	if r.LostTokens != nil && r.LostTokens.Tokens > 0 {
		text += "; lost " + r.LostTokens.String() + " tokens"
	}
	out := sarifResult{RuleID: string(label), Level: level, Message: sarifText{clean(text)},
		Properties: map[string]any{"request": r.N, "previous": r.Previous, "confidence": r.Confidence, "waste": r.Waste, "labels": r.Labels}}
	if r.Spot != nil {
		out.Properties["pointer"] = r.Spot.Pointer
		out.Properties["byteA"], out.Properties["byteB"] = r.Spot.A, r.Spot.B
	}
	var l sarifLocation
	l.Physical.Artifact.URI = (&url.URL{Path: r.File}).String()
	if r.Line > 0 {
		l.Physical.Region = &sarifRegion{r.Line}
	}
	out.Locations = []sarifLocation{l}
	s.results = append(s.results, out)
}

// Write writes the log.
func (s *SARIF) Write(w io.Writer, version string) error {
	var rules []sarifRule
	for _, l := range taxonomy {
		if l.Break || l.Label == WireBodyOrder {
			r := sarifRule{ID: string(l.Label), Short: sarifText{l.Says}}
			if l.Fix != "" {
				r.Help = &sarifText{l.Fix}
			}
			rules = append(rules, r)
		}
	}
	if s.results == nil {
		s.results = []sarifResult{}
	}
	log := map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool":    map[string]any{"driver": map[string]any{"name": "guardproxy cachecheck", "version": version, "rules": rules}},
			"results": s.results,
		}},
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(log)
}
