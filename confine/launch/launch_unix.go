//go:build (linux || darwin) && (amd64 || arm64)

package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

func launch(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "guardproxy: fatal: the launcher was started without its instructions")
		return ExitFatal
	}
	if args[1] == confine.ProbeArg {
		return probe(args[2])
	}
	spec, err := instructions(args[2])
	if err != nil {
		fmt.Fprintf(os.Stderr, "guardproxy: fatal: the launcher can't read its instructions: %v\n", err)
		return ExitFatal
	}
	argv := args[3:]
	st := status(spec.StatusFD)
	if len(argv) == 0 {
		return st.fatal(errors.New("no command"))
	}

	runtime.LockOSThread() // for good: ends in execve or exit
	if err := restrict(spec); err != nil {
		return st.fatal(err)
	}
	return st.become(spec.Check.Word, argv, confine.Env(os.Environ(), spec.Env))
}

// maxInstructions bounds what is read, in bytes.
const maxInstructions = 1 << 20

// instructions reads what to apply from the descriptor that arg numbers.
func instructions(arg string) (spec confine.LaunchSpec, err error) {
	fd, err := strconv.Atoi(arg)
	if err != nil || fd < 3 {
		return spec, fmt.Errorf("%q is no descriptor", arg)
	}
	f := os.NewFile(uintptr(fd), "instructions")
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxInstructions))
	if err != nil {
		return spec, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // what is not understood is not applied
	if err := d.Decode(&spec); err != nil {
		return spec, err
	}
	return spec, nil
}

func limit(spec confine.LaunchSpec) error {
	// A core dump would put the command's memory into a file.
	set := map[int]uint64{unix.RLIMIT_CORE: 0}
	if spec.FileSize > 0 {
		set[unix.RLIMIT_FSIZE] = spec.FileSize
	}
	if spec.Processes > 0 {
		set[unix.RLIMIT_NPROC] = spec.Processes
	}
	for what, n := range set {
		var now unix.Rlimit
		if err := unix.Getrlimit(what, &now); err != nil {
			return fmt.Errorf("read resource limit %d: %w", what, err)
		}
		n = min(n, now.Max) // a lower limit of the user's stands
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("set resource limit %d: %w", what, err)
		}
	}
	return nil
}

// become turns this process into the command, looked up as a shell does.
func (s status) become(word string, argv, env []string) int {
	path, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return s.notRun(argv[0], err)
	}
	dieAsCommand()
	s.write("ready " + word + "\n")
	err = unix.Exec(path, argv, env)
	if errors.Is(err, unix.ENOEXEC) { // a script without #!: execvp(3) hands it to sh
		err = unix.Exec("/bin/sh", append([]string{"sh", path}, argv[1:]...), env)
	}
	return s.notRun(argv[0], err)
}

// status is the launcher's pipe to whoever started it, 0 for none.
type status int

func (s status) write(text string) {
	if s > 0 {
		unix.Write(int(s), []byte(text))
	}
}

// fatal reports that the process could not be confined. Without the pipe,
// stderr is all there is.
func (s status) fatal(err error) int {
	text := "fatal: " + strings.ReplaceAll(err.Error(), "\n", " ")
	if s > 0 {
		if _, werr := unix.Write(int(s), []byte(text+"\n")); werr == nil {
			return ExitFatal
		}
	}
	fmt.Fprintf(os.Stderr, "guardproxy: %s\n", text)
	return ExitFatal
}

// notRun reports a command that can't be executed: to the pipe, and on stderr
// as a shell would.
func (s status) notRun(name string, err error) int {
	code, text := ExitNotAllowed, "can't be executed"
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		code, text = ExitNotFound, "command not found"
	} else if e := unix.Errno(0); errors.As(err, &e) {
		text += ": " + e.Error()
	}
	s.write("exec: " + strings.ReplaceAll(name, "\n", " ") + ": " + text + "\n")
	fmt.Fprintf(os.Stderr, "guardproxy: %s: %s\n", name, text)
	return code
}
