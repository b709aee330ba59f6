// Delete-outside is a guard that denies deleting what lies outside of the
// workspace and of the directories for temporary files: rm and its like, find
// -delete, rsync --delete, git clean elsewhere, and the workspace itself.
//
// Paths are taken from the workspace, and from each cd before. A path in a
// variable can't be told; when the command gives a variable a path outside,
// and deletes what is in a variable, that is denied. Deletions by a program in
// another language are found by the words in its text.
//
// Configuration: allow, a list of directories in which may be deleted as well;
// opaque (docs/guards.md).
package main

// main does nothing: the guard is a reactor, whose exports the host calls.
func main() {}
