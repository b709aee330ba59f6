// Package metrics counts what a proxy does, for Prometheus.
//
// Every label has few values, and none that a model or a client can choose:
// decisions, causes and codes are words of guardproxy's own, guards and
// upstreams are named in the configuration, clients in the catalogue. Nothing
// of a call's text is in it. docs/metrics.md is the list, and a test holds the
// two together.
package metrics

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the counters of one process. Make it with New. It is safe for
// concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	calls        *prometheus.CounterVec
	judgement    *prometheus.HistogramVec
	verdicts     *prometheus.CounterVec
	guardTime    *prometheus.HistogramVec
	guardFuel    *prometheus.HistogramVec
	exchanges    *prometheus.CounterVec
	refused      *prometheus.CounterVec
	running      prometheus.Gauge
	streams      prometheus.Gauge
	bytes        *prometheus.CounterVec
	firstByte    *prometheus.HistogramVec
	exchangeTime *prometheus.HistogramVec
	reloads      *prometheus.CounterVec
	guardReloads *prometheus.CounterVec
}

// Buckets, in seconds: a guard takes microseconds to a quarter of a second, an
// exchange milliseconds to many minutes.
var (
	short = []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 5}
	long  = []float64{5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	units = []float64{1e3, 1e4, 1e5, 1e6, 1e7, 5e7, 1e8, 5e8}
)

// New makes the counters. version is the program's.
func New(version string) *Metrics {
	r := prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		r.MustRegister(h)
		return h
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	m := &Metrics{
		registry:     r,
		calls:        counter("guardproxy_calls_total", "Tool calls judged.", "decision", "cause", "guard", "kind", "dialect"),
		judgement:    histogram(short, "guardproxy_judgement_seconds", "Time to judge one call: all checks and all guards, waiting for slots included.", "decision"),
		verdicts:     counter("guardproxy_guard_verdicts_total", "Verdicts of single guards.", "guard", "mode", "verdict", "cause"),
		guardTime:    histogram(short, "guardproxy_guard_seconds", "Time of one guard for one call, waiting for a slot included.", "guard"),
		guardFuel:    histogram(units, "guardproxy_guard_fuel_units", "Fuel that one guard burnt for one call.", "guard"),
		exchanges:    counter("guardproxy_exchanges_total", "Requests that were answered.", "dialect", "upstream", "client", "status"),
		refused:      counter("guardproxy_refused_total", "Requests and replies that guardproxy answered with an error of its own.", "dialect", "code"),
		running:      gauge("guardproxy_exchanges_running", "Requests that are being answered."),
		streams:      gauge("guardproxy_streams_running", "Replies that are being streamed."),
		bytes:        counter("guardproxy_bytes_total", "Bytes of bodies as they were read and written, compressed ones as such.", "direction"),
		firstByte:    histogram(long, "guardproxy_first_byte_seconds", "Time from a request's arrival to the first byte of its reply.", "dialect"),
		exchangeTime: histogram(long, "guardproxy_exchange_seconds", "Time from a request's arrival to the end of its reply.", "dialect"),
		reloads:      counter("guardproxy_configuration_reloads_total", "Times that the configuration was read again.", "result"),
		guardReloads: counter("guardproxy_guard_reloads_total", "Times that a guard's changed module was loaded again.", "guard", "result"),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "guardproxy_build_info", Help: "Always 1; the label is the version."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// What never happened is 0 and not absent, so that an alert can tell.
	for _, result := range []string{"ok", "failed"} {
		m.reloads.WithLabelValues(result)
	}
	return m
}

// Handler answers GET with the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Values is what a scrape gives: the values of counters and gauges by name and
// labels, as the text format writes them, and of histograms their counts. It
// is for tests of who counts.
func (m *Metrics) Values() map[string]float64 {
	families, err := m.registry.Gather()
	if err != nil {
		panic(err) // only collectors of our own are in it
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case s.GetCounter() != nil:
				out[name] = s.GetCounter().GetValue()
			case s.GetGauge() != nil:
				out[name] = s.GetGauge().GetValue()
			case s.GetHistogram() != nil:
				out[name] = float64(s.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

// Gauge adds a value that is asked for at each scrape.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Counter adds a count that is asked for at each scrape. It never falls.
func (m *Metrics) Counter(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// Call is one judged call.
type Call struct {
	Decision string // allow, allow_edited, refuse
	Cause    string // of a refusal or an edit
	Guard    string // that decided, if one did
	Kind     string
	Dialect  string
	Took     time.Duration
	Verdicts []Verdict
}

// Verdict is one guard's answer.
type Verdict struct {
	Guard    string
	Verdict  string // pass, ask, deny
	Cause    string // policy, or how the guard broke
	Observed bool
	Took     time.Duration
	Fuel     int64 // 0 where it is not counted
}

// Judged counts a call.
func (m *Metrics) Judged(c Call) {
	m.calls.WithLabelValues(c.Decision, c.Cause, c.Guard, c.Kind, c.Dialect).Inc()
	m.judgement.WithLabelValues(c.Decision).Observe(c.Took.Seconds())
	for _, v := range c.Verdicts {
		mode := "enforce"
		if v.Observed {
			mode = "observe"
		}
		m.verdicts.WithLabelValues(v.Guard, mode, v.Verdict, v.Cause).Inc()
		m.guardTime.WithLabelValues(v.Guard).Observe(v.Took.Seconds())
		if v.Fuel > 0 {
			m.guardFuel.WithLabelValues(v.Guard).Observe(float64(v.Fuel))
		}
	}
}

// Exchange is one request and its reply, when it is over.
type Exchange struct {
	Dialect, Upstream, Client string // "" when not known
	Status                    int    // 0 when none was sent
	Refused                   string // the code of guardproxy's own error, if there was one

	FirstByte, Took time.Duration // FirstByte is 0 when there was none
	// Bytes of bodies: from the client, to the upstream, from it, to the client.
	Received, Sent, Returned, Delivered int64
}

// Began counts a request that arrived.
func (m *Metrics) Began() { m.running.Inc() }

// Ended counts a request that is over.
func (m *Metrics) Ended(x Exchange) {
	m.running.Dec()
	m.exchanges.WithLabelValues(x.Dialect, x.Upstream, x.Client, class(x.Status)).Inc()
	if x.Refused != "" {
		m.refused.WithLabelValues(x.Dialect, x.Refused).Inc()
	}
	if x.FirstByte > 0 {
		m.firstByte.WithLabelValues(x.Dialect).Observe(x.FirstByte.Seconds())
	}
	m.exchangeTime.WithLabelValues(x.Dialect).Observe(x.Took.Seconds())
	for direction, n := range map[string]int64{"from_client": x.Received, "to_upstream": x.Sent, "from_upstream": x.Returned, "to_client": x.Delivered} {
		m.bytes.WithLabelValues(direction).Add(float64(n))
	}
}

func class(status int) string {
	if status < 100 || status > 599 {
		return "none"
	}
	return string(rune('0'+status/100)) + "xx"
}

// Streaming counts a stream that begins (1) or ends (-1).
func (m *Metrics) Streaming(delta int) { m.streams.Add(float64(delta)) }

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// Reloaded counts that the configuration was read again; err says that the old
// one stayed. A nil *Metrics counts nothing.
func (m *Metrics) Reloaded(err error) {
	if m != nil {
		m.reloads.WithLabelValues(result(err)).Inc()
	}
}

// GuardReloaded counts that a guard's module was loaded again; err says that
// the old one stayed. A nil *Metrics counts nothing.
func (m *Metrics) GuardReloaded(guard string, err error) {
	if m != nil {
		m.guardReloads.WithLabelValues(guard, result(err)).Inc()
	}
}
