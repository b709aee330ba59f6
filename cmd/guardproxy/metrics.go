package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/guardproxy/guardproxy/internal/audit"
	"github.com/guardproxy/guardproxy/internal/config"
	"github.com/guardproxy/guardproxy/internal/metrics"
	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/proxy"
)

// count makes a handler's options tell the metrics.
func count(o *proxy.Options, m *metrics.Metrics) {
	decided := o.Decided
	o.Decided = func(d proxy.Decision) {
		if decided != nil {
			decided(d)
		}
		c := metrics.Call{Decision: string(decision(d)), Cause: d.Cause, Guard: d.Guard, Kind: d.Kind, Dialect: d.Dialect, Took: d.Took}
		for _, v := range d.Verdicts {
			c.Verdicts = append(c.Verdicts, metrics.Verdict{Guard: v.Guard, Verdict: v.Decision.String(), Cause: string(v.Cause), Observed: v.Observed, Took: v.Took, Fuel: v.Fuel})
		}
		m.Judged(c)
	}
	o.Events = proxy.Events{
		Began:     m.Began,
		Ended:     func(x proxy.Traffic) { m.Ended(metrics.Exchange(x)) },
		Streaming: m.Streaming,
	}
}

// countHeld adds what is asked for at each scrape.
func countHeld(m *metrics.Metrics, h *proxy.Handler, set *guardSet, decisions *audit.Log, rec *record.Recorder) {
	m.Gauge("guardproxy_sessions", "Sessions that are known.", func() float64 { return float64(h.Sessions()) })
	m.Counter("guardproxy_decision_log_dropped_total", "Lines of the decision log that could not be written.", func() float64 { return float64(decisions.Dropped()) })
	m.Counter("guardproxy_recorded_total", "Exchanges that were written down (serve --record).", func() float64 { return float64(rec.Stats().Recorded) })
	m.Counter("guardproxy_recordings_lost_total", "Exchanges that should have been written down and were not.", func() float64 {
		lost := uint64(0)
		for _, n := range rec.Stats().Lost {
			lost += n
		}
		return float64(lost)
	})
	m.Gauge("guardproxy_guard_instances", "Instances that the guards in force have made since they were loaded.", func() float64 { return float64(set.stats().Instances) })
	m.Gauge("guardproxy_guard_instances_discarded", "Those of them that were thrown away: after a failure, or because their memory grew.", func() float64 { return float64(set.stats().Discarded) })
}

// serveMetrics opens the listener for Prometheus.
func serveMetrics(cfg *config.Config, token string, m *metrics.Metrics, log *slog.Logger) (*http.Server, net.Addr, error) {
	ln, err := net.Listen("tcp", cfg.Metrics)
	if err != nil {
		return nil, nil, withHint(fmt.Errorf("metrics: listen on %s: %w", cfg.Metrics, barred(err)), "choose another address under metrics in the configuration; port 0 picks a free one")
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	srv := &http.Server{Handler: proxy.Shield(mux, cfg.Hosts, token), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go srv.Serve(ln)
	return srv, ln.Addr(), nil
}
