package record

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Recorder is a queue and one goroutine that empties it into files. The
// queue is bounded by the bytes of the bodies in it; what does not fit is
// dropped and counted, so that a request never waits for a disk. Files are
// opened relative to the directory that was checked, and the latest ones used
// stay open.

// Options of a Recorder.
type Options struct {
	// Key keys the tags of masked credentials. It is secret, and must not be
	// empty.
	Key []byte
	// Failed, if not nil, is called for the first exchange of each Loss that
	// was not recorded; later ones are counted. It runs on the goroutine that
	// lost it, and must be quick.
	Failed func(Loss, error)
	// Queue is how many bytes of bodies may wait; 0 means 256 MiB.
	Queue int64
	// Files is how many files stay open; 0 means 64.
	Files int
}

// Loss says why exchanges were not recorded.
type Loss string

// The losses.
const (
	LostFull    Loss = "queue full"     // they came faster than the disk took them
	LostWrite   Loss = "write failed"   // the disk is full, or the file can't be written
	LostStopped Loss = "still in queue" // Close did not wait any longer
)

// Stats counts exchanges.
type Stats struct {
	Recorded uint64
	Lost     map[Loss]uint64
}

// Recorder writes the recordings of a running proxy. It is safe for concurrent
// use; a nil *Recorder drops everything.
type Recorder struct {
	path   string
	dir    *os.File
	o      Options
	masker *Masker
	work   chan struct{} // something was put in the queue, or it was closed
	done   chan struct{}

	mu      sync.Mutex
	queue   []entry
	waiting int64
	closed  bool
	stop    bool // leave what is in the queue
	stats   Stats

	// Of the goroutine alone.
	files map[string]*list.Element // of *file
	used  *list.List               // front: latest use
	line  []byte
}

// entry is an exchange in the queue.
type entry struct {
	x       *Exchange
	size    int64
	prepare func(*Exchange)
	done    func()
}

// file is an open recording.
type file struct {
	name  string
	f     *os.File
	size  int64
	rules string // of the last header written through this handle
	begun bool   // a header was written through this handle
	torn  bool   // the last line has no end
}

// OpenError says why a directory can't be recorded to.
type OpenError struct {
	Path string
	Err  error
	hint string
}

func (e *OpenError) Error() string { return fmt.Sprintf("recordings in %s: %v", e.Path, e.Err) }
func (e *OpenError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *OpenError) Hint() string { return e.hint }

// Open prepares the directory at path, and creates it with mode 0700 if there
// is none. It must belong to this user alone, its last element must not be a
// symlink, and no other Recorder may write to it.
func Open(path string, o Options) (*Recorder, error) {
	if len(o.Key) == 0 {
		return nil, errors.New("recordings: no key for masked credentials")
	}
	if o.Queue <= 0 {
		o.Queue = 256 << 20
	}
	if o.Files <= 0 {
		o.Files = 64
	}
	dir, err := openDir(path)
	if err != nil {
		return nil, err
	}
	r := &Recorder{path: path, dir: dir, o: o, masker: NewMasker(o.Key), work: make(chan struct{}, 1), done: make(chan struct{}),
		stats: Stats{Lost: map[Loss]uint64{}}, files: map[string]*list.Element{}, used: list.New()}
	go r.run()
	return r, nil
}

func openDir(path string) (*os.File, error) {
	fail := func(err error, hint string) (*os.File, error) {
		if pe := (*os.PathError)(nil); errors.As(err, &pe) { // the path is in OpenError already
			err = pe.Err
		}
		return nil, &OpenError{path, err, hint}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fail(err, "name a directory that exists, or one to create in a directory that you can write")
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		hint := "name a directory that you can read and write"
		if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
			hint = "it must be a directory, and symlinks are not followed here: name the real one"
		}
		return fail(err, hint)
	}
	fi, err := dir.Stat()
	if err == nil {
		st, ok := fi.Sys().(*syscall.Stat_t)
		switch {
		case ok && int(st.Uid) != os.Geteuid():
			dir.Close()
			return fail(fmt.Errorf("it belongs to user %d", st.Uid), "recordings hold whole conversations: use a directory of your own")
		case fi.Mode().Perm()&0o077 != 0:
			dir.Close()
			return fail(fmt.Errorf("others may use it (mode %v)", fi.Mode().Perm()), "recordings hold whole conversations: run chmod 700 on it, or name a new directory")
		}
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			dir.Close()
			return fail(errors.New("another guardproxy records there"), "give each one a directory of its own")
		}
	}
	if err != nil {
		dir.Close()
		return fail(err, "name a directory on a local disk")
	}
	return dir, nil
}

// Masker masks with the recorder's key.
func (r *Recorder) Masker() *Masker {
	if r == nil {
		return nil
	}
	return r.masker
}

// Add puts x in the queue and returns at once. prepare, if not nil, is called
// on the recorder's goroutine before x is written: what takes time belongs
// there. done, if not nil, is called when x is not needed any more, whatever
// became of it; until then its memory belongs to the recorder.
func (r *Recorder) Add(x *Exchange, prepare func(*Exchange), done func()) {
	if r == nil {
		if done != nil {
			done()
		}
		return
	}
	e := entry{x, 4 << 10, prepare, done}
	e.size += int64(len(x.ClientBody))
	if x.Rewritten() {
		e.size += int64(len(x.UpstreamBody))
	}
	for _, c := range x.Calls {
		e.size += int64(len(c.ArgumentsRaw) + len(c.Facts.ArgumentsRaw) + len(c.Facts.Arguments))
	}
	r.mu.Lock()
	// One exchange always fits: it was in memory anyway.
	closed, fits := r.closed, r.waiting == 0 || r.waiting+e.size <= r.o.Queue
	if !closed && fits {
		r.queue = append(r.queue, e)
		r.waiting += e.size
		select {
		case r.work <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
	switch {
	case closed:
		r.lost(e, LostStopped, errors.New("recording has ended"))
	case !fits:
		r.lost(e, LostFull, fmt.Errorf("more than %d MiB wait to be written", r.o.Queue>>20))
	}
}

// lost counts an exchange that is not recorded and lets it go.
func (r *Recorder) lost(e entry, why Loss, err error) {
	r.mu.Lock()
	r.stats.Lost[why]++
	first := r.stats.Lost[why] == 1
	r.mu.Unlock()
	if e.done != nil {
		e.done()
	}
	if first && r.o.Failed != nil {
		r.o.Failed(why, fmt.Errorf("recordings in %s: %w", r.path, err))
	}
}

// Stats returns the counts so far; the map is the caller's.
func (r *Recorder) Stats() Stats {
	if r == nil {
		return Stats{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Stats{r.stats.Recorded, map[Loss]uint64{}}
	for k, n := range r.stats.Lost {
		s.Lost[k] = n
	}
	return s
}

// Close writes what is in the queue and closes the files. When ctx ends first,
// the rest is counted as lost, and Close waits for the one write that is under
// way no longer. Exchanges added after it are lost.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.work)
	}
	r.mu.Unlock()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	rest := r.queue
	r.queue, r.waiting, r.stop = nil, 0, true
	r.mu.Unlock()
	for _, e := range rest {
		r.lost(e, LostStopped, ctx.Err())
	}
	return fmt.Errorf("recordings in %s: not all was written in time, exchanges lost: %d", r.path, len(rest))
}

// run is the goroutine.
func (r *Recorder) run() {
	defer close(r.done)
	defer r.dir.Close()
	defer func() {
		for e := r.used.Front(); e != nil; e = e.Next() {
			e.Value.(*file).f.Close()
		}
	}()
	for {
		_, open := <-r.work
		for {
			r.mu.Lock()
			if len(r.queue) == 0 {
				r.queue = nil
				r.mu.Unlock()
				break
			}
			e := r.queue[0]
			r.queue[0] = entry{}
			r.queue = r.queue[1:]
			r.mu.Unlock()
			err := r.take(e)
			r.mu.Lock()
			// What is being written counts as waiting: it holds memory.
			r.waiting = max(0, r.waiting-e.size)
			if err == nil {
				r.stats.Recorded++
			}
			r.mu.Unlock()
			if err != nil {
				r.lost(e, LostWrite, err)
			} else if e.done != nil {
				e.done()
			}
		}
		if !open {
			return
		}
	}
}

// take writes one exchange. A panic in it must not take the proxy along.
func (r *Recorder) take(e entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("recording failed: %v", p)
		}
	}()
	if e.prepare != nil {
		e.prepare(e.x)
	}
	f, err := r.file(e.x.Session)
	if err != nil {
		return err
	}
	line := r.line[:0]
	if f.torn {
		line = append(line, '\n') // so that only the torn line is lost
	}
	if !f.begun || f.rules != string(e.x.Rules) {
		line = AppendHeader(line, e.x.Rules)
	}
	line = AppendExchange(line, e.x)
	if cap(line) <= 8<<20 {
		r.line = line // one giant must not be kept
	}
	n, err := f.f.Write(line)
	if err != nil {
		// Take the piece back that got there; else it stays as a torn line.
		if n > 0 && f.f.Truncate(f.size) != nil {
			f.torn, f.size = true, f.size+int64(n)
		}
		if pe := (*os.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err
		}
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.size += int64(n)
	f.begun, f.torn, f.rules = true, false, string(e.x.Rules)
	return nil
}

// file is the open file of a session.
func (r *Recorder) file(session string) (*file, error) {
	if e := r.files[session]; e != nil {
		f := e.Value.(*file)
		// A file that was moved or deleted is begun anew. One that has another
		// length is looked at again: truncated, it has no header any more.
		var there, mine unix.Stat_t
		if unix.Fstatat(int(r.dir.Fd()), f.name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstat(int(f.f.Fd()), &mine) == nil &&
			there.Ino == mine.Ino && there.Dev == mine.Dev && mine.Size == f.size {
			r.used.MoveToFront(e)
			return f, nil
		}
		r.drop(e)
	}
	f, err := r.open(session)
	if err != nil {
		return nil, err
	}
	if r.used.Len() >= r.o.Files {
		r.drop(r.used.Back())
	}
	r.files[session] = r.used.PushFront(f)
	return f, nil
}

func (r *Recorder) drop(e *list.Element) {
	f := r.used.Remove(e).(*file)
	f.f.Close()
	for session, o := range r.files {
		if o == e {
			delete(r.files, session)
		}
	}
}

// Name is the name of the file of a session, whose id is hexadecimal digits.
func Name(session string) string { return session + ".jsonl" }

// open opens a session's file for appending.
func (r *Recorder) open(session string) (*file, error) {
	if session == "" || len(session) > 64 || bytes.ContainsFunc([]byte(session), func(c rune) bool { return !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') }) {
		return nil, fmt.Errorf("the session id %q is not fit for a file name", session)
	}
	name := Name(session)
	// O_NONBLOCK: a pipe in this place must give an error and not wait.
	fd, err := unix.Openat(int(r.dir.Fd()), name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &file{name: name, f: os.NewFile(uintptr(fd), filepath.Join(r.path, name))}
	fi, err := f.f.Stat()
	if err == nil {
		st, ok := fi.Sys().(*syscall.Stat_t)
		switch {
		case !fi.Mode().IsRegular():
			err = errors.New("not a regular file")
		case ok && st.Nlink > 1:
			err = errors.New("it has a second name")
		case ok && int(st.Uid) != os.Geteuid():
			err = fmt.Errorf("it belongs to user %d", st.Uid)
		case fi.Mode().Perm() != 0o600:
			err = f.f.Chmod(0o600)
		}
		f.size = fi.Size()
	}
	if last := [1]byte{}; err == nil && f.size > 0 {
		if _, err = f.f.ReadAt(last[:], f.size-1); err == nil {
			f.torn = last[0] != '\n'
		}
	}
	if err != nil {
		f.f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// MaskExchange masks the credentials of x, whose own are secrets: bodies,
// calls and facts. Headers and path are made by the Masker.
func (m *Masker) MaskExchange(x *Exchange, secrets ...string) {
	m = m.With(secrets...)
	rewritten := x.Rewritten()
	x.ClientBody, x.Masked.ClientBody = m.Mask(x.ClientBody)
	if rewritten {
		x.UpstreamBody, x.Masked.UpstreamBody = m.Mask(x.UpstreamBody)
	} else {
		x.UpstreamBody, x.Masked.UpstreamBody = x.ClientBody, x.Masked.ClientBody
	}
	raw := func(v *json.RawMessage) { *v, _ = m.Mask(*v) }
	raw(&x.Usage)
	raw(&x.Diagnostics)
	for i := range x.Calls {
		c := &x.Calls[i]
		bytes := func(v *[]byte) {
			masked, found := m.Mask(*v)
			*v, c.Masked = masked, c.Masked+len(found)
		}
		text := func(v *string) {
			masked, n := m.MaskString(*v)
			*v, c.Masked = masked, c.Masked+n
		}
		bytes(&c.ArgumentsRaw)
		bytes(&c.Facts.ArgumentsRaw)
		bytes(&c.Facts.Arguments)
		if s := c.Facts.Shell; s != nil {
			argv := make([][]string, len(s.Argv))
			for j, words := range s.Argv {
				argv[j] = append([]string{}, words...)
				for k := range argv[j] {
					text(&argv[j][k])
				}
			}
			c.Facts.Shell = &Shell{argv, s.Opaque}
		}
		c.Facts.Paths = append([]Path(nil), c.Facts.Paths...)
		for j := range c.Facts.Paths {
			text(&c.Facts.Paths[j].Path)
		}
	}
}
