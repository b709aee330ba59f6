package cachecheck

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedTaxonomy: docs/cachecheck.md has the row of each label.
func TestDocumentedTaxonomy(t *testing.T) {
	b, err := os.ReadFile("../docs/cachecheck.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, l := range Labels() {
		if row := "| `" + string(l.Label) + "` | " + string(l.Waste) + " | " + l.Says + " | " + l.Fix + " |\n"; !strings.Contains(page, row) {
			t.Errorf("the page lacks the row\n%s", row)
		}
	}
	for _, odd := range []Odd{OddCut, OddNotJSON, OddNoBody, OddNotModel, OddEncoding, OddTooLarge, OddStateful, OddCount, OddFailed, OddShape, OddDamaged} {
		if !strings.Contains(page, "`"+string(odd)+"`") {
			t.Errorf("the page lacks %s", odd)
		}
	}
}

// TestDataFiles: each row has a date and a source, and what they say is found.
func TestDataFiles(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		fields int
	}{"prices": {pricesTSV, 9}, "minimums": {minimumsTSV, 5}, "tokens": {tokensTSV, 7}} {
		lines := 0
		for line := range strings.Lines(c.text) {
			if !strings.HasPrefix(line, "#") {
				lines++
			}
		}
		got := rows(c.text, c.fields)
		if len(got) != lines || lines == 0 {
			t.Errorf("%s: %d of %d rows have %d fields", name, len(got), lines, c.fields)
		}
		for _, f := range got {
			date, source := f[c.fields-2], f[c.fields-1]
			if parseInstant(date+"T00:00:00Z") == 0 || source == "" {
				t.Errorf("%s: %q has no date or no source", name, f)
			}
		}
	}
	for _, c := range []struct {
		provider, model string
		tokens          int
	}{
		{"anthropic", "claude-opus-5", 512}, {"anthropic", "claude-opus-4-8", 1024}, {"anthropic", "claude-opus-4-1-20250805", 1024}, {"anthropic", "claude-opus-4-5-20251101", 4096},
		{"anthropic", "claude-haiku-4-5", 4096}, {"anthropic", "claude-sonnet-4-6", 1024}, {"anthropic", "claude-sonnet-5-5", 512}, {"anthropic", "claude-sonnet-5", 1024},
		{"vertex", "claude-opus-4-7", 2048}, {"bedrock", "anthropic.claude-haiku-4-5-v1:0", 4096}, {"gemini", "gemini-2.5-pro", 2048}, {"gemini", "gemini-3.6-flash", 4096}, {"openai", "gpt-5", 1024}, {"deepseek", "deepseek-v4", 0},
	} {
		m, ok := MinimumOf(c.provider, c.model)
		if m.Tokens != c.tokens || ok != (c.tokens > 0) {
			t.Errorf("%s %s: %d, want %d", c.provider, c.model, m.Tokens, c.tokens)
		}
	}
	for _, c := range []struct {
		provider, model string
		read            float64
	}{
		{"anthropic", "claude-opus-5-5", 0.05}, {"anthropic", "claude-opus-5", 0.1}, {"anthropic", "claude-fable-5-1", 0.025}, {"openai", "gpt-6.1-sol", 0.05}, {"openai", "gpt-5", 0.1}, {"deepseek", "deepseek-v4-pro", 0.022}, {"deepseek", "deepseek-flash", 0.003},
	} {
		if p, ok := PriceOf(c.provider, c.model); !ok || p.Read != c.read || p.Date == "" {
			t.Errorf("%s %s: %+v, want %v", c.provider, c.model, p, c.read)
		}
	}
}

// TestRules: which provider's rule holds.
func TestRules(t *testing.T) {
	for _, c := range []struct{ dialect, host, path, model, want string }{
		{dialectMessages, "api.anthropic.com", "/v1/messages", "claude-opus-5", "anthropic"},
		{dialectMessages, "", "", "claude-sonnet-4-6", "anthropic"},
		{dialectMessages, "europe-west1-aiplatform.googleapis.com", "", "", "vertex"},
		{dialectMessages, "", "/v1/projects/p/publishers/anthropic/models/claude:streamRawPredict", "", "vertex"},
		{dialectMessages, "", "", "glm-5", "other"},
		{dialectMessages, "api.deepseek.com", "/anthropic/v1/messages", "deepseek-v4-flash", "deepseek"},
		{dialectConverse, "", "", "anthropic.claude-sonnet-4-6-v1:0", "bedrock"},
		{dialectChat, "", "", "gpt-5", "openai"},
		{dialectChat, "", "", "gpt-5.5-mini", "openai"},
		{dialectChat, "", "", "openai/gpt-5.6-sol", "openai-5.6"},
		{dialectResponses, "", "", "gpt-6", "openai-5.6"},
		{dialectResponses, "", "", "gpt-5.1-codex", "openai"},
		{dialectChat, "", "", "gpt-oss-120b", "other"},
		{dialectChat, "", "", "deepseek-v4-flash", "deepseek"},
		{dialectChat, "api.x.ai", "", "grok-4.3", "xai"},
		{dialectChat, "127.0.0.1:8000", "", "qwen3", "other"},
		{dialectGemini, "", "", "gemini-3.6-flash", "gemini"},
	} {
		if got := findRule(c.dialect, c.host, c.path, c.model); got != rules[c.want] {
			t.Errorf("%+v: %s", c, got.Provider)
		}
	}
}
