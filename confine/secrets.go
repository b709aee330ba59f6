package confine

import (
	"path/filepath"
	"slices"
	"strings"
)

// secretPlaces are where keys, tokens and passwords lie in a home directory by
// the custom of the programs that put them there. A path that does not exist
// costs nothing.
var secretPlaces = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".oci", ".config/gcloud", ".config/doctl", ".config/rclone",
	".config/gh", ".config/glab-cli", ".config/hub", ".netrc", ".git-credentials", ".config/git/credentials",
	".docker/config.json", ".config/containers/auth.json", ".npmrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties",
	".terraform.d/credentials.tfrc.json", ".vault-token", ".pgpass", ".my.cnf", ".databrickscfg",
	".config/op", ".password-store", ".config/sops", ".config/age", ".local/share/keyrings", ".local/share/kwalletd",
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
	".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".qwen/oauth_creds.json",
	".local/share/opencode/auth.json", ".pi/agent/auth.json", ".config/github-copilot",
	"Library/Keychains", "Library/Cookies", "Library/Safari", "Library/Thunderbird",
	"Library/Application Support/Google/Chrome", "Library/Application Support/Chromium", "Library/Application Support/BraveSoftware",
	"Library/Application Support/Microsoft Edge", "Library/Application Support/Firefox",
}

// Secrets returns where the secrets of a user lie by default, below each of
// homes that is an absolute path, sorted. The paths need not exist.
//
// custom changes that: each entry is an absolute path, or one below the home
// directory that begins with "~/", and is added; with "!" before it, it is taken
// out of the list.
func Secrets(homes []string, custom ...string) []string {
	var all, out []string
	for _, home := range homes {
		if !filepath.IsAbs(home) {
			continue
		}
		for _, p := range secretPlaces {
			all = append(all, filepath.Join(home, p))
		}
	}
	for _, c := range custom {
		c, without := strings.CutPrefix(c, "!")
		list := &all
		if without {
			list = &out
		}
		if rest, ok := strings.CutPrefix(c, "~/"); ok {
			for _, home := range homes {
				if filepath.IsAbs(home) {
					*list = append(*list, filepath.Join(home, rest))
				}
			}
		} else if filepath.IsAbs(c) {
			*list = append(*list, filepath.Clean(c))
		}
	}
	all = slices.DeleteFunc(all, func(p string) bool { return slices.Contains(out, p) })
	slices.Sort(all)
	return slices.Compact(all)
}
