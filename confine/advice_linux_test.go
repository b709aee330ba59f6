//go:build linux && (amd64 || arm64)

package confine

import (
	"strings"
	"testing"
)

func TestNamespaceAdvice(t *testing.T) {
	const denied = "bwrap: setting up uid map: Permission denied"
	for _, c := range []struct{ name, text, setting, value, says string }{
		{"no namespaces", denied, "user.max_user_namespaces", "0", "sysctl -w user.max_user_namespaces="},
		{"none for users", denied, "kernel.unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"AppArmor", denied, "kernel.apparmor_restrict_unprivileged_userns", "1", "AppArmor"},
		{"an old launcher", "the launcher can't read its instructions: x", "", "", "install guardproxy-launch anew"},
		{"something else", "a write outside the workspace was not denied", "user.max_user_namespaces", "0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := namespaceAdvice(c.text, func(name string) string {
				if name == c.setting {
					return c.value
				}
				return ""
			})
			if c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Errorf("got %q, want %q in it", got, c.says)
			}
		})
	}
}
