package metrics

import (
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// filled is a Metrics on which everything has happened once.
func filled() *Metrics {
	m := New("v1")
	m.Began()
	m.Streaming(1)
	m.Judged(Call{Decision: "refuse", Cause: "trap", Guard: "g", Kind: "shell", Dialect: "openai-chat", Took: time.Millisecond, Verdicts: []Verdict{
		{Guard: "g", Verdict: "deny", Cause: "trap", Took: time.Millisecond, Fuel: 1000},
		{Guard: "new", Verdict: "deny", Cause: "policy", Observed: true, Took: time.Second},
		{Guard: "p", Verdict: "pass", Took: time.Microsecond},
	}})
	m.Streaming(-1)
	m.Ended(Exchange{Dialect: "openai-chat", Upstream: "up", Client: "pi", Status: 200, Refused: "reply_refused",
		FirstByte: time.Millisecond, Took: time.Second, Received: 1, Sent: 2, Returned: 3, Delivered: 4})
	m.Reloaded(nil)
	m.Reloaded(errors.New("no"))
	m.GuardReloaded("g", errors.New("no"))
	return m
}

// Every count goes where it belongs.
func TestCounts(t *testing.T) {
	got := filled().Values()
	maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, "guardproxy_") })
	want := map[string]float64{
		`guardproxy_calls_total{cause="trap",decision="refuse",dialect="openai-chat",guard="g",kind="shell"}`: 1,
		`guardproxy_judgement_seconds{decision="refuse"}`:                                                     1,
		`guardproxy_guard_verdicts_total{cause="trap",guard="g",mode="enforce",verdict="deny"}`:               1,
		`guardproxy_guard_verdicts_total{cause="policy",guard="new",mode="observe",verdict="deny"}`:           1,
		`guardproxy_guard_verdicts_total{cause="",guard="p",mode="enforce",verdict="pass"}`:                   1,
		`guardproxy_guard_seconds{guard="g"}`:                                                                 1,
		`guardproxy_guard_seconds{guard="new"}`:                                                               1,
		`guardproxy_guard_seconds{guard="p"}`:                                                                 1,
		`guardproxy_guard_fuel_units{guard="g"}`:                                                              1,
		`guardproxy_exchanges_total{client="pi",dialect="openai-chat",status="2xx",upstream="up"}`:            1,
		`guardproxy_refused_total{code="reply_refused",dialect="openai-chat"}`:                                1,
		`guardproxy_exchanges_running`:                                                                        0,
		`guardproxy_streams_running`:                                                                          0,
		`guardproxy_bytes_total{direction="from_client"}`:                                                     1,
		`guardproxy_bytes_total{direction="to_upstream"}`:                                                     2,
		`guardproxy_bytes_total{direction="from_upstream"}`:                                                   3,
		`guardproxy_bytes_total{direction="to_client"}`:                                                       4,
		`guardproxy_first_byte_seconds{dialect="openai-chat"}`:                                                1,
		`guardproxy_exchange_seconds{dialect="openai-chat"}`:                                                  1,
		`guardproxy_configuration_reloads_total{result="ok"}`:                                                 1,
		`guardproxy_configuration_reloads_total{result="failed"}`:                                             1,
		`guardproxy_guard_reloads_total{guard="g",result="failed"}`:                                           1,
		`guardproxy_build_info{version="v1"}`:                                                                 1,
	}
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s is %v, want %v", name, g, v)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is counted, and not looked at here", name)
		}
	}
}

func TestStatusClasses(t *testing.T) {
	for status, want := range map[int]string{0: "none", 99: "none", 100: "1xx", 200: "2xx", 299: "2xx", 404: "4xx", 599: "5xx", 600: "none", -1: "none"} {
		if got := class(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func TestHandler(t *testing.T) {
	m := filled()
	m.Gauge("guardproxy_sessions", "Sessions.", func() float64 { return 7 })
	m.Counter("guardproxy_x_total", "X.", func() float64 { return 8 })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d %v", w.Code, err)
	}
	for _, line := range []string{"guardproxy_sessions 7\n", "guardproxy_x_total 8\n", "go_goroutines ", `guardproxy_build_info{version="v1"} 1`, "# HELP guardproxy_calls_total "} {
		if !strings.Contains(string(b), line) {
			t.Errorf("no %q in\n%s", line, b)
		}
	}
}

// Counting from many goroutines loses nothing.
func TestAtOnce(t *testing.T) {
	m := New("v1")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				m.Began()
				m.Judged(Call{Decision: "allow"})
				m.Ended(Exchange{})
			}
		})
	}
	wg.Wait()
	v := m.Values()
	if n := v[`guardproxy_calls_total{cause="",decision="allow",dialect="",guard="",kind=""}`]; n != 1600 {
		t.Errorf("%v calls, want 1600", n)
	}
	if n := v["guardproxy_exchanges_running"]; n != 0 {
		t.Errorf("%v are running", n)
	}
}

// A nil *Metrics takes what is told without looking.
func TestNil(t *testing.T) {
	var m *Metrics
	m.Reloaded(nil)
	m.GuardReloaded("g", nil)
}

// The page lists exactly the metrics that there are, with their labels.
func TestDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(guardproxy_[a-z_]+)` \\| (\\S.*?) \\| ").FindAllStringSubmatch(string(b), -1) {
		documented[row[1]] = row[2]
	}
	label := regexp.MustCompile(`([a-z_]+)="`)
	there := map[string]string{}
	for name := range filled().Values() {
		name, labels, _ := strings.Cut(name, "{")
		if !strings.HasPrefix(name, "guardproxy_") {
			continue
		}
		var list []string
		for _, l := range label.FindAllStringSubmatch(labels, -1) {
			list = append(list, "`"+l[1]+"`")
		}
		slices.Sort(list)
		there[name] = strings.Join(list, ", ")
		if len(list) == 0 {
			there[name] = "-"
		}
	}
	for name, labels := range there {
		have := strings.Split(documented[name], ", ")
		slices.Sort(have)
		if got := strings.Join(have, ", "); got != labels {
			t.Errorf("the page has %s with the labels %s, there are %s", name, documented[name], labels)
		}
	}
	for name := range documented {
		if _, ok := there[name]; !ok && !asked[name] {
			t.Errorf("the page has %s, which does not exist", name)
		}
	}
	for name := range asked {
		if documented[name] != "-" {
			t.Errorf("the page does not have %s", name)
		}
	}
}

// asked are the values that serve adds, which are asked for at each scrape; a
// test of serve looks for them.
var asked = map[string]bool{"guardproxy_sessions": true, "guardproxy_decision_log_dropped_total": true,
	"guardproxy_recorded_total": true, "guardproxy_recordings_lost_total": true,
	"guardproxy_guard_instances": true, "guardproxy_guard_instances_discarded": true}
