package cachecheck

import (
	"slices"
	"strings"
	"testing"
)

// row is a pair of bodies: a talk, and the same talk after a turn and an edit.
type row struct {
	name     string
	dialects []string // nil: all
	base     func(s *talk)
	edit     func(s *talk)
	text     func(b []byte) []byte // an edit of the written body
	x        func(a, b *Exchange)  // what stands outside of the bodies
	bare     bool                  // without the turn between
	want     Label
	conf     Confidence
	also     []Label
	detail   string
}

var (
	anthropicOnly = []string{dialectMessages}
	markers       = []string{dialectMessages, dialectConverse}
)

func (r *row) bodies(dialect string) (a, b []byte) {
	s := baseTalk(dialect)
	if r.base != nil {
		r.base(s)
	}
	t := s.clone()
	if !r.bare {
		t = t.say(more(1)...)
	}
	if r.edit != nil {
		r.edit(t)
	}
	a, b = s.body(), t.body()
	if r.text != nil {
		b = r.text(b)
	}
	return a, b
}

func (r *row) check(dialect string) Result {
	a, b := r.bodies(dialect)
	xa, xb := exchangeOf(a), exchangeOf(b)
	if r.x != nil {
		r.x(xa, xb)
	}
	c := New(Options{})
	c.Add(xa)
	return c.Add(xb)
}

const second = int64(1e9)

// usage as the provider would report it.
func used(read, written, uncached int) Usage {
	return Usage{Counted: true, Reported: true, Read: read, Written: written, Uncached: uncached, Total: read + written + uncached}
}

var causes = []row{
	{name: "growing", want: Append, conf: Proved},
	{name: "nothing new", bare: true, want: Retry, conf: Proved},
	{name: "a moved marker", dialects: anthropicOnly, base: func(s *talk) { s.msgs[0].parts[0].mark = true }, edit: func(s *talk) { s.msgs[0].parts[0].mark = false }, want: Append},
	{name: "rewound", bare: true, edit: func(s *talk) { s.msgs = s.msgs[:5] }, want: Rewind},
	{name: "another branch", bare: true, edit: func(s *talk) { s.msgs = append(s.msgs[:4:4], user(txt("Never mind, what about the lake?"))) }, want: Fork},

	{name: "tools turned", edit: func(s *talk) { s.tools[0], s.tools[1] = s.tools[1], s.tools[0] }, want: ToolsOrder, conf: Proved},
	{name: "a server's tools moved together", edit: func(s *talk) {
		s.tools = append(append([]talkTool{}, s.tools[2:]...), s.tools[:2]...)
	}, want: ToolsOrder, detail: "with the other tools of mcp__wind"},
	{name: "a tool more at the end", edit: func(s *talk) {
		s.tools = append(s.tools, talkTool{"mcp__rain__today", "Says how much it rained.", `{"type":"object","properties":{}}`})
	}, want: ToolsAdded, conf: Proved, detail: "at the end"},
	{name: "a tool more in the middle", edit: func(s *talk) {
		s.tools = slices.Insert(s.tools, 1, talkTool{"Write", "Writes.", `{"type":"object","properties":{}}`})
	}, want: ToolsAdded, detail: "in the middle"},
	{name: "a server gone", edit: func(s *talk) { s.tools = s.tools[:2] }, want: ToolsRemoved, conf: Proved, detail: "all of mcp__wind"},
	{name: "a mode's tools", edit: func(s *talk) {
		s.tools[0] = talkTool{"Plan", "Writes a plan.", `{"type":"object","properties":{}}`}
	}, want: ToolsRemoved, also: []Label{ToolsAdded}},
	{name: "properties in another order", edit: func(s *talk) {
		s.tools[1].schema = `{"type":"object","properties":{"limit":{"type":"integer"},"path":{"type":"string"}},"required":["path"]}`
	}, want: ToolsKeyOrder, conf: Proved},
	{name: "keys of the schema in another order", edit: func(s *talk) {
		s.tools[3].schema = `{"properties":{"day":{"type":"string"}},"type":"object"}`
	}, want: ToolsKeyOrder},
	{name: "a UUID in a tool", base: func(s *talk) { s.tools[0].text += " Settings: /etc/s/0f3c1b52-6a9e-4c1d-8f2a-7d3b9a1c5e77.json" }, edit: func(s *talk) {
		s.tools[0].text = strings.Replace(s.tools[0].text, "0f3c1b52-6a9e-4c1d-8f2a-7d3b9a1c5e77", "ab3c1b52-1a9e-4c1d-9f2a-7d3b9a1c5e00", 1)
	}, want: ToolsVolatile, conf: Inferred, detail: "UUID of equal length"},
	{name: "a temporary path in a tool", base: func(s *talk) { s.tools[0].text += " Writes to /tmp/claude-8412/out." }, edit: func(s *talk) {
		s.tools[0].text = strings.Replace(s.tools[0].text, "8412", "977", 1)
	}, want: ToolsVolatile, detail: "temporary path"},
	{name: "a port in a tool", base: func(s *talk) { s.tools[1].text += " Served from localhost:49152." }, edit: func(s *talk) {
		s.tools[1].text = strings.Replace(s.tools[1].text, "49152", "50001", 1)
	}, want: ToolsVolatile, detail: "port"},
	{name: "a date in a schema", base: func(s *talk) {
		s.tools[2].schema = `{"type":"object","properties":{"day":{"type":"string","description":"Today is 2026-11-29."}}}`
	}, edit: func(s *talk) {
		s.tools[2].schema = `{"type":"object","properties":{"day":{"type":"string","description":"Today is 2026-11-30."}}}`
	}, want: ToolsVolatile, detail: "properties/day/description"},
	{name: "an edited description", edit: func(s *talk) { s.tools[0].text = "Runs a command, and says how long it took." }, want: ToolsEdit, conf: Proved, detail: "description"},
	{name: "an enum that grew", base: func(s *talk) {
		s.tools[2].schema = `{"type":"object","properties":{"day":{"enum":["a","b"]}}}`
	}, edit: func(s *talk) {
		s.tools[2].schema = `{"type":"object","properties":{"day":{"enum":["a","b","c"]}}}`
	}, want: ToolsEdit, detail: "properties/day/enum"},
	{name: "narrowing switched on", dialects: []string{dialectMessages}, base: func(s *talk) {
		s.tools[0].schema = `{"type":"object","properties":{"command":{"type":"string"},"dangerouslyDisableSandbox":{"type":"boolean"}},"required":["command"]}`
	}, edit: func(s *talk) {
		s.tools[0].schema = `{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`
	}, want: ToolsGuard, conf: Inferred},
	{name: "narrowing switched on, seen on both sides", dialects: []string{dialectMessages, dialectChat}, base: func(s *talk) {
		s.tools[0].schema = `{"type":"object","properties":{"command":{"type":"string"},"anything":{"type":"boolean"}},"required":["command"]}`
	}, edit: func(s *talk) {
		s.tools[0].schema = `{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`
	}, x: func(a, b *Exchange) {
		b.Client = []byte(strings.Replace(string(b.Body), `"properties":{"command":{"type":"string"}}`, `"properties":{"command":{"type":"string"},"anything":{"type":"boolean"}}`, 1))
	}, want: ToolsGuard, conf: Proved},

	{name: "a clock in the system text", base: func(s *talk) { s.system[0] = "It is 2026-11-30T10:15:02.113Z.\n" + house }, edit: func(s *talk) {
		s.system[0] = "It is 2026-11-30T10:15:44.901Z.\n" + house
	}, want: SystemTime, conf: Inferred, detail: "second"},
	{name: "a date in the system text", base: func(s *talk) { s.system[1] += " Today is Monday, November 30, 2026." }, edit: func(s *talk) {
		s.system[1] = strings.Replace(s.system[1], "Monday, November 30", "Tuesday, December 1", 1)
	}, want: SystemTime, detail: "day"},
	{name: "a minute in the system text", base: func(s *talk) { s.system[1] += " Now: 10:15 UTC." }, edit: func(s *talk) {
		s.system[1] = strings.Replace(s.system[1], "10:15", "10:16", 1)
	}, want: SystemTime, detail: "minute"},
	{name: "a nonce in the system text", base: func(s *talk) { s.system[0] = "Trace 5f2a9c01bb7e.\n" + house }, edit: func(s *talk) {
		s.system[0] = "Trace 0be1123fd99a.\n" + house
	}, want: SystemNonce, conf: Inferred, detail: "hexadecimal id"},
	{name: "a billing line on another model", dialects: anthropicOnly, base: func(s *talk) {
		s.model = "glm-5"
		s.system = append([]string{"x-anthropic-billing-header: cc_version=2.1.3; cc_entrypoint=cli; cch=07f0c;"}, s.system...)
	}, edit: func(s *talk) {
		s.system[0] = "x-anthropic-billing-header: cc_version=2.1.3; cc_entrypoint=cli; cch=1b2c9; cc_prev_req=req_01;"
	}, want: SystemNonce, conf: Proved},
	{name: "a billing line at Anthropic", dialects: anthropicOnly, base: func(s *talk) {
		s.system = append([]string{"x-anthropic-billing-header: cc_version=2.1.3; cc_entrypoint=cli; cch=07f0c;"}, s.system...)
	}, edit: func(s *talk) {
		s.system[0] = "x-anthropic-billing-header: cc_version=2.1.3; cc_entrypoint=cli; cch=1b2c9; cc_prev_req=req_01;"
	}, want: Append},
	{name: "a file list in the system text", base: func(s *talk) { s.system[1] += "\nFiles: a.log, b.log, c.log.\nEnd of list." }, edit: func(s *talk) {
		s.system[1] = strings.Replace(s.system[1], "b.log, ", "", 1)
	}, want: SystemDynamic, conf: Proved},
	{name: "system blocks turned", dialects: []string{dialectMessages, dialectChat, dialectGemini, dialectConverse}, edit: func(s *talk) {
		s.system[0], s.system[1] = s.system[1], s.system[0]
	}, want: SystemOrder, conf: Proved},
	{name: "a message hoisted into the system text", base: func(s *talk) {
		s.msgs = append(s.msgs[:4:4], append([]talkMsg{user(txt("The keeper asks you to answer in Frisian from now on."))}, s.msgs[5:]...)...)
	}, edit: func(s *talk) {
		s.system[1] += "\n\nThe keeper asks you to answer in Frisian from now on."
	}, want: SystemHoist, conf: Proved},

	{name: "a result pruned in place", edit: func(s *talk) { s.msgs[2].parts[0].text = "[pruned]" }, want: HistoryMutated, conf: Proved, detail: "placeholder"},
	{name: "a result shortened in place", edit: func(s *talk) { s.msgs[2].parts[0].text = s.msgs[2].parts[0].text[:100] }, want: HistoryMutated, detail: "shortened"},
	{name: "an answer edited in place", edit: func(s *talk) { s.msgs[3].parts[0].text += " I am sure of it." }, want: HistoryMutated, detail: "grew"},
	{name: "an old message removed", edit: func(s *talk) { s.msgs = slices.Delete(s.msgs, 3, 5) }, want: HistoryMutated, detail: "removed"},
	{name: "a block of the last input went", base: func(s *talk) {
		s.msgs = append(s.msgs[:4:4], user(txt("Look at the valley's station too."), txt("<state>12 files open, clean tree</state>")))
	}, edit: func(s *talk) {
		s.msgs[4].parts = s.msgs[4].parts[:1]
		s.msgs[6].parts = append(s.msgs[6].parts, txt("<state>12 files open, clean tree</state>"))
	}, want: HistoryTransient, conf: Proved, dialects: []string{dialectChat, dialectResponses, dialectGemini}},
	{name: "text of the last input went", base: func(s *talk) {
		s.msgs = append(s.msgs[:4:4], talkMsg{role: "user", asStr: true, parts: []talkPart{txt("Look at the valley's station too.\n<env>\nopen files: 12\n</env>")}})
	}, edit: func(s *talk) {
		s.msgs[4].parts = []talkPart{txt("Look at the valley's station too.")}
		s.msgs[6] = talkMsg{role: "user", asStr: true, parts: []talkPart{txt("Then write a note.\n<env>\nopen files: 13\n</env>")}}
	}, want: HistoryTransient, conf: Proved, dialects: []string{dialectMessages, dialectChat, dialectResponses}},
	{name: "ids made up anew", edit: func(s *talk) {
		for i := range s.msgs {
			for k := range s.msgs[i].parts {
				if p := &s.msgs[i].parts[k]; p.id != "" {
					p.id = "call_fresh_" + p.id
				}
			}
		}
	}, want: HistoryIDs, conf: Proved},
	{name: "arguments serialised anew", edit: func(s *talk) {
		s.msgs[1].parts[2].args = `{"timeout":20,"command":"tail -n 40 /srv/ledger/ridge.log"}`
	}, want: HistoryToolArgs, conf: Proved},
	{name: "arguments with other spaces", dialects: []string{dialectChat, dialectResponses}, edit: func(s *talk) {
		s.msgs[1].parts[2].args = `{"command": "tail -n 40 /srv/ledger/ridge.log", "timeout": 20}`
	}, want: HistoryToolArgs, conf: Proved},
	{name: "reasoning dropped", edit: func(s *talk) { s.msgs[1].parts = s.msgs[1].parts[1:] }, want: HistoryReasoning, conf: Proved, detail: "dropped"},
	{name: "reasoning added", base: func(s *talk) { s.msgs[1].parts = s.msgs[1].parts[1:] }, edit: func(s *talk) {
		s.msgs[1].parts = append([]talkPart{think("Late thoughts.")}, s.msgs[1].parts...)
	}, want: HistoryReasoning, detail: "added"},
	{name: "reasoning emptied", edit: func(s *talk) { s.msgs[1].parts[0].text = "" }, want: HistoryReasoning, detail: "changed"},
	{name: "a string for blocks", dialects: []string{dialectMessages, dialectChat, dialectResponses}, edit: func(s *talk) { s.msgs[0].asStr = true }, want: HistoryShape, conf: Proved},
	{name: "a blank block came", edit: func(s *talk) { s.msgs[4].parts = append(s.msgs[4].parts, txt(" ")) }, want: HistoryShape, detail: "empty part"},
	{name: "an image scaled down", base: func(s *talk) {
		s.msgs[0].parts = append(s.msgs[0].parts, image(strings.Repeat("iVBORw0KGgo", 20)))
	}, edit: func(s *talk) { s.msgs[0].parts[1].text = strings.Repeat("iVBORw0KGgp", 15) }, want: HistoryImage, conf: Proved},
	{name: "an image removed", base: func(s *talk) {
		s.msgs[0].parts = append([]talkPart{image(strings.Repeat("iVBORw0KGgo", 20))}, s.msgs[0].parts...)
	}, edit: func(s *talk) { s.msgs[0].parts = s.msgs[0].parts[1:] }, want: HistoryImage},
	{name: "compacted", bare: true, edit: func(s *talk) {
		s.msgs = []talkMsg{user(txt("This conversation is continued from an earlier one. Summary: " + strings.Repeat("The ridge station reports snow in July because its sensor frosts over in the morning. ", 6)))}
	}, want: HistoryCompaction, conf: Inferred, x: func(a, b *Exchange) { a.Session, b.Session = "s1", "s1" }},
	{name: "old messages turned", edit: func(s *talk) { s.msgs[1], s.msgs[3] = s.msgs[3], s.msgs[1] }, want: HistoryReorder, conf: Proved},

	{name: "another model", edit: func(s *talk) { s.model += "-next" }, dialects: []string{dialectMessages, dialectChat, dialectResponses}, want: ParamModel, conf: Proved},
	{name: "another effort (Messages)", dialects: anthropicOnly, edit: func(s *talk) { s.params = []string{`"output_config":{"effort":"low"}`} }, want: ParamEffort, conf: Proved},
	{name: "another effort (Chat)", dialects: []string{dialectChat}, edit: func(s *talk) { s.params = []string{`"reasoning_effort":"low"`} }, want: ParamEffort},
	{name: "another effort (Responses)", dialects: []string{dialectResponses}, edit: func(s *talk) { s.params = []string{`"reasoning":{"effort":"low"}`} }, want: ParamEffort},
	{name: "the default effort, spelled out", dialects: anthropicOnly, edit: func(s *talk) { s.params = []string{`"output_config":{"effort":"high"}`} }, want: Append},
	{name: "another thinking budget", dialects: anthropicOnly, edit: func(s *talk) { s.params = []string{`"thinking":{"type":"enabled","budget_tokens":9000}`} }, want: ParamThinking, conf: Proved},
	{name: "another thinking budget (Gemini)", dialects: []string{dialectGemini}, edit: func(s *talk) { s.params = []string{`"generationConfig":{"thinkingConfig":{"thinkingBudget":9}}`} }, want: ParamThinking},
	{name: "another verbosity", dialects: []string{dialectResponses}, edit: func(s *talk) { s.params = []string{`"text":{"verbosity":"low"}`} }, want: ParamVerbosity},
	{name: "another tool choice", dialects: anthropicOnly, edit: func(s *talk) { s.params = []string{`"tool_choice":{"type":"any"}`} }, want: ParamToolChoice},
	{name: "a tool choice that OpenAI allows", dialects: []string{dialectChat, dialectResponses}, edit: func(s *talk) { s.params = []string{`"tool_choice":"none"`} }, want: Append},
	{name: "parallel calls switched", dialects: []string{dialectChat, dialectResponses}, edit: func(s *talk) { s.params = []string{`"parallel_tool_calls":false`} }, want: ParamParallel},
	{name: "parallel calls switched (Messages)", dialects: anthropicOnly, edit: func(s *talk) {
		s.params = []string{`"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`}
	}, base: func(s *talk) { s.params = []string{`"tool_choice":{"type":"auto"}`} }, want: ParamParallel},
	{name: "another response format", dialects: []string{dialectChat}, edit: func(s *talk) {
		s.params = []string{`"response_format":{"type":"json_object"}`}
	}, want: ParamFormat},
	{name: "fast mode", dialects: anthropicOnly, edit: func(s *talk) { s.params = []string{`"speed":"fast"`} }, want: ParamSpeed},
	{name: "another tier", dialects: []string{dialectResponses}, edit: func(s *talk) { s.params = []string{`"service_tier":"flex"`} }, want: ParamTier},
	{name: "other betas", dialects: anthropicOnly, x: func(a, b *Exchange) { a.Betas, b.Betas = "one-2026-01-01", "one-2026-01-01,two-2026-01-01" }, want: ParamBetas, conf: Inferred},
	{name: "the same betas in another order", dialects: anthropicOnly, x: func(a, b *Exchange) { a.Betas, b.Betas = "one,two", "two, one" }, want: Append},
	{name: "another cache key", dialects: []string{dialectChat, dialectResponses}, base: func(s *talk) { s.params = []string{`"prompt_cache_key":"k-1"`} }, edit: func(s *talk) { s.params = []string{`"prompt_cache_key":"k-2"`} }, want: ParamCacheKey},
	{name: "web search switched on", dialects: anthropicOnly, edit: func(s *talk) {
		s.tools = append(s.tools, talkTool{"web_search", "", `"type":"web_search_20260209"`})
	}, want: ParamToggles},
	{name: "context management switched on", dialects: []string{dialectResponses}, edit: func(s *talk) {
		s.params = []string{`"context_management":[{"type":"compaction","compact_threshold":100}]`}
	}, want: ParamToggles},
	{name: "other sampling", edit: func(s *talk) { s.params = []string{`"temperature":0.2`} }, want: Append},

	{name: "markers lost on the way", dialects: markers, edit: func(s *talk) { s.marks = false }, want: BreakpointDropped, conf: Proved},
	{name: "no markers at all", dialects: markers, base: func(s *talk) { s.marks = false }, want: BreakpointNone, conf: Proved},
	{name: "a marker on the clock", dialects: anthropicOnly, base: func(s *talk) {
		s.tools = nil
		s.system = []string{house, "It is 10:15 UTC."}
	}, edit: func(s *talk) { s.system[1] = "It is 10:16 UTC." }, want: BreakpointVolatile, conf: Proved, also: []Label{SystemTime}},
	{name: "a clock behind the only marker", dialects: anthropicOnly, base: func(s *talk) {
		s.tools, s.markSystem = nil, 1
		s.system = []string{house, "It is 10:15 UTC."}
	}, edit: func(s *talk) { s.system[1] = "It is 10:16 UTC." }, want: SystemTime},
	{name: "too many blocks for one step back", dialects: anthropicOnly, edit: func(s *talk) {
		last := &s.msgs[len(s.msgs)-1]
		for i := range 24 {
			last.parts = append(last.parts, txt("Point "+itoa(i)+" of the note."))
		}
	}, want: BreakpointLookback, conf: Proved},
	{name: "just few enough blocks", dialects: anthropicOnly, edit: func(s *talk) {
		last := &s.msgs[len(s.msgs)-1]
		for i := range 17 {
			last.parts = append(last.parts, txt("Point "+itoa(i)+" of the note."))
		}
	}, want: Append},
	{name: "a run of calls is one step", dialects: anthropicOnly, edit: func(s *talk) {
		var calls, results []talkPart
		for i := range 24 {
			calls = append(calls, call("call_r"+itoa(i), "Read", `{"path":"/srv"}`))
			results = append(results, result("call_r"+itoa(i), "empty"))
		}
		s.msgs = append(s.msgs[:7], assistant(calls...), toolMsg(results...))
	}, want: Append},
	{name: "five markers", dialects: anthropicOnly, edit: func(s *talk) {
		s.msgs[0].parts[0].mark, s.msgs[4].parts[0].mark = true, true
	}, want: BreakpointBudget, conf: Proved},
	{name: "a long life behind a short one", dialects: anthropicOnly, text: func(b []byte) []byte {
		i := strings.LastIndex(string(b), `"cache_control":{"type":"ephemeral"}`)
		return append(b[:i:i], swap(b[i:], `{"type":"ephemeral"}`, `{"type":"ephemeral","ttl":"1h"}`)...)
	}, want: BreakpointOrder},
	{name: "another lifetime", dialects: anthropicOnly, edit: func(s *talk) { s.ttl = "1h" }, want: TTLChanged, conf: Proved},
	{name: "the default lifetime, spelled out", dialects: anthropicOnly, edit: func(s *talk) { s.ttl = "5m" }, want: Append},
	{name: "the last message goes on", dialects: []string{dialectResponses}, base: func(s *talk) { s.msgs = s.msgs[:5] }, bare: true, edit: func(s *talk) {
		s.msgs[4].parts[0].text += " And at the lake's."
	}, want: EndpointExtended, conf: Proved},
	{name: "another question about the same text", dialects: []string{dialectChat}, bare: true, base: func(s *talk) {
		s.model, s.msgs = "deepseek-v4-flash", []talkMsg{user(txt("Hello there, keeper.")), assistant(txt("What can I do for you today?")), user(txt(house + "\nQuestion: how many rules are there?"))}
	}, edit: func(s *talk) { s.msgs[2].parts[0].text = house + "\nQuestion: which rule is the longest?" }, want: UnitPartial, conf: Proved},
	{name: "another question, at a provider that matches prefixes", dialects: []string{dialectChat}, bare: true, base: func(s *talk) {
		s.msgs = []talkMsg{user(txt("Hello there, keeper.")), assistant(txt("What can I do for you today?")), user(txt(house + "\nQuestion: how many rules are there?"))}
	}, edit: func(s *talk) { s.msgs[2].parts[0].text = house + "\nQuestion: which rule is the longest?" }, want: Fork},
	{name: "a pause longer than the entry lives", dialects: markers, x: func(a, b *Exchange) { a.Start, b.Start = second, 400*second }, want: TTLExpired, conf: Inferred},
	{name: "a pause that is short enough", dialects: markers, x: func(a, b *Exchange) { a.Start, b.Start = second, 300*second }, want: Append},
	{name: "a long pause, and a hit", dialects: anthropicOnly, x: func(a, b *Exchange) {
		a.Start, b.Start = second, 400*second
		a.Usage, b.Usage = used(0, 4000, 3), used(4000, 100, 3)
	}, want: Append},
	{name: "a marked prefix that is too short", dialects: anthropicOnly, base: func(s *talk) {
		s.system, s.tools, s.msgs = []string{"Be brief."}, nil, s.msgs[3:5]
		s.msgs = append([]talkMsg{user(txt("Hello."))}, s.msgs...)
	}, want: MinTokens, conf: Inferred},
	{name: "sent before the first answer began", x: func(a, b *Exchange) {
		a.Start, a.FirstByte, b.Start = second, 3*second, 2*second
	}, want: ColdParallel, conf: Inferred},
	{name: "sent after the first answer began", x: func(a, b *Exchange) {
		a.Start, a.FirstByte, b.Start = second, 3*second, 4*second
	}, want: Append},
	{name: "other escapes", text: func(b []byte) []byte { return swap(b, "July?", `\u004auly?`) }, want: WireOnly, conf: Proved},
	{name: "other spaces", text: func(b []byte) []byte { return swap(b, `"type":"object"`, `"type" : "object"`) }, want: WireOnly},
	{name: "another spelling of a number", dialects: anthropicOnly, text: func(b []byte) []byte { return swap(b, `"timeout":20}`, `"timeout":2e1}`) }, want: WireOnly},
	{name: "another credential", x: func(a, b *Exchange) { a.Session, b.Session, a.Credential, b.Credential = "s", "s", "k1", "k2" }, want: ScopeChanged, conf: Proved},
	{name: "another upstream", x: func(a, b *Exchange) { a.Upstream, b.Upstream = "north", "south" }, want: ScopeChanged},
	{name: "a miss that nothing explains", x: func(a, b *Exchange) {
		a.Usage, b.Usage = used(0, 8192, 10), used(0, 8300, 10)
	}, want: ProviderMiss, conf: Unknown},
	{name: "a hit", x: func(a, b *Exchange) { a.Usage, b.Usage = used(0, 8192, 10), used(8192, 108, 10) }, want: Append},
	{name: "a miss that was predicted, and a hit that was reported", edit: func(s *talk) { s.tools[0].text = "Runs a command, and says how long it took." }, x: func(a, b *Exchange) {
		a.Usage, b.Usage = used(0, 8192, 10), used(8192, 108, 10)
	}, want: ModelGap, conf: Unknown, also: []Label{ToolsEdit}},
	{name: "messages before the tools", dialects: []string{dialectChat}, base: func(s *talk) { s.history = true }, want: Append, also: []Label{WireBodyOrder}},
	{name: "messages before the tools on Vertex", dialects: anthropicOnly, base: func(s *talk) { s.history = true }, x: func(a, b *Exchange) {
		a.Host, b.Host = "europe-west1-aiplatform.googleapis.com", "europe-west1-aiplatform.googleapis.com"
	}, want: Append, also: []Label{WireBodyOrder}},
	{name: "no counters", want: Append, also: []Label{Unreported}},

	// Several changes at once: the first in the order of rendering is the cause.
	{name: "tools and a clock", base: func(s *talk) { s.system[1] += " It is 10:15 UTC." }, edit: func(s *talk) {
		s.tools[0], s.tools[1] = s.tools[1], s.tools[0]
		s.system[1] = strings.Replace(s.system[1], "10:15", "10:16", 1)
		s.msgs[3].parts[0].text += " Or so."
	}, want: ToolsOrder, also: []Label{SystemTime, HistoryMutated}},
	{name: "tools and a clock, where the system text comes first", dialects: []string{dialectChat}, base: func(s *talk) {
		s.model = "deepseek-v4-flash"
		s.system[1] += " It is 10:15 UTC."
	}, edit: func(s *talk) {
		s.tools[0], s.tools[1] = s.tools[1], s.tools[0]
		s.system[1] = strings.Replace(s.system[1], "10:15", "10:16", 1)
	}, want: SystemTime, also: []Label{ToolsOrder}},
	{name: "a model and everything else", dialects: []string{dialectMessages, dialectChat, dialectResponses}, edit: func(s *talk) {
		s.model += "-next"
		s.tools = s.tools[1:]
		s.system[0] = "Other rules."
	}, want: ParamModel, also: []Label{ToolsRemoved, SystemDynamic}},
	{name: "an effort and an edit", dialects: anthropicOnly, edit: func(s *talk) {
		s.params = []string{`"output_config":{"effort":"low"}`}
		s.msgs[0].parts[0].text += " Please."
	}, want: ParamEffort, also: []Label{HistoryMutated}},
	{name: "ids and arguments", dialects: []string{dialectChat, dialectResponses}, edit: func(s *talk) {
		s.msgs[1].parts[2].args = `{"timeout":20,"command":"tail -n 40 /srv/ledger/ridge.log"}`
		s.msgs[1].parts[2].id, s.msgs[2].parts[0].id = "call_zz", "call_zz"
	}, want: HistoryToolArgs},
	{name: "a clock and an edit of the same text", base: func(s *talk) { s.system[1] += " It is 10:15 UTC. Files: a." }, edit: func(s *talk) {
		s.system[1] = strings.Replace(s.system[1], "10:15 UTC. Files: a", "10:16 UTC. Files: a, b", 1)
	}, want: SystemDynamic},

	// More shapes of the same causes, and what is near to them.
	{name: "compacted, with the last turns kept", bare: true, edit: func(s *talk) {
		s.msgs = append([]talkMsg{user(txt("What happened so far, in short: " + strings.Repeat("the ridge station reports snow in July. ", 10)))}, s.msgs[5:]...)
	}, want: HistoryCompaction},
	{name: "a context message that is gone", base: func(s *talk) {
		s.msgs = append(s.msgs[:4:4], user(txt("Look at the valley's station too.")), talkMsg{role: "developer", parts: []talkPart{txt("<context>nine files are open</context>")}})
	}, edit: func(s *talk) { s.msgs = slices.Delete(s.msgs, 5, 6) }, want: HistoryTransient, dialects: []string{dialectChat, dialectResponses}},
	{name: "a block of the marked last input went", dialects: markers, base: func(s *talk) {
		s.msgs = append(s.msgs[:4:4], user(txt("Look at the valley's station too."), txt("<state>12 files open, clean tree</state>")))
	}, edit: func(s *talk) { s.msgs[4].parts = s.msgs[4].parts[:1] }, want: HistoryTransient, conf: Inferred},
	{name: "a block of an older input went", base: func(s *talk) {
		s.msgs[0].parts = append(s.msgs[0].parts, txt("<state>12 files open, clean tree</state>"))
	}, edit: func(s *talk) { s.msgs[0].parts = s.msgs[0].parts[:1] }, want: HistoryMutated},
	{name: "a message put between old ones", edit: func(s *talk) {
		s.msgs = slices.Insert(s.msgs, 4, user(txt("By the way, the warden is on leave.")), assistant(txt("Noted.")))
	}, want: HistoryMutated, detail: "put between"},
	{name: "a deferred tool more", dialects: anthropicOnly, text: func(b []byte) []byte {
		return swap(b, `"tools":[`, `"tools":[{"name":"late","defer_loading":true,"input_schema":{}},`)
	}, want: Append},
	{name: "an image within a result", dialects: anthropicOnly, base: func(s *talk) {
		s.msgs[2].parts[0] = talkPart{kind: "raw", text: `{"type":"tool_result","tool_use_id":"call_a1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAA"}}]}`}
	}, edit: func(s *talk) {
		s.msgs[2].parts[0].text = strings.Replace(s.msgs[2].parts[0].text, "KGgoAAAA", "KGgoBBB", 1)
	}, want: HistoryImage},
	{name: "a signed address of an image", dialects: []string{dialectChat}, base: func(s *talk) {
		s.msgs[0].parts = append(s.msgs[0].parts, talkPart{kind: "raw", text: `{"type":"image_url","image_url":{"url":"https://img.example/ridge.png?sig=a1b2"}}`})
	}, edit: func(s *talk) {
		s.msgs[0].parts[1].text = strings.Replace(s.msgs[0].parts[1].text, "a1b2", "c3d4", 1)
	}, want: HistoryImage, detail: "address"},
	{name: "citations switched on", dialects: anthropicOnly, base: func(s *talk) {
		s.msgs[0].parts = append(s.msgs[0].parts, talkPart{kind: "raw", text: `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"snow"}}`})
	}, edit: func(s *talk) {
		s.msgs[0].parts[1].text = strings.TrimSuffix(s.msgs[0].parts[1].text, "}") + `,"citations":{"enabled":true}}`
	}, want: ParamToggles},
	{name: "a byte order mark", text: func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }, want: WireOnly},
	{name: "top-level keys in another order", dialects: anthropicOnly, edit: func(s *talk) { s.history = true }, want: WireOnly, detail: "top-level"},
	{name: "a version that looks like a date", base: func(s *talk) { s.system[1] += " Ledger format 3.2 of the north." }, edit: func(s *talk) {
		s.system[1] = strings.Replace(s.system[1], "3.2 of", "3.4 of", 1)
	}, want: SystemDynamic},
	{name: "a word for a word in a tool", edit: func(s *talk) { s.tools[1].text = "Reads two files of the ledger." }, want: ToolsEdit},
	{name: "a limit in a tool", base: func(s *talk) { s.tools[1].text += " At most 100 lines." }, edit: func(s *talk) {
		s.tools[1].text = strings.Replace(s.tools[1].text, "100", "200", 1)
	}, want: ToolsEdit},
	{name: "a tool renamed", edit: func(s *talk) { s.tools[1].name = "Open" }, want: ToolsRemoved, also: []Label{ToolsAdded}},
	{name: "no markers, and nothing that is long enough", dialects: anthropicOnly, base: func(s *talk) {
		s.marks, s.system, s.tools, s.msgs = false, nil, nil, s.msgs[3:5]
		s.msgs = append([]talkMsg{user(txt("Hello."))}, s.msgs...)
	}, want: Append},
	{name: "an endpoint of which nothing is said", dialects: []string{dialectResponses}, x: func(a, b *Exchange) {
		a.Usage, b.Usage = used(1340, 0, 228), used(1380, 0, 310)
	}, want: Append},
	{name: "an endpoint that is gone", dialects: []string{dialectResponses}, x: func(a, b *Exchange) {
		a.Usage, b.Usage = used(1340, 0, 228), used(0, 0, 1690)
	}, want: ProviderMiss},
	{name: "another conversation that began alike", bare: true, base: func(s *talk) { s.msgs = s.msgs[:5] }, edit: func(s *talk) { s.msgs[3].parts[0].text = "It snows in July as well." }, want: First},
	{name: "the same, in one session", bare: true, base: func(s *talk) { s.msgs = s.msgs[:5] }, edit: func(s *talk) { s.msgs[3].parts[0].text = "It snows in July as well." }, x: func(a, b *Exchange) { a.Session, b.Session = "s", "s" }, want: HistoryMutated},
	{name: "text that a message happens to begin with", edit: func(s *talk) { s.system[1] += " Be brief." }, want: SystemDynamic},
}

// TestCauses: every cause of the taxonomy has a pair of bodies that is named
// right, and the pairs that are near to one are named as what they are.
func TestCauses(t *testing.T) {
	seen := map[Label]bool{First: true, OddBody: true}
	for _, r := range causes {
		dialects := r.dialects
		if dialects == nil {
			dialects = talkDialects
		}
		for _, d := range dialects {
			t.Run(r.name+"/"+d, func(t *testing.T) {
				res := r.check(d)
				if res.Label != r.want {
					t.Fatalf("%s (%s), want %s; labels %v, also %+v, odd %s %s", res.Label, res.Detail, r.want, res.Labels, res.Also, res.Odd, res.Note)
				}
				if r.conf != "" && res.Confidence != r.conf {
					t.Errorf("confidence %s, want %s", res.Confidence, r.conf)
				}
				for _, l := range r.also {
					if !slices.Contains(res.Labels, l) {
						t.Errorf("labels %v lack %s", res.Labels, l)
					}
					seen[l] = true
				}
				if !strings.Contains(res.Detail, r.detail) {
					t.Errorf("detail %q lacks %q", res.Detail, r.detail)
				}
				if res.Labels[0] != res.Label {
					t.Errorf("labels %v don't begin with %s", res.Labels, res.Label)
				}
			})
		}
		seen[r.want] = true
	}
	for _, l := range Labels() {
		if !seen[l.Label] {
			t.Errorf("no pair of bodies for %s", l.Label)
		}
	}
}
