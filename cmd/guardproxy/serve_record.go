package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/guardproxy/guardproxy/cachecheck"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/proxy"
)

// openRecorder opens the directory of --record; without the flag it gives nil.
func (c *serveCmd) openRecorder(ring *envelope.Keyring, dirs home.Dirs, log *slog.Logger) (*record.Recorder, error) {
	if c.Record == "" {
		return nil, nil
	}
	rec, err := record.Open(c.Record, record.Options{
		Key: ring.Key(envelope.Credential),
		Failed: func(why record.Loss, err error) {
			log.Error("an exchange was not recorded; further ones are counted", "why", string(why), "error", err)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := home.NoteRecordings(dirs.State, c.Record); err != nil {
		log.Warn("the directory of recordings could not be noted: guardproxy exec will not hide it", "error", err)
	}
	log.Info("recording: the files hold whole conversations, credentials masked where they could be told", "directory", c.Record)
	return rec, nil
}

// closeRecorder writes what waits and says what was lost.
func closeRecorder(rec *record.Recorder, log *slog.Logger) {
	if rec == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rec.Close(ctx) // what it lost is in the counts
	s := rec.Stats()
	args := []any{"recorded", s.Recorded}
	for _, why := range []record.Loss{record.LostFull, record.LostWrite, record.LostStopped} {
		if n := s.Lost[why]; n > 0 {
			args = append(args, "lost: "+string(why), n)
		}
	}
	log.Info("recording ended", args...)
}

// recorded is what the proxy calls with each exchange.
func recorded(rec *record.Recorder, ring *envelope.Keyring) func(*proxy.Exchange) {
	if rec == nil {
		return nil
	}
	m := rec.Masker()
	return func(e *proxy.Exchange) {
		x := &record.Exchange{Start: e.Start, FirstByte: e.FirstByte, End: e.End, Session: e.Session, Agent: e.Client, Dialect: e.Dialect, Method: e.Method,
			ClientBody: e.ClientBody, UpstreamBody: e.UpstreamBody, ContentEncoding: e.ContentEncoding, Rules: e.Rules,
			Rewrite: record.Rewrite{Removed: e.Removed, Restored: e.Restored}, Status: e.Status, ResponseID: e.ResponseID,
			Usage: usages(e.First, e.Usage), Diagnostics: e.Diagnostics}
		for _, c := range e.Calls {
			x.Calls = append(x.Calls, recordedCall(c))
		}
		rec.Add(x, func(x *record.Exchange) {
			id, secrets := m.Credential(e.RequestHeader)
			x.Credential = id
			x.RequestHeaders, x.ResponseHeaders = m.RequestHeaders(e.RequestHeader), m.ResponseHeaders(e.ResponseHeader)
			x.Path = m.Path(e.Path, e.Query)
			m.MaskExchange(x, secrets...)
			if len(x.Masked.ClientBody)+len(x.Masked.UpstreamBody) > 0 {
				// What is masked can't be proved later.
				live := cachecheck.ProveLive(func() cachecheck.Rewrite { return rewriter(ring, true) }, x.Dialect, x.Rules, e.ClientBody, e.UpstreamBody)
				x.Proof, _ = json.Marshal(live)
			}
		}, e.Release)
	}
}

func recordedCall(c proxy.JudgedCall) record.Call {
	out := record.Call{ID: c.CallID, Tool: c.Tool, ArgumentsRaw: c.Raw,
		Facts: record.Facts{Model: c.Model, Mode: c.Facts.Mode, Approval: c.Facts.Approval, Workspace: c.Facts.Workspace, Turn: c.Facts.Turn, Calls: c.Facts.Calls, Index: c.Facts.Index}}
	if c.Given != nil {
		out = record.NewCall(c.Given, c.Raw)
	}
	out.Kind, out.Cause, out.Guard = c.Kind, c.Cause, c.Guard
	switch {
	case c.Allowed && c.Edited:
		out.Verdict = record.AllowEdited
	case c.Allowed:
		out.Verdict = record.Allow
	default:
		out.Verdict = record.Refuse
	}
	return out
}

// usages is the usage of a reply, or the two of a stream that counts at its
// start and at its end.
func usages(first, last []byte) json.RawMessage {
	switch {
	case len(first) == 0 || bytes.Equal(first, last):
		return last
	case len(last) == 0:
		return first
	}
	return slices.Concat([]byte{'['}, first, []byte{','}, last, []byte{']'})
}
