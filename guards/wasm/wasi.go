package wasm

import "encoding/binary"

// The WASI stub: wasi_snapshot_preview1 as a process without a world sees it.
// No arguments, no environment, no files; a clock that stands still; random
// bytes that are the same in every call; standard error goes to a bounded
// log. Nothing in it outlives a call, so a verdict depends on its input
// alone. (wazero's own WASI keeps the clock's ticks and the position in the
// random stream.)
//
// Compilers import more than their programs call, so every function of the
// snapshot exists, and those that need a world answer "no such function" (ENOSYS).

const wasiModule = "wasi_snapshot_preview1"

// Error numbers of the snapshot's errno type.
const (
	errnoBadf  = 8
	errnoInval = 28
	errnoNosys = 52
)

// fixedTime is what every clock shows, in nanoseconds: 2022-01-01 UTC. Not
// zero, which Go's runtime takes for a broken clock.
const fixedTime = 1_640_995_200_000_000_000

// errno makes a function that always gives the same error number.
func errno(n uint64) func(*call, []uint64) {
	return func(_ *call, s []uint64) { s[0] = n }
}

var wasiFuncs = map[string]hostFunc{
	"args_get":          {"ii:i", errno(0)},
	"args_sizes_get":    {"ii:i", wasiZeroes},
	"environ_get":       {"ii:i", errno(0)},
	"environ_sizes_get": {"ii:i", wasiZeroes},
	"clock_res_get":     {"ii:i", wasiClockRes},
	"clock_time_get":    {"iIi:i", wasiClockTime},
	"random_get":        {"ii:i", wasiRandom},
	"sched_yield":       {":i", errno(0)},
	"proc_exit":         {"i:", wasiExit},
	"fd_write":          {"iiii:i", wasiWrite},
	"fd_read":           {"iiii:i", wasiRead},
	"fd_close":          {"i:i", errno(0)},
	"fd_fdstat_get":     {"ii:i", wasiFdstat},

	"fd_fdstat_set_flags": {"ii:i", errno(errnoBadf)},
	"fd_prestat_get":      {"ii:i", errno(errnoBadf)},
	"fd_prestat_dir_name": {"iii:i", errno(errnoBadf)},
	"fd_seek":             {"iIii:i", errno(errnoBadf)},

	"fd_advise":               {"iIIi:i", errno(errnoNosys)},
	"fd_allocate":             {"iII:i", errno(errnoNosys)},
	"fd_datasync":             {"i:i", errno(errnoNosys)},
	"fd_fdstat_set_rights":    {"iII:i", errno(errnoNosys)},
	"fd_filestat_get":         {"ii:i", errno(errnoNosys)},
	"fd_filestat_set_size":    {"iI:i", errno(errnoNosys)},
	"fd_filestat_set_times":   {"iIIi:i", errno(errnoNosys)},
	"fd_pread":                {"iiiIi:i", errno(errnoNosys)},
	"fd_pwrite":               {"iiiIi:i", errno(errnoNosys)},
	"fd_readdir":              {"iiiIi:i", errno(errnoNosys)},
	"fd_renumber":             {"ii:i", errno(errnoNosys)},
	"fd_sync":                 {"i:i", errno(errnoNosys)},
	"fd_tell":                 {"ii:i", errno(errnoNosys)},
	"path_create_directory":   {"iii:i", errno(errnoNosys)},
	"path_filestat_get":       {"iiiii:i", errno(errnoNosys)},
	"path_filestat_set_times": {"iiiiIIi:i", errno(errnoNosys)},
	"path_link":               {"iiiiiii:i", errno(errnoNosys)},
	"path_open":               {"iiiiiIIii:i", errno(errnoNosys)},
	"path_readlink":           {"iiiiii:i", errno(errnoNosys)},
	"path_remove_directory":   {"iii:i", errno(errnoNosys)},
	"path_rename":             {"iiiiii:i", errno(errnoNosys)},
	"path_symlink":            {"iiiii:i", errno(errnoNosys)},
	"path_unlink_file":        {"iii:i", errno(errnoNosys)},
	"poll_oneoff":             {"iiii:i", errno(errnoNosys)},
	"proc_raise":              {"i:i", errno(errnoNosys)},
	"sock_accept":             {"iii:i", errno(errnoNosys)},
	"sock_recv":               {"iiiiii:i", errno(errnoNosys)},
	"sock_send":               {"iiiii:i", errno(errnoNosys)},
	"sock_shutdown":           {"ii:i", errno(errnoNosys)},
}

func wasiZeroes(c *call, s []uint64) {
	clear(c.memory(s[0], 4))
	clear(c.memory(s[1], 4))
	s[0] = 0
}

func wasiClockTime(c *call, s []uint64) {
	if uint32(s[0]) > 3 {
		s[0] = errnoInval
		return
	}
	binary.LittleEndian.PutUint64(c.memory(s[2], 8), fixedTime)
	s[0] = 0
}

func wasiClockRes(c *call, s []uint64) {
	if uint32(s[0]) > 3 {
		s[0] = errnoInval
		return
	}
	binary.LittleEndian.PutUint64(c.memory(s[1], 8), 1)
	s[0] = 0
}

// wasiRandom fills with the stream of a splitmix64 generator that starts
// anew in every call.
func wasiRandom(c *call, s []uint64) {
	b := c.memory(s[0], s[1])
	c.charge(16 * len(b))
	for left := len(b); len(b) > 0; {
		if left-len(b) >= pageSize { // it takes as long as a slice of fuel
			left = len(b)
			c.onTime()
		}
		c.random += 0x9e3779b97f4a7c15
		z := c.random
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], z^z>>31)
		b = b[copy(b, word[:]):]
	}
	s[0] = 0
}

// wasiExit ends the guest. A guard that exits has given no verdict, whatever
// its code.
func wasiExit(c *call, s []uint64) {
	c.exitCode = uint32(s[0])
	c.fail(faultExit)
}

// wasiWrite takes what goes to standard error into the log; beyond the log's
// size it is accepted and dropped. A program's standard output is its verdict;
// a reactor's goes to the log, too.
func wasiWrite(c *call, s []uint64) {
	fd := uint32(s[0])
	if fd != 1 && fd != 2 {
		s[0] = errnoBadf
		return
	}
	into, room := &c.log, maxLog
	if fd == 1 && c.command {
		into, room = &c.stdout, maxOutput+1 // the one byte too many is how it is found
	}
	total := uint64(0)
	vecs := c.vectors(s[1], s[2])
	for ; len(vecs) > 0; vecs = vecs[8:] {
		b := c.memory(vector(vecs))
		*into = append(*into, b[:min(len(b), room-len(*into))]...)
		total += uint64(len(b))
	}
	if total > 1<<32-1 {
		s[0] = errnoInval
		return
	}
	binary.LittleEndian.PutUint32(c.memory(s[3], 4), uint32(total))
	s[0] = 0
}

// wasiRead reads a program's standard input. A reactor is at its end.
func wasiRead(c *call, s []uint64) {
	if uint32(s[0]) != 0 {
		s[0] = errnoBadf
		return
	}
	total := 0
	vecs := c.vectors(s[1], s[2])
	for ; len(vecs) > 0 && len(c.stdin) > 0; vecs = vecs[8:] {
		n := copy(c.memory(vector(vecs)), c.stdin)
		c.stdin = c.stdin[n:]
		total += n
	}
	c.charge(total)
	binary.LittleEndian.PutUint32(c.memory(s[3], 4), uint32(total))
	s[0] = 0
}

// vectors is a list of n pairs of pointer and length, as fd_read and fd_write
// take it.
func (c *call) vectors(ptr, n uint64) []byte {
	n = uint64(uint32(n))
	if n > maxVectors {
		c.fail(faultMisuse)
	}
	c.charge(int(n) * 16)
	return c.memory(ptr, n*8)
}

// maxVectors is IOV_MAX of Linux: no library sends more.
const maxVectors = 1024

func vector(b []byte) (ptr, size uint64) {
	return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
}

// wasiFdstat describes the three standard streams as character devices.
func wasiFdstat(c *call, s []uint64) {
	if uint32(s[0]) > 2 {
		s[0] = errnoBadf
		return
	}
	b := c.memory(s[1], 24)
	clear(b)
	b[0] = 2
	s[0] = 0
}
