//go:build linux && (amd64 || arm64)

package run_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// BenchmarkSpawn is what it costs to run true: plain, under bwrap with the
// profile that everybody uses, under the whole stack in a process that has it
// ready, and by the two command lines, which start from nothing. They take turns in
// one loop, so that a busy machine is busy for all of them; the metrics are
// medians of the times, and of the ratios in each round.
func BenchmarkSpawn(b *testing.B) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		machine.Lacks(b, "bwrap", "%v", err)
	}
	base, err := os.MkdirTemp("/var/tmp", "run-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(base) })
	launcher, workspace, state := filepath.Join(base, "guardproxy-launch"), filepath.Join(base, "workspace"), filepath.Join(base, "state")
	if ready := os.Getenv("GUARDPROXY_LAUNCHER"); ready != "" {
		launcher = ready // an ordinary user may have no Go to build it with
	}
	command := filepath.Join(filepath.Dir(launcher), "guardproxy")
	small := command + "-exec"
	for _, program := range []string{launcher, command, small} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "github.com/guardproxy/guardproxy/cmd/"+filepath.Base(program))
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if _, err := os.Stat(program); err == nil {
		} else if out, err := build.CombinedOutput(); err != nil {
			machine.Lacks(b, "go", "%s can't be built: %v: %s", program, err, out)
		}
	}
	if err := os.Mkdir(workspace, 0o755); err != nil {
		b.Fatal(err)
	}
	exec.Command("git", "init", "-q", workspace).Run() // with hooks and a configuration to guard, where there is git
	common := []string{"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net", "--cap-drop", "ALL",
		"--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
		"--bind", workspace, workspace, "--chdir", workspace, "--", "true"}
	if os.Geteuid() != 0 {
		common = append([]string{"--unshare-user"}, common...)
	}
	chain := confine.New(confine.Options{Launcher: launcher})
	policy := confine.Policy{Mode: confine.WorkspaceWrite, Workspace: workspace, Masks: []string{state}, State: state, Session: "bench",
		Hidden: confine.Secrets([]string{os.Getenv("HOME")})}
	plain := func(argv ...string) func() {
		return func() {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	}
	contenders := []struct {
		name string
		run  func()
	}{
		{"plain", plain("true")},
		{"bwrap", plain(append([]string{bwrap}, common...)...)},
		{"stack", func() {
			p, err := chain.Confine([]string{"true"}, policy)
			if err != nil {
				b.Fatal(err)
			}
			if p.Enforcement.Runner != "bubblewrap" {
				machine.Lacks(b, "bubblewrap", "it does not work here: %+v", p.Enforcement.Passed)
			}
			r, err := run.Run(context.Background(), p, run.Options{})
			if err != nil || r.ExitCode != 0 {
				b.Fatalf("%+v, %v", r, err)
			}
			p.Close()
		}},
		{"exec", plain(small, "--workspace", workspace, "--session", "bench", "--", "true")},
		{"cli", plain(command, "exec", "--workspace", workspace, "--session", "bench", "--", "true")},
	}
	times := make([][]time.Duration, len(contenders))
	for _, c := range contenders {
		c.run() // the probe, and what is in no cache yet
	}
	b.ResetTimer()
	for range b.N {
		for i, c := range contenders {
			began := time.Now()
			c.run()
			times[i] = append(times[i], time.Since(began))
		}
	}
	b.StopTimer()
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	for i, c := range contenders {
		var ms, ratios []float64
		for round, t := range times[i] {
			ms = append(ms, float64(t)/1e6)
			ratios = append(ratios, float64(t)/float64(times[1][round]))
		}
		b.ReportMetric(median(ms), c.name+"-ms")
		if i > 1 {
			b.ReportMetric(median(ratios), c.name+"/bwrap")
		}
	}
	b.ReportMetric(0, "ns/op")
}
