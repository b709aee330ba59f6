package run

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process that can't be killed is counted and does not hold the call; one
// that can be is gone, with what it started.
func TestSurvivorsAreCounted(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := Sole(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := os.StartProcess(sh, []string{"sh", "-c", "sleep 1000 & echo up; wait"}, &os.ProcAttr{Files: []*os.File{nil, w}, Env: os.Environ()})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	asked := map[int]bool{}
	if n := killAdopted(0, 0, 0, func(pid, _ int) { asked[pid] = true }); n != 2 || len(asked) != 2 || !asked[p.Pid] {
		t.Errorf("%d survived, tried to kill %v; want two of both", n, asked)
	}
	if n := killAdopted(0, 0, time.Minute, killChild); n != 0 {
		t.Errorf("%d survived", n)
	}
	if _, err := r.Read(make([]byte, 8)); err == nil {
		t.Error("something still holds the output")
	}
}

// A number that went to a stranger is left alone.
func TestOnlyChildrenAreKilled(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exec 3<&0; cat <&3 & echo $!; wait $!")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var stranger int
	if _, err := fmt.Fscan(out, &stranger); err != nil {
		t.Fatal(err)
	}
	killChild(stranger, os.Getppid()) // whose child it is not
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it was killed: %v", err)
	}
}
