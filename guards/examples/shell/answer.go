//go:build wasip1

package shell

import guard "github.com/guardproxy/guardproxy/guards/sdk/go"

// Answer is the verdict on a call in whose words a guard has found nothing.
// Opaque says that the host could not read the command to its end.
func Answer(opaque bool) int32 {
	switch setting, _ := Opaque(guard.Get); {
	case opaque && setting == Ask:
		return guard.Ask("this command cannot be read to the end: a part of it is decided only when it runs")
	case opaque && setting == Deny:
		return guard.Deny("this command cannot be read to the end: write it without variables, patterns and substitutions")
	}
	return guard.Pass
}
