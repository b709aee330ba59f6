// Package e2e holds tests that use guardproxy as a client does: the official
// Go SDKs talk over loopback HTTP through a proxy to an upstream that answers
// with the bytes a test chose.
//
// Three kinds of claims are checked here, since no single package can make
// them. What a client ends up with is what was judged: streams, legal and odd,
// go through the proxy and then through the SDKs' own accumulators and through
// models of other readers that are in use (readers_test.go), and every one of
// them must end with the same calls. An agent goes on after a refusal, and the
// model reads its own words again (loop_test.go). And what is not touched is
// not touched, byte for byte (bytes_test.go).
//
// The package has no code of its own.
package e2e
