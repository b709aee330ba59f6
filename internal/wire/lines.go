package wire

import "bytes"

// Readers of decoded text may end a line where the stream has none: Python's
// str.splitlines, by which httpx and requests give out lines, knows three
// characters that JSON leaves as they are in a string (U+0085, U+2028, U+2029).
// Of an event with one of them such a reader has two halves, neither of which
// is JSON, and those that go on skip both. A call must not read otherwise for
// them: a fragment of it that has such a character makes it malformed, and one
// elsewhere in an event that a call hangs on refuses the reply.

var lineEnds = [][]byte{[]byte("\u0085"), []byte("\u2028"), []byte("\u2029")}

// breaks counts the characters in data at which some readers end a line.
func breaks(data []byte) (n int) {
	for _, end := range lineEnds {
		n += bytes.Count(data, end)
	}
	return n
}

const breaksText = "a character at which some clients end a line (U+0085, U+2028 or U+2029) stands in the arguments as it is; write it as an escape of JSON"

// broken says what a character at which some readers end a line means for a
// call: data is an event of it, args what of data are arguments. The text is
// that of Call.Malformed, "" when there is none.
func broken(where string, data []byte, args ...[]byte) (malformed string, err error) {
	n := breaks(data)
	if n == 0 {
		return "", nil
	}
	for _, a := range args {
		n -= breaks(a)
	}
	if n > 0 {
		return "", refuse(where, "a character at which some clients end a line, in an event of a call")
	}
	return breaksText, nil
}
