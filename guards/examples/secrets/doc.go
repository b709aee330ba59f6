// Secrets is a guard that denies reading what is secret: .env files, private
// keys, credentials of clouds, registries and agents, password stores, shell
// histories, and commands that print a secret. It looks at the paths that read
// tools name, at what a shell reads by itself, and at the words of commands.
//
// Naming a secret is not reading it: ls, rm, chmod, or a copy to that name pass.
// Templates (.env.example) and public keys are no secrets.
//
// Configuration: allow, a list of the ends of paths that may be read; opaque
// (docs/guards.md).
package main

// main does nothing: the guard is a reactor, whose exports the host calls.
func main() {}
