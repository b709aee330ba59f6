package command

import "testing"

// Each of these runs, in bash or as a program does, a command that is no word
// of its own in the script. The reader must find it or own up to it.
func TestHiddenCommandsAreOpaque(t *testing.T) {
	for _, script := range []string{
		`[[ 'a[$(id)]' -eq 0 ]]`, `[[ 1 -lt 'a[$(id)]' ]]`, `x='a[$(id)]'; [[ x -eq 0 ]]`, `[[ -v 'a[$(id)]' ]]`,
		`[ -v 'a[$(id)]' ]`, `test -v 'a[$(id)]'`, `printf -v 'a[$(id)]' x`, `read 'a[$(id)]' <<< x`, `unset 'a[$(id)]'`,
		`declare 'a[$(id)]=1'`, `declare -i x='a[$(id)]'`, `declare -i x; x='a[$(id)]'`, `f() { local -i x='a[$(id)]'; }; f`,
		`a=(['x[$(id)]']=1)`, `declare -n r='a[$(id)]'; r=1`,
		`/proc/self/exe -c id`,
		`nice env -S 'id'`, `env -u X -S 'id'`, `env --split='id'`,
		`sudo -u root -s <<< id`, `command sudo -s <<< id`, `sg root id`, `newgrp <<< id`,
		`echo id | bash 3<<< ':'`, `bash <<< ':' < evil.sh`, `bash <<< ':' 0<&3`,
		`printf -v PATH %s /evil; ls`, `read PATH <<< /evil; ls`, `declare 'PATH=/evil'; ls`, `export "PATH=/evil"; ls`,
		`for PATH in /evil; do ls; done`, `nice env BASH_ENV=x bash y`, `sudo -u x LD_PRELOAD=y ls`,
	} {
		if p := Parse(script); !p.Opaque {
			t.Errorf("%s: not opaque, argv %q", script, p.Argv)
		}
	}
	for _, script := range []string{
		`[[ -f x ]]`, `[[ 1 -eq 2 ]]`, `printf '%s[0]' x`, `test -d x`, `read -r line`, `a=(x y)`, `unset x`,
		`env -u X ls`, `sudo -u root ls`, "bash <<'EOF'\nls\nEOF", "cat > f <<'EOF'\nx\nEOF",
	} {
		if p := Parse(script); p.Opaque {
			t.Errorf("%s: opaque, for no reason", script)
		}
	}
}
