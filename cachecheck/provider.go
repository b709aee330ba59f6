package cachecheck

import (
	_ "embed"
	"strconv"
	"strings"
)

// What a provider's cache does, as data. A Rule is the part that a checker
// needs to say what a change costs; it holds what a simulation of the rule
// needs too, and an Expectation is what such a simulation would say.

// Lookup is how a provider finds what it has stored.
type Lookup string

// The kinds of lookup. Comparing longest prefixes is right for LookupPrefix
// alone.
const (
	LookupMarkers   Lookup = "markers"   // entries are written at markers, and found by walking back from one
	LookupEndpoints Lookup = "endpoints" // at the ends of messages
	LookupUnits     Lookup = "units"     // whole stored units only
	LookupPrefix    Lookup = "prefix"    // any common prefix, in granules
)

// Rule is what one provider's cache does. Times are in seconds, sizes in tokens
// unless they say otherwise; 0 is none, or unknown.
type Rule struct {
	Provider string `json:"provider"`
	// Order is the order in which the layers are rendered. Head says that what
	// stands before the messages is one segment, whose inner order nobody
	// states.
	Order [3]string `json:"order"`
	Head  bool      `json:"head,omitempty"`

	Lookup Lookup `json:"lookup"`
	// Markers is the most that a request may carry; Lookback how many
	// positions are tried from a marker, itself included. A run of calls, or
	// of results, is one position where RunsCountOnce is set.
	Markers       int  `json:"markers,omitempty"`
	Lookback      int  `json:"lookback,omitempty"`
	RunsCountOnce bool `json:"runs_count_once,omitempty"`
	// Granule is what reported reads are multiples of.
	Granule int `json:"granule"`
	// Lifetimes maps a marker's ttl to seconds; "" is the default. Shortest is
	// what is promised, where no marker says anything.
	Lifetimes map[string]int `json:"lifetimes,omitempty"`
	// Guaranteed says that a stored prefix is found while it lives; others do
	// their best.
	Guaranteed bool `json:"guaranteed"`
	// BodyOrder says that the order of the body's top-level keys is reported
	// to matter.
	BodyOrder bool   `json:"body_order,omitempty"`
	Date      string `json:"date"`
	Source    string `json:"source"`
}

// Expectation is what a request is expected to read, by a rule and the requests
// before it.
type Expectation struct {
	Read Figure `json:"read"`
	// Entry is the request that wrote what should be read, 0 for none.
	Entry int    `json:"entry,omitempty"`
	Rule  string `json:"rule"`
}

var (
	standard = [3]string{"tools", "system", "messages"}
	rules    = map[string]*Rule{
		"anthropic": {Provider: "anthropic", Order: standard, Lookup: LookupMarkers, Markers: 4, Lookback: 20, RunsCountOnce: true, Granule: 1,
			Lifetimes: map[string]int{"": 300, "5m": 300, "1h": 3600}, Guaranteed: true, Date: "2026-09-20", Source: "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"},
		"vertex": {Provider: "vertex", Order: standard, Lookup: LookupMarkers, Markers: 4, Lookback: 20, Granule: 1, BodyOrder: true,
			Lifetimes: map[string]int{"": 300, "5m": 300, "1h": 3600}, Guaranteed: true, Date: "2026-09-11", Source: "https://github.com/maximhq/bifrost/issues/6406"},
		"bedrock": {Provider: "bedrock", Order: standard, Lookup: LookupMarkers, Markers: 4, Lookback: 20, Granule: 1,
			Lifetimes: map[string]int{"": 300, "5m": 300, "1h": 3600}, Guaranteed: true, Date: "2026-11-01", Source: "https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html"},
		"alibaba": {Provider: "alibaba", Order: standard, Lookup: LookupPrefix, Markers: 4, Lookback: 20, Granule: 1,
			Lifetimes: map[string]int{"": 300}, Date: "2026-11-16", Source: "https://help.aliyun.com/model-studio/context-cache"},
		"openai-5.6": {Provider: "openai", Order: standard, Head: true, Lookup: LookupEndpoints, Markers: 4, Granule: 1, BodyOrder: true,
			Lifetimes: map[string]int{"": 1800, "30m": 1800, "12h": 43200}, Guaranteed: true, Date: "2026-09-20", Source: "https://developers.openai.com/api/docs/guides/prompt-caching"},
		"openai": {Provider: "openai", Order: standard, Head: true, Lookup: LookupPrefix, Granule: 128, BodyOrder: true,
			Lifetimes: map[string]int{"": 3600, "in_memory": 3600, "24h": 86400}, Date: "2026-09-20", Source: "https://developers.openai.com/api/docs/guides/prompt-caching"},
		"deepseek": {Provider: "deepseek", Order: [3]string{"system", "tools", "messages"}, Lookup: LookupUnits, Granule: 128,
			Date: "2026-08-13", Source: "https://api-docs.deepseek.com/guides/kv_cache"},
		"gemini": {Provider: "gemini", Order: standard, Head: true, Lookup: LookupPrefix, Granule: 1024,
			Date: "2026-10-23", Source: "https://ai.google.dev/gemini-api/docs/caching"},
		"xai": {Provider: "xai", Order: standard, Head: true, Lookup: LookupPrefix, Granule: 64,
			Date: "2026-10-01", Source: "https://docs.x.ai/developers/advanced-api-usage/prompt-caching"},
		"other": {Provider: "other", Order: standard, Lookup: LookupPrefix, Granule: 528,
			Date: "2026-11-30", Source: "no documentation: the longest common prefix is assumed"},
	}
)

// Rules lists the rules that are known, by name.
func Rules() map[string]Rule {
	out := map[string]Rule{}
	for name, r := range rules {
		out[name] = *r
	}
	return out
}

// findRule decides by host and path, then by the model's name, then by dialect.
func findRule(dialect, host, path, model string) *Rule {
	host, m := strings.ToLower(host), strings.ToLower(model)
	if i := strings.LastIndexByte(m, '/'); i >= 0 && dialect == dialectChat { // routers: vendor/model
		m = m[i+1:]
	}
	switch {
	case strings.Contains(host, "aiplatform.googleapis.com") && dialect == dialectMessages, strings.Contains(strings.ToLower(path), "rawpredict"):
		return rules["vertex"]
	case strings.Contains(host, "bedrock"), dialect == dialectConverse, strings.Contains(m, "anthropic.claude"):
		return rules["bedrock"]
	case strings.Contains(host, "deepseek"), strings.HasPrefix(m, "deepseek"):
		return rules["deepseek"]
	case strings.Contains(host, "dashscope"), strings.Contains(host, "aliyun"):
		return rules["alibaba"]
	case dialect == dialectGemini, strings.HasPrefix(m, "gemini"):
		return rules["gemini"]
	case strings.HasSuffix(host, "x.ai"), strings.HasPrefix(m, "grok"):
		return rules["xai"]
	case dialect == dialectMessages:
		if strings.Contains(m, "claude") || strings.Contains(host, "anthropic.com") || m == "" {
			return rules["anthropic"]
		}
		return rules["other"] // another model behind the same API
	case strings.Contains(m, "gpt-oss"):
		return rules["other"]
	case strings.HasPrefix(m, "gpt-"):
		if newerGPT(m) {
			return rules["openai-5.6"]
		}
		return rules["openai"]
	case dialect == dialectResponses, strings.Contains(host, "openai"), strings.HasPrefix(m, "o1"), strings.HasPrefix(m, "o3"), strings.HasPrefix(m, "o4"), strings.HasPrefix(m, "codex"), strings.HasPrefix(m, "chatgpt"):
		return rules["openai"]
	}
	return rules["other"]
}

// newerGPT reports whether a model is gpt-5.6 or later.
func newerGPT(m string) bool {
	v, _, _ := strings.Cut(strings.TrimPrefix(m, "gpt-"), "-")
	major, minor, _ := strings.Cut(v, ".")
	a, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	b, _ := strconv.Atoi(minor)
	return a > 5 || a == 5 && b >= 6
}

//go:embed data/prices.tsv
var pricesTSV string

//go:embed data/minimums.tsv
var minimumsTSV string

//go:embed data/tokens.tsv
var tokensTSV string

// Price is what a model's input costs. With Unit "x" the figures are multiples
// of the price of uncached input, with "usd" US dollars a million tokens. A
// negative figure is unknown.
type Price struct {
	Provider, Model               string
	Unit                          string
	Input, Read, Write, WriteLong float64
	Date, Source                  string
}

// Minimum is the smallest prefix that a provider stores, in tokens.
type Minimum struct {
	Provider, Model string
	Tokens          int
	Date, Source    string
}

var prices, minimums = func() (p []Price, m []Minimum) {
	num := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return -1
		}
		return f
	}
	for _, f := range rows(pricesTSV, 9) {
		p = append(p, Price{f[0], f[1], f[2], num(f[3]), num(f[4]), num(f[5]), num(f[6]), f[7], f[8]})
	}
	for _, f := range rows(minimumsTSV, 5) {
		m = append(m, Minimum{f[0], f[1], int(num(f[2])), f[3], f[4]})
	}
	return p, m
}()

// rows reads tab-separated lines; those with another number of fields, and
// comments, are left out.
func rows(text string, fields int) (out [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if f := strings.Split(line, "\t"); len(f) == fields && !strings.HasPrefix(line, "#") {
			out = append(out, f)
		}
	}
	return out
}

// PriceOf looks a model's prices up; ok is false when there is no row.
func PriceOf(provider, model string) (Price, bool) {
	for _, p := range prices {
		if p.Provider == priceName(provider) && strings.Contains(strings.ToLower(model), p.Model) {
			return p, true
		}
	}
	return Price{}, false
}

// MinimumOf looks a model's smallest prefix up; ok is false when there is no
// row.
func MinimumOf(provider, model string) (Minimum, bool) {
	if provider == "vertex" {
		provider = "anthropic"
	}
	for _, m := range minimums {
		if m.Provider == provider && strings.Contains(strings.ToLower(model), m.Model) {
			return m, true
		}
	}
	return Minimum{}, false
}

func priceName(provider string) string {
	if provider == "vertex" || provider == "bedrock" {
		return "anthropic"
	}
	return provider
}
