package wasm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// The benchmarks here give ratios of two things that are measured in turns, so
// that a busy machine slows both.

// benchCall is a call of the usual size: a document of some 900 bytes.
func benchCall() *guards.Call {
	args, err := json.Marshal(map[string]any{"command": "cd x && make -j4 test | tail -20", "description": strings.Repeat("lorem ipsum dolor sit amet ", 12), "timeout": 120000})
	if err != nil {
		panic(err)
	}
	return &guards.Call{ID: "toolu_01", Name: "Bash", Kind: "shell", Arguments: args, ArgumentsRaw: string(args), Model: "m", Dialect: "anthropic-messages",
		Shell:   &guards.Shell{Argv: [][]string{{"cd", "x"}, {"make", "-j4", "test"}, {"tail", "-20"}}},
		Session: guards.Session{ID: "s", Mode: "workspace-write", Approval: "never", Workspace: "/work", Turn: 3, Calls: 7}}
}

// benchModules are the reactors that there are: the smallest one, and all
// examples.
func benchModules(b *testing.B) map[string][]byte {
	b.Helper()
	files, err := filepath.Glob("../examples/*/*.wasm")
	if err != nil || len(files) == 0 {
		b.Fatalf("no examples: %v", err)
	}
	out := map[string][]byte{}
	for _, f := range append(files, "testdata/name.wasm") {
		m, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".wasm")] = m
	}
	return out
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// inTurns runs some functions in turns and gives the time within which each was
// done in one of ten turns: what else the machine does is then hardly in it.
func inTurns(b *testing.B, f ...func()) []time.Duration {
	took := make([][]time.Duration, len(f))
	for b.Loop() {
		for i := range f {
			start := time.Now()
			f[i]()
			took[i] = append(took[i], time.Since(start))
		}
	}
	var out []time.Duration
	for _, d := range took {
		slices.Sort(d)
		out = append(out, d[len(d)/10])
	}
	return out
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// A call in an instance that is put back, beside one in a fresh metered
// instance: 1 would be as slow.
func BenchmarkResetOverFresh(b *testing.B) {
	modules := benchModules(b)
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		b.Run(name, func(b *testing.B) {
			o := wasm.Options{Name: name, Deadline: time.Minute, CacheDir: wasm.CodeDir}
			pooled, err := wasm.Load(b.Context(), modules[name], o)
			if err != nil {
				b.Fatal(err)
			}
			defer pooled.Close()
			fresh, err := wasm.LoadFresh(b.Context(), modules[name], o)
			if err != nil {
				b.Fatal(err)
			}
			defer fresh.Close()
			if !pooled.Info().Resettable {
				b.Fatalf("it is not put back: %s", pooled.Info().NotResettable)
			}
			c := benchCall()
			want := fresh.Check(b.Context(), c)
			check := func(g *wasm.Guard) func() {
				return func() {
					if v := g.Check(b.Context(), c); v.Decision != want.Decision || v.Reason != want.Reason {
						b.Fatalf("got %+v, want %+v", v, want)
					}
				}
			}
			t := inTurns(b, check(pooled), check(fresh))
			b.ReportMetric(us(t[0]), "reset-us")
			b.ReportMetric(us(t[1]), "fresh-us")
			b.ReportMetric(float64(t[0])/float64(t[1]), "reset/fresh")
		})
	}
}

// A good guard beside two stuck ones of each kind, and alone: 1 would be no
// slower. As a server does, it gives the scheduler processors for the guests.
func BenchmarkBesideStuckGuests(b *testing.B) {
	good := load(b, "name", wasm.Options{CacheDir: wasm.CodeDir})
	c := benchCall()
	measure := func() time.Duration {
		var took []time.Duration
		for range 100 {
			start := time.Now()
			good.Check(b.Context(), c)
			took = append(took, time.Since(start))
			time.Sleep(200 * time.Microsecond) // what a request waits for besides
		}
		return median(took)
	}
	for _, tc := range hostile {
		if tc.refused != "" || tc.brief {
			continue
		}
		b.Run(tc.name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + wasm.ProcessSlots())) // testing sets it for each b.Run
			var alone, beside []time.Duration
			for b.Loop() {
				alone = append(alone, measure())
				ctx, cancel := context.WithCancel(b.Context())
				var wg sync.WaitGroup
				var guests []*wasm.Guard
				for range 2 {
					g, err := wasm.Load(b.Context(), module(b, "hostile/"+tc.name), wasm.Options{Deadline: time.Hour, Fuel: endless, CacheDir: wasm.CodeDir})
					if err != nil {
						b.Fatal(err)
					}
					guests = append(guests, g)
					wg.Go(func() { g.Check(ctx, c) })
				}
				for guests[0].Stats().Calls+guests[1].Stats().Calls < 2 {
					runtime.Gosched()
				}
				beside = append(beside, measure())
				cancel()
				wg.Wait()
				for _, g := range guests {
					g.Close()
				}
			}
			a, s := median(alone), median(beside)
			b.ReportMetric(us(a), "alone-us")
			b.ReportMetric(us(s), "beside-us")
			b.ReportMetric(float64(s)/float64(a), "beside/alone")
		})
	}
}

// By how much each kind of hostile guest overruns a deadline of 50 ms, at the
// worst of all runs, which may be the machine's, and in the middle of them; those that take all memory there is, with the most that an
// operator can allow, too.
func BenchmarkOverrun(b *testing.B) {
	const deadline = 50 * time.Millisecond
	for _, tc := range hostile {
		if tc.refused != "" {
			continue
		}
		memories := []int64{wasm.DefaultMemory}
		if tc.name == "fill_all" || tc.name == "touch_all" {
			memories = append(memories, 1<<30)
		}
		for _, memory := range memories {
			b.Run(fmt.Sprintf("%s/%dMiB", tc.name, memory>>20), func(b *testing.B) {
				g, err := wasm.Load(b.Context(), module(b, "hostile/"+tc.name), wasm.Options{Deadline: deadline, Fuel: endless, Memory: memory, CacheDir: wasm.CodeDir})
				if err != nil {
					b.Fatal(err)
				}
				defer g.Close()
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + wasm.ProcessSlots()))
				var over []time.Duration
				for b.Loop() {
					start := time.Now()
					if v := g.Check(b.Context(), call); v.Decision != guards.Deny {
						b.Fatal(v)
					}
					over = append(over, max(0, time.Since(start)-deadline))
				}
				b.ReportMetric(us(median(over))/1000, "median-overrun-ms")
				b.ReportMetric(us(slices.Max(over))/1000, "overrun-ms")
			})
		}
	}
}

// Eight guards in a chain, beside one of them.
func BenchmarkChainOfEight(b *testing.B) {
	m := benchModules(b)["no-root-delete"]
	var chain guards.Chain
	for i := range 8 {
		g, err := wasm.Load(b.Context(), m, wasm.Options{CacheDir: wasm.CodeDir, Deadline: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		defer g.Close()
		chain = append(chain, guards.Entry{Name: fmt.Sprint(i), Guard: g})
	}
	c := benchCall()
	t := inTurns(b, func() { chain[:1].Check(b.Context(), c) }, func() { chain.Check(b.Context(), c) })
	b.ReportMetric(us(t[0]), "one-us")
	b.ReportMetric(us(t[1]), "eight-us")
	b.ReportMetric(float64(t[1])/float64(t[0]), "eight/one")
}
