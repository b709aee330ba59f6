// No-root-delete is a guard that denies shell calls which delete the root
// directory, a home directory, or a top-level system directory.
//
// It looks at the words that the host has parsed (call.shell.argv), through
// wrappers such as sudo, env and xargs, and at find with -delete or -exec rm.
// Paths are cleaned before they are compared: /usr/.. and // are the root.
// Relative paths are taken from the workspace, and from a cd before them. After
// a cd to a variable, which may be empty, they are taken from home; after one
// to a place that is not known, a deletion counts as opaque.
//
// A word that the shell expands is judged by what it may become: $HOME and ~
// are the home directory; any other variable may be empty, so "$DIR"/* may be
// /*. ${DIR:?} can't be empty and is accepted.
//
// An opaque command, one whose words are not the whole truth, is denied if
// its text names both a deleting command and such a directory, and the opaque
// part could bring them together. Other opaque commands pass: nearly every
// script has a variable or a pattern in it, and a guard that stops them all
// would be switched off.
//
// Scripts for other shells (fish -c), and what watch, entr, tmux and their like
// take for a script, are searched as text for the same two things.
//
// It does not look into programs (python -c, perl -e, a script file): it stops
// accidents and the obvious, and confinement stops the rest.
package main

// main does nothing: the guard is a reactor, whose export the host calls. It
// stands here so that the package builds for other targets too, where the
// guard's own files are left out.
func main() {}
