//go:build wasip1

package guard

import "runtime"

// room is how much memory, in bytes, a call finds free in the heap: enough for
// scripts of thousands of words.
const room = 1 << 20

// Calls begin with the memory that the guard has after its start, and a guard
// whose memory grew in a call is started anew for a later one, which takes
// milliseconds. So the heap grows now.
func init() {
	runtime.KeepAlive(make([]byte, room))
	runtime.GC()
}
