package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/guards"
)

// bare is a call on an instance that has nothing but memory.
func bare(mem []byte, doc string, fuel int64) *call {
	in := &instance{memory: &linear{heap: bytes.Clone(mem), size: uint64(len(mem)), limit: 1 << 20}}
	c := &call{in: in, ctx: context.Background(), deadline: time.Now().Add(time.Hour), fuel: fuel}
	if c.doc.parse([]byte(doc)) != nil {
		c.doc.parse([]byte("null"))
	}
	in.call = c
	return c
}

// hostFuncs are all functions that guests may import, in a fixed order.
func hostFuncs() (out []hostFunc, names []string) {
	for _, module := range []string{guardModule, wasiModule} {
		for _, name := range slices.Sorted(maps.Keys(imports[module])) {
			out, names = append(out, imports[module][name]), append(names, name)
		}
	}
	return out, names
}

// FuzzHostFunctions: whatever a guest passes to a host function, it gets an
// answer or is stopped with one of our faults. Nothing that a call leaves
// behind exceeds its bound, no byte outside of the memory is touched, and the
// answer is the same for the same memory.
func FuzzHostFunctions(f *testing.F) {
	funcs, names := hostFuncs()
	args := func(v ...uint64) []byte {
		var b []byte
		for _, a := range v {
			b = binary.LittleEndian.AppendUint64(b, a)
		}
		return b
	}
	big := uint64(1<<64 - 1)
	for i := range funcs {
		f.Add(uint8(i), args(0, 0, 0, 0), []byte("/a\x00\x00\x08\x00\x00\x00"), `{"a":"b"}`)
		f.Add(uint8(i), args(2, 0, 1, 64), []byte("\x10\x00\x00\x00\x08\x00\x00\x00"), `{}`)
		f.Add(uint8(i), args(big, big, big, big), []byte("x"), `[1]`)
		f.Add(uint8(i), args(1<<32-8, 16, 1<<31, 1<<32), []byte("x"), `"\ud800"`)
	}
	f.Fuzz(func(t *testing.T, which uint8, raw, seed []byte, doc string) {
		i := int(which) % len(funcs)
		mem := make([]byte, pageSize)
		copy(mem, seed)
		stack := make([]uint64, 9)
		for j := range stack {
			if len(raw) >= 8*(j+1) {
				stack[j] = binary.LittleEndian.Uint64(raw[8*j:])
			}
		}
		run := func() (c *call, answer uint64, stopped fault) {
			c = bare(mem, doc, 1_000_000)
			s := slices.Clone(stack)
			defer func() {
				if p := recover(); p != nil {
					var ours bool
					if stopped, ours = p.(fault); !ours {
						t.Fatalf("%s%x: %v", names[i], stack, p)
					}
				}
			}()
			for range 3 { // what it leaves behind adds up
				copy(s, stack)
				funcs[i].call(c, s)
			}
			return c, s[0], ""
		}
		c, answer, stopped := run()
		d, again, stoppedAgain := run()
		if answer != again || stopped != stoppedAgain || !bytes.Equal(c.in.memory.heap, d.in.memory.heap) || c.reason != d.reason || !bytes.Equal(c.log, d.log) {
			t.Errorf("%s%x: two answers: %d %q, %d %q", names[i], stack, answer, stopped, again, stoppedAgain)
		}
		if stopped != c.fault {
			t.Errorf("%s: stopped by %q, the call says %q", names[i], stopped, c.fault)
		}
		if len(c.in.memory.heap) != pageSize {
			t.Errorf("%s: the memory has %d bytes", names[i], len(c.in.memory.heap))
		}
		if len(c.log) > maxLog || len(c.notes) > maxNotes || utf8.RuneCountInString(c.reason) > guards.MaxReason || len(c.stdout) > 0 {
			t.Errorf("%s: log %d, notes %d, reason %d, stdout %d", names[i], len(c.log), len(c.notes), len(c.reason), len(c.stdout))
		}
		for _, n := range append(c.notes, c.reason, c.stderr()) {
			if !utf8.ValidString(n) {
				t.Errorf("%s: %q is not UTF-8", names[i], n)
			}
		}
		if c.fuel < 0 && stopped != faultFuel {
			t.Errorf("%s: went on without fuel", names[i])
		}
	})
}

// get answers a guest as it answers the host: in place when it fits, and with
// the length alone when it does not.
func TestHostGet(t *testing.T) {
	const doc = `{"a":"h\u00e9","b":[1, 2],"n":null}`
	for _, tc := range []struct {
		name, path string
		room       uint64
		want       int32
		text       string // what stands in memory
	}{
		{"a string, decoded", "/a", 8, 3, "hé"},
		{"it just fits", "/a", 3, 3, "hé"},
		{"it does not fit", "/a", 2, 3, ""},
		{"no room", "/a", 0, 3, ""},
		{"another value, as JSON", "/b", 64, 6, "[1, 2]"},
		{"null is there", "/n", 8, 4, "null"},
		{"absent", "/x", 8, -1, ""},
		{"the whole", "", 64, int32(len(doc)), doc},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := make([]byte, pageSize)
			copy(mem, tc.path)
			c := bare(mem, doc, 1<<20)
			s := []uint64{0, uint64(len(tc.path)), 1000, tc.room}
			hostGet(c, s)
			if got := int32(uint32(s[0])); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
			if got := strings.TrimRight(string(c.in.memory.heap[1000:1000+len(doc)]), "\x00"); got != tc.text {
				t.Errorf("memory holds %q, want %q", got, tc.text)
			}
		})
	}
}

// What a guest can't do to a host function, at the edges of memory.
func TestHostEdges(t *testing.T) {
	for _, tc := range []struct {
		name string
		f    func(*call, []uint64)
		args []uint64
		want fault
	}{
		{"the last byte", hostNote, []uint64{pageSize - 1, 1}, ""},
		{"nothing behind the end", hostNote, []uint64{pageSize, 0}, ""},
		{"one byte behind the end", hostNote, []uint64{pageSize, 1}, faultMisuse},
		{"a length that reaches behind it", hostNote, []uint64{pageSize - 1, 2}, faultMisuse},
		{"nothing far outside", hostNote, []uint64{pageSize + 1, 0}, faultMisuse},
		{"a sum that wraps around", hostNote, []uint64{1<<32 - 1, 2}, faultMisuse},
		{"the upper half of a slot is no part of an i32", hostNote, []uint64{1<<40 | 8, 7<<32 | 4}, ""},
		{"a path that is no pointer", hostGet, []uint64{0, 1, 0, 0}, faultMisuse},
		{"room that is not there, and not needed", hostGet, []uint64{100, 0, 1<<32 - 1, 0}, ""},
		{"room that is not there", hostGet, []uint64{100, 0, 1<<32 - 1, 1 << 20}, faultMisuse},
		{"random bytes behind the end", wasiRandom, []uint64{pageSize - 8, 9}, faultMisuse},
		{"vectors behind the end", wasiWrite, []uint64{2, pageSize - 8, 2, 0}, faultMisuse},
		{"a count of vectors that wraps around", wasiWrite, []uint64{2, 0, 1 << 29, 0}, faultMisuse},
		{"where the count of bytes goes", wasiWrite, []uint64{2, 100, 0, pageSize - 3}, faultMisuse},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := bare(bytes.Repeat([]byte("x"), pageSize), `"doc"`, 1<<20)
			func() {
				defer func() { recover() }()
				tc.f(c, tc.args)
			}()
			if c.fault != tc.want {
				t.Errorf("stopped by %q, want %q", c.fault, tc.want)
			}
		})
	}
}

// A program's streams: input in order and once, output to its bound, stderr to
// the log.
func TestStreams(t *testing.T) {
	mem := make([]byte, pageSize)
	vec := func(at, ptr, n uint32) {
		binary.LittleEndian.PutUint32(mem[at:], ptr)
		binary.LittleEndian.PutUint32(mem[at+4:], n)
	}
	vec(0, 1000, 3)
	vec(8, 2000, 4)
	copy(mem[1000:], "abcdefgh")
	c := bare(mem, "{}", 1<<20)
	c.command, c.stdin = true, []byte("0123456789")
	read := func(fd uint64) (errno, n uint64) {
		s := []uint64{fd, 0, 2, 500}
		wasiRead(c, s)
		return s[0], uint64(binary.LittleEndian.Uint32(c.in.memory.heap[500:]))
	}
	if e, n := read(0); e != 0 || n != 7 || string(c.in.memory.heap[1000:1003])+string(c.in.memory.heap[2000:2004]) != "0123456" {
		t.Errorf("errno %d, %d bytes, memory %q %q", e, n, c.in.memory.heap[1000:1003], c.in.memory.heap[2000:2004])
	}
	if e, n := read(0); e != 0 || n != 3 {
		t.Errorf("the rest: errno %d, %d bytes", e, n)
	}
	if e, n := read(0); e != 0 || n != 0 {
		t.Errorf("the end: errno %d, %d bytes", e, n)
	}
	if e, _ := read(1); e != errnoBadf {
		t.Errorf("reading from stdout: errno %d", e)
	}
	write := func(fd uint64) uint64 {
		s := []uint64{fd, 0, 1, 500}
		wasiWrite(c, s)
		return s[0]
	}
	for range maxOutput {
		if e := write(1); e != 0 {
			t.Fatalf("errno %d", e)
		}
		write(2)
	}
	if len(c.stdout) != maxOutput+1 || len(c.log) != maxLog {
		t.Errorf("stdout %d, log %d", len(c.stdout), len(c.log))
	}
	if _, err := readVerdict(c.stdout); err == nil {
		t.Error("an endless output is a verdict")
	}
	if e := write(0); e != errnoBadf {
		t.Errorf("writing to stdin: errno %d", e)
	}
}

func TestReadVerdict(t *testing.T) {
	for _, tc := range []struct {
		name, out string
		want      guards.Decision
		reason    string
		err       string
	}{
		{"pass", `{"verdict":"pass"}`, guards.Pass, "", ""},
		{"pass with a reason, which nobody reads", `{"verdict":"pass","reason":"fine"}`, guards.Pass, "", ""},
		{"deny", `{"verdict":"deny","reason":"no"}`, guards.Deny, "no", ""},
		{"ask", `{"reason":"really?","verdict":"ask"}`, guards.Ask, "really?", ""},
		{"white space around it", "\n\t {\"verdict\" : \"deny\"}\r\n", guards.Deny, "", ""},
		{"escapes", `{"verdict":"d\u0065ny","re\u0061son":"\u00e9\n"}`, guards.Deny, "é\n", ""},
		{"a long reason", `{"verdict":"deny","reason":"` + strings.Repeat("x", 400) + `"}`, guards.Deny, strings.Repeat("x", 300), ""},

		{"nothing", "", 0, "", "nothing was written"},
		{"white space alone", " \n", 0, "", "not one JSON value"},
		{"a word", "pass", 0, "", "not one JSON value"},
		{"a string", `"pass"`, 0, "", "a string, not an object"},
		{"two verdicts", `{"verdict":"pass"}{"verdict":"deny"}`, 0, "", "not one JSON value"},
		{"a verdict and a line", "{\"verdict\":\"pass\"}\nok", 0, "", "not one JSON value"},
		{"a line and a verdict", "ok\n{\"verdict\":\"pass\"}", 0, "", "not one JSON value"},
		{"the key twice", `{"verdict":"deny","verdict":"pass"}`, 0, "", "not one JSON value"},
		{"the key twice, once escaped", `{"verdict":"deny","verd\u0069ct":"pass"}`, 0, "", "not one JSON value"},
		{"no verdict", `{"reason":"no"}`, 0, "", "no member verdict"},
		{"another case", `{"Verdict":"pass"}`, 0, "", "beside verdict and reason"},
		{"another word", `{"verdict":"allow"}`, 0, "", "none of pass, deny and ask"},
		{"another case of a word", `{"verdict":"Pass"}`, 0, "", "none of pass"},
		{"a word with a space", `{"verdict":"pass "}`, 0, "", "none of pass"},
		{"a number", `{"verdict":1}`, 0, "", "not a string"},
		{"a reason that is none", `{"verdict":"deny","reason":["no"]}`, 0, "", "not a string"},
		{"another member", `{"verdict":"pass","because":"x"}`, 0, "", "beside verdict and reason"},
		{"not UTF-8", "{\"verdict\":\"deny\",\"reason\":\"\xff\"}", 0, "", "not one JSON value"},
		{"a byte order mark", "\ufeff{\"verdict\":\"pass\"}", 0, "", "not one JSON value"},
		{"an unfinished one", `{"verdict":"pass"`, 0, "", "not one JSON value"},
		{"too long", `{"verdict":"pass"}` + strings.Repeat(" ", maxOutput), 0, "", "more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := readVerdict([]byte(tc.out))
			switch {
			case tc.err != "":
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
			case err != nil:
				t.Error(err)
			case v.Decision != tc.want || v.Reason != tc.reason || (v.Cause == guards.CausePolicy) != (tc.want != guards.Pass):
				t.Errorf("got %+v", v)
			}
		})
	}
}

// FuzzVerdict: what is taken for a verdict, a plain decoder reads as the same
// one; an error quotes nothing of the output.
func FuzzVerdict(f *testing.F) {
	for _, s := range []string{`{"verdict":"pass"}`, ` {"reason":"\ud83d\ude00","verdict":"ask"} `, `{"verdict":"deny","verdict":"pass"}`, `{"verdict":"pass"}x`, "null", `{"verdict":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		v, err := readVerdict(out)
		if err != nil {
			if v.Decision != guards.Pass || v.Reason != "" {
				t.Errorf("an error beside a verdict %+v", v)
			}
			return
		}
		var plain struct{ Verdict, Reason string }
		d := json.NewDecoder(bytes.NewReader(out))
		d.DisallowUnknownFields()
		if err := d.Decode(&plain); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if plain.Verdict != v.Decision.String() {
			t.Errorf("%q: taken for %v", out, v.Decision)
		}
		if v.Decision != guards.Pass && v.Reason != guards.ClipReason(plain.Reason) {
			t.Errorf("%q: reason %q", out, v.Reason)
		}
	})
}
