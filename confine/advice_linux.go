//go:build linux && (amd64 || arm64)

package confine

import (
	"os"
	"os/exec"
	"slices"
	"strings"
)

// What would make a better rung work, as a command where one does. Nothing else
// depends on these texts.

// installers are package managers and the package that has bwrap.
var installers = []struct{ program, command string }{
	{"apt-get", "sudo apt-get install bubblewrap"},
	{"dnf", "sudo dnf install bubblewrap"},
	{"pacman", "sudo pacman -S bubblewrap"},
	{"zypper", "sudo zypper install bubblewrap"},
	{"apk", "sudo apk add bubblewrap"},
	{"nix-env", "nix-env -iA nixpkgs.bubblewrap"},
}

// installAdvice is how bubblewrap is installed here.
func installAdvice() string {
	for _, i := range installers {
		if _, err := exec.LookPath(i.program); err == nil {
			return "install bubblewrap: " + i.command
		}
	}
	return "install bubblewrap"
}

// sysctl reads a kernel setting, "" if there is none of that name.
func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// namespaceAdvice says what to change when bwrap failed with text. setting reads
// a kernel setting.
func namespaceAdvice(text string, setting func(string) string) string {
	about := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case about("instructions"):
		return "install " + LauncherName + " anew: the one beside guardproxy is of another version"
	case about("no report", "exec format error", LauncherName+":"):
		return "install " + LauncherName + " anew: the one beside guardproxy does not work"
	case !about("uid map", "namespace", "Operation not permitted", "Permission denied", "mount"):
		return ""
	case setting("user.max_user_namespaces") == "0":
		return "allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000"
	case setting("kernel.unprivileged_userns_clone") == "0":
		return "allow user namespaces to users: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case setting("kernel.apparmor_restrict_unprivileged_userns") == "1":
		return "allow user namespaces to bwrap: an AppArmor profile for it with the rule userns, (Ubuntu: sudo apt-get install apparmor-profiles, then sudo ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ and sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict), or sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case inContainer():
		return "start the container so that namespaces can be made in it: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …"
	}
	return "allow unprivileged user namespaces for bwrap; another sandbox around this one may forbid them"
}

// launcherAdvice is namespaceAdvice where no namespace is made.
func launcherAdvice(text string) string {
	if advice := namespaceAdvice(text, sysctl); strings.Contains(advice, LauncherName) {
		return advice
	}
	return ""
}

// procAdvice says what to change when a fresh /proc is refused.
func procAdvice() string {
	if inContainer() {
		return "start the container with its whole /proc: docker run --security-opt systempaths=unconfined …"
	}
	return "uncover /proc: something is mounted over parts of it (see findmnt -R /proc)"
}

// inContainer says whether this looks like one.
func inContainer() bool {
	for _, f := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Lstat(f); err == nil {
			return true
		}
	}
	text, _ := os.ReadFile("/proc/1/environ")
	return strings.Contains(string(text), "container=")
}

// landlockAdvice says what a newer kernel would add.
func landlockAdvice(abi int) string {
	switch {
	case abi < 6:
		return "use Linux 6.12 or newer: its Landlock keeps commands from other processes' signals and sockets"
	case abi < 7:
		return "use Linux 6.15 or newer: its Landlock can be audited"
	}
	return ""
}
