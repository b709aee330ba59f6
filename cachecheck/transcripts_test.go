package cachecheck

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/schema"
)

// testdata/transcripts at the top of the repository holds a session for each
// cause, and one in each format. They are written from talks, and
// `go test ./cachecheck -run Transcripts -update` writes them and their reports
// anew: the reports are read as text when they change.

var update = flag.Bool("update", false, "write the transcripts and their reports anew")

const transcripts = "../testdata/transcripts"

// turn is one request of a transcript.
type turn struct {
	talk    *talk
	body    []byte // instead of the talk's
	client  []byte // what the client sent, when it was narrowed
	session string
	agent   string
	x       Exchange // usage, upstream, betas, credential
	gap     time.Duration
	late    time.Duration // until the first byte
	counted bool          // usage is the row's own
	silent  bool          // no usage at all
	diag    string
	id      string
	path    string
	rules   []byte
	status  int
}

// shortHouse is the system text of transcripts: as short as what is cached may
// be.
func shortHouse(dialect string) string {
	n := 4700
	if dialect == dialectMessages {
		n = 2900
	}
	return house[:strings.LastIndexByte(house[:n], '\n')+1]
}

// shorten makes a talk fit for a transcript.
func shorten(s *talk) {
	for i := range s.system {
		s.system[i] = strings.Replace(s.system[i], house, shortHouse(s.dialect), 1)
	}
	if s.dialect == dialectMessages && s.model == talkModels[dialectMessages] {
		s.model = "claude-opus-5"
	}
	for i := range s.msgs {
		for k := range s.msgs[i].parts {
			p := &s.msgs[i].parts[k]
			p.text = strings.Replace(p.text, house, shortHouse(s.dialect), 1)
		}
	}
}

// rowTurns is the transcript of a row: the pair, and a third request that goes
// on.
func rowTurns(r *row, dialect string) []turn {
	s := baseTalk(dialect)
	if r.base != nil {
		r.base(s)
	}
	u := s.clone()
	if !r.bare {
		u = u.say(more(1)...)
	}
	if r.edit != nil {
		r.edit(u)
	}
	v := u.say(more(2)...)
	if r.want == Retry {
		v = s.say(more(2)...)
	}
	turns := []turn{{talk: s}, {talk: u}, {talk: v}}
	for i := range turns {
		shorten(turns[i].talk)
		turns[i].session, turns[i].gap, turns[i].late = "5e551034", 40*time.Second, 900*time.Millisecond
		turns[i].body = turns[i].talk.body()
		if r.text != nil && i > 0 {
			turns[i].body = r.text(turns[i].body)
		}
	}
	if r.x != nil {
		a, b := &Exchange{Body: turns[0].body}, &Exchange{Body: turns[1].body}
		r.x(a, b)
		turns[0].x, turns[1].x, turns[2].x = *a, *b, *b
		if a.FirstByte > 0 {
			turns[0].late = time.Duration(a.FirstByte - a.Start)
		}
		if a.Start > 0 {
			turns[1].gap = time.Duration(b.Start - a.Start)
		}
		if b.Usage.Counted {
			turns[0].counted, turns[1].counted = true, true
		}
		turns[1].client = b.Client
	}
	switch r.want {
	case ProviderMiss, ModelGap:
		turns = turns[:2]
	case BreakpointBudget, BreakpointOrder: // refused, and mended
		turns[1].status = 400
		turns[2].body = s.say(more(1)...).body()
	}
	return turns
}

// simulate gives the usage that a provider would report which does what we
// think it does: res is what the checker says of the pair without any counters.
func simulate(a, b *request, res *Result) Usage {
	const perToken = 4
	u := Usage{Counted: true, Reported: true}
	order := func(q *request) (out []piece) {
		for _, l := range q.rule.Order {
			switch l {
			case "tools":
				out = append(out, q.tools()...)
			case "system":
				if q.rule.Provider == "anthropic" {
					out = append(out, withoutBilling(q.sys())...)
				} else {
					out = append(out, q.sys()...)
				}
			default:
				out = append(out, q.history()...)
			}
		}
		return out
	}
	tokens := func(l []piece) (n int) {
		for i := range l {
			n += int(l[i].to-l[i].from)/perToken + 1
		}
		return n
	}
	marked := b.rule.Lookup == LookupMarkers
	ob := order(b)
	u.Total = tokens(ob)
	least := 0
	if m, ok := MinimumOf(b.rule.Provider, b.model); ok {
		least = m.Tokens
	}
	if a != nil {
		oa := order(a)
		n := firstDiff(oa, ob)
		for i := range n {
			lost := slices.Contains(res.Lost, oa[i].layer.String())
			if lost && !(oa[i].layer == messagesLayer && strings.HasPrefix(string(res.Label), "history.")) {
				n = i
				break
			}
		}
		for marked && n > 0 && !oa[n-1].marked {
			n--
		}
		if u.Read = tokens(ob[:n]); u.Read < least {
			u.Read = 0
		}
		if g := b.rule.Granule; g > 1 && g <= 128 {
			u.Read -= u.Read % g
		}
	}
	if marked || b.rule.Lookup == LookupEndpoints {
		n := len(ob)
		for marked && n > 0 && !ob[n-1].marked {
			n--
		}
		if stored := tokens(ob[:n]); stored >= least {
			u.Written = max(0, stored-u.Read)
		}
	}
	u.Uncached = u.Total - u.Read - u.Written
	return u
}

// usageJSON writes usage as the dialect's replies do.
func usageJSON(dialect string, u Usage) string {
	switch dialect {
	case dialectMessages:
		return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":61}`, u.Uncached, u.Written, u.Read)
	case dialectChat:
		return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":61,"prompt_tokens_details":{"cached_tokens":%d}}`, u.Total, u.Read)
	case dialectResponses:
		return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":61,"total_tokens":%d}`, u.Total, u.Read, u.Written, u.Total+61)
	case dialectGemini:
		return fmt.Sprintf(`{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":61}`, u.Total, u.Read)
	}
	return fmt.Sprintf(`{"inputTokens":%d,"outputTokens":61,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d}`, u.Uncached, u.Read, u.Written)
}

var dialectPaths = map[string]string{
	dialectMessages: "/v1/messages?beta=true", dialectChat: "/v1/chat/completions", dialectResponses: "/v1/responses",
	dialectGemini: "/v1beta/models/gemini-3.6-flash:generateContent", dialectConverse: "/model/anthropic.claude-sonnet-4-6-v1:0/converse",
}

// finish fills in what turns leave open: usage and times.
func finish(t *testing.T, turns []turn) {
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	type past struct {
		q *request
		x Exchange
	}
	last := map[string]past{}
	for i := range turns {
		n := &turns[i]
		if n.body == nil {
			n.body = n.talk.body()
		}
		if i > 0 {
			at = at.Add(n.gap)
		}
		n.x.Start, n.x.FirstByte = at.UnixNano(), at.Add(n.late).UnixNano()
		if n.path == "" {
			n.path = dialectPaths[n.talk.dialect]
		}
		if n.id == "" {
			n.id = fmt.Sprintf("msg_%04d", i+1)
		}
		q := &request{}
		lay := layouter{h: newHasher()}
		if odd, note := lay.read(q, n.body, n.talk.dialect, n.path); odd != "" {
			t.Fatal(odd, note)
		}
		q.rule = findRule(n.talk.dialect, n.x.Host, n.path, q.model)
		x := n.x
		x.Body, x.Session, x.Dialect, x.Path, x.Client, x.Usage = n.body, n.session, n.talk.dialect, n.path, n.client, Usage{}
		lane := n.session + n.agent + n.talk.model[:4] + fmt.Sprint(len(n.talk.tools) > 0)
		p := last[lane]
		if n.status == 0 {
			last[lane] = past{q, x}
		}
		if n.counted || n.silent || n.status != 0 {
			continue
		}
		var res Result
		if p.q != nil {
			c := New(Options{})
			c.Add(&p.x)
			res = c.Add(&x)
		}
		n.x.Usage = simulate(p.q, q, &res)
	}
}

// asOurs writes turns as guardproxy would have recorded them.
func asOurs(turns []turn) []byte {
	var out []byte
	rules := []byte("\x00")
	for _, n := range turns {
		if !bytes.Equal(rules, n.rules) {
			rules = n.rules
			out = record.AppendHeader(out, rules)
		}
		x := &record.Exchange{
			Start: time.Unix(0, n.x.Start), FirstByte: time.Unix(0, n.x.FirstByte), End: time.Unix(0, n.x.FirstByte).Add(2 * time.Second),
			Session: n.session, Agent: "claude-code", Dialect: n.talk.dialect, Method: "POST", Path: n.path, Credential: n.x.Credential, Status: cmp.Or(n.status, 200), ResponseID: n.id,
			ClientBody: n.body, UpstreamBody: n.body, RequestHeaders: map[string]string{},
		}
		if n.x.Credential == "" {
			x.Credential = "c0ffee12"
		}
		if n.x.Betas != "" {
			x.RequestHeaders["anthropic-beta"] = n.x.Betas
		}
		if n.x.Host != "" {
			x.RequestHeaders["host"] = n.x.Host
		}
		if n.agent != "" {
			x.RequestHeaders["x-claude-code-agent-id"] = n.agent
		}
		if n.client != nil {
			x.ClientBody = n.client
		}
		if !n.silent && n.status == 0 {
			x.Usage = json.RawMessage(usageJSON(n.talk.dialect, n.x.Usage))
		}
		if n.diag != "" {
			x.Diagnostics = json.RawMessage(n.diag)
		}
		out = record.AppendExchange(out, x)
	}
	return out
}

// file is one file of a transcript.
type file struct {
	name string
	text []byte
}

// allTranscripts builds every transcript: by name, one file, or several for a
// folder.
func allTranscripts(t *testing.T) map[string][]file {
	out := map[string][]file{}
	single := func(name, ext string, text []byte) { out[name] = []file{{name + ext, text}} }
	// One for each row that is the first of its label, in one of its dialects
	// after the other.
	done, next := map[Label]bool{}, 0
	for i := range causes {
		r := &causes[i]
		label := r.want
		if len(r.also) == 1 && (label == Append) {
			label = r.also[0]
		}
		if done[label] || label == Append || label == First || label == ScopeChanged && r.name != "another credential" || label == Unreported {
			continue
		}
		done[label] = true
		dialects := r.dialects
		if dialects == nil {
			dialects = talkDialects
		}
		d := dialects[next%len(dialects)]
		next++
		turns := rowTurns(r, d)
		finish(t, turns)
		single(strings.ReplaceAll(string(label), ".", "_"), ".jsonl", asOurs(turns))
	}
	// Growth in every dialect; without counters: unreported.
	for _, d := range talkDialects {
		turns := rowTurns(&row{}, d)
		finish(t, turns)
		single("append_"+strings.NewReplacer("-", "_").Replace(d), ".jsonl", asOurs(turns))
		if d == dialectGemini {
			for i := range turns {
				turns[i].silent = true
			}
			single("unreported", ".jsonl", asOurs(turns))
		}
	}
	moved := causes[slices.IndexFunc(causes, func(r row) bool { return r.name == "a moved marker" })]
	turns := rowTurns(&moved, dialectMessages)
	finish(t, turns)
	single("moved_marker", ".jsonl", asOurs(turns))

	single("narrowed", ".jsonl", asOurs(narrowedTurns(t, 0)))
	single("narrowed_half_way", ".jsonl", asOurs(narrowedTurns(t, 1)))
	single("parallel_agents", ".jsonl", asOurs(agentTurns(t)))
	single("vendor_diagnostics", ".jsonl", asOurs(diagnosedTurns(t)))

	// The other formats, each with a clock in the system text.
	clock := causes[slices.IndexFunc(causes, func(r row) bool { return r.name == "a clock in the system text" })]
	anth, chat := rowTurns(&clock, dialectMessages), rowTurns(&clock, dialectChat)
	finish(t, anth)
	finish(t, chat)
	single("har", ".har", asHAR(chat))
	single("mitmproxy", ".flows", asFlows(anth))
	single("vcr", ".yaml", asVCR(anth))
	single("httpmock", ".yaml", asHTTPMock(chat))
	single("wrapped_lines", ".jsonl", asWrapped(anth))
	var lines []byte
	for i, n := range anth {
		lines = append(append(lines, n.body...), '\n')
		out["bodies"] = append(out["bodies"], file{fmt.Sprintf("%d.json", i+9), n.body}) // 9, 10, 11
	}
	single("body_lines", ".jsonl", lines)
	out["claude_bodies"] = asClaudeFolder(t)
	return out
}

// narrowedTurns is a session whose client sends a field that goes; from is the
// request at which narrowing begins.
func narrowedTurns(t *testing.T, from int) []turn {
	s := baseTalk(dialectMessages)
	s.tools[0].schema = `{"type":"object","properties":{"command":{"type":"string"},"dangerouslyDisableSandbox":{"type":"boolean"}},"required":["command"]}`
	turns := []turn{{talk: s}, {talk: s.say(more(1)...)}, {talk: s.say(more(1)...).say(more(2)...)}}
	r := agents.Builtin().Rules(nil)
	rules, err := json.Marshal(schema.Rules{Tools: map[string][]schema.Field{"Bash": r.Tools["Bash"]}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range turns {
		n := &turns[i]
		shorten(n.talk)
		n.session, n.gap, n.late = "5e551034", 40*time.Second, 900*time.Millisecond
		n.body = n.talk.body()
		if i >= from {
			n.client, n.rules = n.body, rules
			n.body = swap(n.body, `,"dangerouslyDisableSandbox":{"type":"boolean"}`, "")
		}
	}
	finish(t, turns)
	return turns
}

// agentTurns is a conversation that sends two sub-agents out, and a title
// request; all under one session id, and in each other's way.
func agentTurns(t *testing.T) []turn {
	s := baseTalk(dialectMessages)
	agent := func(n string) *talk {
		a := baseTalk(dialectMessages)
		a.system = []string{"You are a scout of the weather stations. " + house}
		a.tools = a.tools[:2]
		a.msgs = []talkMsg{user(txt("<reminder>Be brief.</reminder>"), txt("Scout the station of "+n+", and report."))}
		return a
	}
	a, b := agent("the lake"), agent("the pass")
	title := &talk{dialect: dialectMessages, model: "claude-haiku-4-5", system: []string{"Write a title of five words for the conversation."}, msgs: []talkMsg{user(txt("Why does the station on the ridge report snow in July?"))}}
	turns := []turn{
		{talk: s}, {talk: title},
		{talk: a, agent: "agent-1"}, {talk: b, agent: "agent-2", gap: 200 * time.Millisecond},
		{talk: a.say(more(1)...), agent: "agent-1", gap: 9 * time.Second}, {talk: b.say(more(2)...), agent: "agent-2", gap: time.Second},
		{talk: s.say(more(3)...), gap: 20 * time.Second}, {talk: a.say(more(1)...).say(more(4)...), agent: "agent-1", gap: time.Second},
	}
	for i := range turns {
		shorten(turns[i].talk)
		turns[i].session, turns[i].late = "5e551034", 900*time.Millisecond
	}
	finish(t, turns)
	return turns
}

// diagnosedTurns carry the provider's own verdicts: one that we share, one that
// we don't, one that says nothing.
func diagnosedTurns(t *testing.T) []turn {
	s := baseTalk(dialectMessages)
	s.system[1] += " It is 10:15 UTC."
	u := s.say(more(1)...)
	u.system[1] = strings.Replace(u.system[1], "10:15", "10:16", 1)
	v := u.say(more(2)...)
	w := v.say(more(3)...)
	turns := []turn{{talk: s}, {talk: u, diag: `{"cache_miss_reason":{"type":"system_changed","cache_missed_input_tokens":911}}`},
		{talk: v, diag: `{"cache_miss_reason":{"type":"messages_changed"}}`}, {talk: w, diag: `{"cache_miss_reason":{"type":"previous_message_not_found"}}`}}
	for i := range turns {
		shorten(turns[i].talk)
		turns[i].session, turns[i].gap, turns[i].late = "5e551034", 40*time.Second, 900*time.Millisecond
		prev := "null"
		if i > 0 {
			prev = q(fmt.Sprintf("msg_%04d", i))
		}
		turns[i].talk.params = []string{`"diagnostics":{"previous_message_id":` + prev + `}`}
	}
	finish(t, turns)
	return turns
}

func replyOf(n *turn) string {
	switch n.talk.dialect {
	case dialectMessages:
		return `{"id":` + q(n.id) + `,"type":"message","role":"assistant","model":` + q(n.talk.model) + `,"content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":` + usageJSON(n.talk.dialect, n.x.Usage) + `}`
	}
	// A stream whose last chunk carries the usage.
	return "data: {\"id\":" + q(n.id) + ",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Done.\"}}]}\n\n" +
		"data: {\"id\":" + q(n.id) + ",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":" + usageJSON(n.talk.dialect, n.x.Usage) + "}\n\ndata: [DONE]\n\n"
}

func asHAR(turns []turn) []byte {
	var entries []string
	entries = append(entries, `{"startedDateTime":"2026-11-30T08:59:58.000Z","time":12,"request":{"method":"GET","url":"https://api.openai.com/v1/models","headers":[]},"response":{"status":200,"content":{"size":2,"text":"{}"}},"timings":{"send":0,"wait":11,"receive":1}}`)
	for i := range turns {
		n := &turns[i]
		entries = append(entries, `{"startedDateTime":`+q(time.Unix(0, n.x.Start).UTC().Format("2006-01-02T15:04:05.000Z"))+`,"time":2900,"request":{"method":"POST","url":"https://api.openai.com/v1/chat/completions","httpVersion":"HTTP/2","headers":[{"name":"content-type","value":"application/json"},{"name":"authorization","value":"Bearer ********"}],"postData":{"mimeType":"application/json","text":`+q(string(n.body))+`}},"response":{"status":200,"content":{"mimeType":"text/event-stream","encoding":"base64","text":`+q(base64.StdEncoding.EncodeToString([]byte(replyOf(n))))+`}},"timings":{"send":3,"wait":897,"receive":2000}}`)
	}
	return []byte(`{"log":{"version":"1.2","creator":{"name":"a proxy","version":"1"},"entries":[` + "\n" + strings.Join(entries, ",\n") + "\n]}}\n")
}

func tns(kind byte, data string) string { return fmt.Sprintf("%d:%s%c", len(data), data, kind) }

func asFlows(turns []turn) []byte {
	var out strings.Builder
	text, num := func(s string) string { return tns(';', s) }, func(n int64) string { return tns('#', fmt.Sprint(n)) }
	for i := range turns {
		n := &turns[i]
		body, encoding := n.body, ""
		headers := tns(']', tns(']', tns(',', "content-type")+tns(',', "application/json")))
		if i == 1 { // one body as Codex sends them
			body, encoding = zstdOf(body), "zstd"
		}
		if i == 2 {
			body, encoding = gzipOf(body), "gzip"
		}
		if encoding != "" {
			headers = tns(']', tns(']', tns(',', "Content-Encoding")+tns(',', encoding)))
		}
		at := func(ns int64) string { return tns('^', fmt.Sprintf("%.6f", float64(ns)/1e9)) }
		request := text("host") + text("api.anthropic.com") + text("port") + num(443) + text("method") + tns(',', "POST") + text("scheme") + tns(',', "https") +
			text("path") + tns(',', "/v1/messages?beta=true") + text("headers") + headers + text("content") + tns(',', string(body)) + text("timestamp_start") + at(n.x.Start)
		response := text("status_code") + num(200) + text("headers") + tns(']', "") + text("content") + tns(',', replyOf(n)) + text("timestamp_start") + at(n.x.FirstByte)
		out.WriteString(tns('}', text("version")+num(21)+text("type")+text("http")+text("websocket")+tns('~', "")+text("request")+tns('}', request)+text("response")+tns('}', response)))
	}
	return []byte(out.String())
}

func asVCR(turns []turn) []byte {
	var out strings.Builder
	out.WriteString("interactions:\n")
	for i := range turns {
		n := &turns[i]
		fmt.Fprintf(&out, "- request:\n    body: %s\n    headers:\n      Content-Type:\n      - application/json\n    method: POST\n    uri: https://api.anthropic.com/v1/messages\n  response:\n    body:\n      string: %s\n    headers: {}\n    status:\n      code: 200\n      message: OK\n", q(string(n.body)), q(replyOf(n)))
	}
	out.WriteString("version: 1\n")
	return []byte(out.String())
}

func asHTTPMock(turns []turn) []byte {
	var docs []string
	for i := range turns {
		n := &turns[i]
		docs = append(docs, fmt.Sprintf("when:\n  path: /v1/chat/completions\n  method: POST\n  header:\n  - name: content-type\n    value: application/json\n  body: '%s'\nthen:\n  status: 200\n  body: %s\n", strings.ReplaceAll(string(n.body), "'", "''"), q(replyOf(n))))
	}
	return []byte(strings.Join(docs, "---\n"))
}

func asWrapped(turns []turn) []byte {
	var out []byte
	for i := range turns {
		n := &turns[i]
		out = append(out, fmt.Sprintf(`{"request":{"timestamp":%.3f,"method":"POST","url":"https://api.anthropic.com/v1/messages","headers":{"anthropic-beta":"x"},"body":%s},"response":{"timestamp":%.3f,"status_code":200,"body":%s}}`+"\n", float64(n.x.Start)/1e9, n.body, float64(n.x.FirstByte)/1e9, replyOf(n))...)
	}
	return out
}

// asClaudeFolder is a raw-body folder: random names, the chain in the first
// system block.
func asClaudeFolder(t *testing.T) []file {
	s := baseTalk(dialectMessages)
	s.system = append([]string{""}, s.system...)
	s.params = []string{`"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"0b5e551034\"}"}`}
	var turns []turn
	for i := range 3 {
		if i > 0 {
			s = s.say(more(i)...)
		}
		u := s.clone()
		u.system[0] = fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1.332; cc_entrypoint=cli; cch=%05x;", i*7919)
		if i > 0 {
			u.system[0] += fmt.Sprintf(" cc_prev_req=req_%02d;", i)
		}
		if i == 2 {
			u.tools[0], u.tools[1] = u.tools[1], u.tools[0]
		}
		shorten(u)
		turns = append(turns, turn{talk: u, session: "0b5e551034", gap: 40 * time.Second})
	}
	finish(t, turns)
	names := []string{"f3a9c2d1-0000-4000-8000-000000000001", "11d7be02-0000-4000-8000-000000000002", "9c0e44aa-0000-4000-8000-000000000003"}
	var out []file
	for i := range turns {
		out = append(out, file{names[i] + ".request.json", turns[i].body})
		if i < 2 {
			out = append(out, file{fmt.Sprintf("req_%02d.response.json", i+1), []byte(replyOf(&turns[i]))})
		}
	}
	return out
}

// reportOf checks a file or folder and writes its report as --json does.
func reportOf(t *testing.T, path string) []byte {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var r *Reader
	name := filepath.Base(path)
	if fi.IsDir() {
		// Times of files are not in a repository.
		r, err = OpenFolder(name, timeless{os.DirFS(path)})
	} else {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer f.Close()
			r, err = Open(name, f)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := New(Options{})
	for {
		x, err := r.Next()
		if err == io.EOF {
			return out.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		res := c.Add(x)
		if err := WriteJSON(&out, &res); err != nil {
			t.Fatal(err)
		}
	}
}

// timeless is a file system in which all files are of one time.
type timeless struct{ fs.FS }

func (f timeless) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	for i := range entries {
		entries[i] = timelessEntry{entries[i]}
	}
	return entries, err
}

type timelessEntry struct{ fs.DirEntry }

func (e timelessEntry) Info() (fs.FileInfo, error) {
	fi, err := e.DirEntry.Info()
	return timelessInfo{fi}, err
}

type timelessInfo struct{ fs.FileInfo }

func (timelessInfo) ModTime() time.Time { return time.Unix(1, 0) }

// TestTranscripts: every session of testdata/transcripts is what its talk says,
// and is reported as its report says.
func TestTranscripts(t *testing.T) {
	all := allTranscripts(t)
	want := map[string]bool{}
	for name, files := range all {
		path := filepath.Join(transcripts, files[0].name)
		if len(files) > 1 {
			path = filepath.Join(transcripts, name)
		}
		report := filepath.Join(transcripts, name+".report.jsonl")
		want[filepath.Base(path)], want[filepath.Base(report)] = true, true
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				p := path
				if len(files) > 1 {
					p = filepath.Join(path, f.name)
				}
				golden(t, p, f.text)
			}
			golden(t, report, reportOf(t, path))
		})
	}
	entries, err := os.ReadDir(transcripts)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !want[e.Name()] && e.Name() != "README.md" {
			t.Errorf("%s belongs to no transcript", e.Name())
		}
	}
	// Every label is the cause in one of them, or stands beside one.
	seen := map[Label]bool{OddBody: true}
	for name := range all {
		for line := range bytes.Lines(mustRead(t, filepath.Join(transcripts, name+".report.jsonl"))) {
			var r Result
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			for _, l := range r.Labels {
				seen[l] = true
			}
		}
	}
	for _, l := range Labels() {
		if !seen[l.Label] {
			t.Errorf("no transcript shows %s", l.Label)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden compares got with a file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := mustRead(t, path); !bytes.Equal(got, want) {
		i := commonPrefix(got, want)
		from := max(0, i-60)
		t.Errorf("%s differs at byte %d\n got …%s\nwant …%s", path, i, got[from:min(len(got), i+200)], want[from:min(len(want), i+200)])
	}
}
