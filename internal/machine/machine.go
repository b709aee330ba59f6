// Package machine is what tests need of the machine that they run on: a
// program, the right to do something, the user that they run as.
//
// A test that does not find it is skipped with a message that names it. Where
// $GUARDPROXY_REQUIRE, a list with commas, names it, the test fails instead:
// .ci/run names all that .ci/setup installs. Root and User are never in the
// list, since nobody is both; .ci/run tests as each of them.
package machine

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Who a test has to be run by.
const (
	Root = "root"
	User = "an ordinary user"
)

// Env is the environment variable that says what must not be lacking.
const Env = "GUARDPROXY_REQUIRE"

// Required reports whether the lack of what is a failure.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv(Env), ","), what)
}

// Lacks ends a test for which the machine lacks what.
func Lacks(t testing.TB, what, format string, args ...any) {
	t.Helper()
	if Required(what) {
		t.Fatalf(what+" is required ("+Env+"): "+format, args...)
		return
	}
	t.Skipf("needs "+what+": "+format, args...)
}

// Needs is the path of a program, without which the test ends.
func Needs(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Lacks(t, program, "%v", err)
	}
	return path
}

// Has is the condition of scripts: [has:PROGRAM] says whether the machine has
// the program, and fails a script on a machine that must have it.
func Has(condition string) (bool, error) {
	program, ok := strings.CutPrefix(condition, "has:")
	if !ok {
		return false, errors.New("unknown condition " + condition)
	}
	_, err := exec.LookPath(program)
	if err != nil && Required(program) {
		return false, errors.New(program + " is required (" + Env + "): " + err.Error())
	}
	return err == nil, nil
}
