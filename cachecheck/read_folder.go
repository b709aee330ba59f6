package cachecheck

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// A folder is read file by file, in name order; runs of digits in a name count
// as numbers, so that 2.json comes before 10.json.
//
// Claude Code's raw-body folder is another matter: its files are named by random
// ids, <uuid>.request.json and <request id>.response.json. There the order is
// that of the files' times, and where those say nothing (all within two
// seconds: a copy) that of their sizes, since histories grow. A response
// belongs to the last request before it that has none yet; requests name the
// one before them in their first system block (cc_prev_req), and that counts
// more. Source: the "Claude Code Provider Bodies Internals" page of Apache
// SkyWalking's documentation.

type folderSource struct {
	fsys    fs.FS
	prefix  string
	files   []folderFile
	cur     *Reader
	open    fs.File
	yielded bool // cur gave something
	t       tape.Tape
}

type folderFile struct {
	name     string
	reply    string // the file that holds the reply, "" when there is none
	odd      string // why it is not read
	at, size int64
}

// OpenFolder reads all files of a folder, which is fsys itself; name is for
// messages. Folders within it are counted and not entered.
func OpenFolder(name string, fsys fs.FS) (*Reader, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	s := &folderSource{fsys: fsys, prefix: strings.TrimSuffix(name, "/") + "/"}
	claude := false
	replies := map[string]bool{}
	for _, e := range entries {
		f := folderFile{name: e.Name()}
		info, err := e.Info()
		if err != nil {
			f.odd = "can't be looked at: " + err.Error()
		} else {
			f.at, f.size = info.ModTime().UnixNano(), info.Size()
		}
		switch {
		case e.IsDir():
			f.odd = "a folder within the folder: name it by itself"
		case !e.Type().IsRegular() && e.Type()&fs.ModeSymlink == 0:
			f.odd = "no regular file"
		case strings.HasSuffix(f.name, ".response.json"):
			replies[f.name] = true
		case strings.HasSuffix(f.name, ".request.json"):
			claude = true
		}
		s.files = append(s.files, f)
	}
	r := &Reader{Format: FormatFolder, name: name, src: s}
	if claude {
		r.Format = FormatClaude
		s.claude(replies)
		return r, nil
	}
	slices.SortStableFunc(s.files, func(a, b folderFile) int { return natural(a.name, b.name) })
	// NAME.response.json holds the reply to NAME.json.
	s.files = slices.DeleteFunc(s.files, func(f folderFile) bool {
		stem, ok := strings.CutSuffix(f.name, ".response.json")
		if !ok {
			return false
		}
		for i := range s.files {
			if s.files[i].name == stem+".json" {
				s.files[i].reply = f.name
				return true
			}
		}
		return false
	})
	return r, nil
}

// claude orders the files of a raw-body folder and joins replies to requests.
func (s *folderSource) claude(replies map[string]bool) {
	lo, hi := int64(1<<62), int64(0)
	for _, f := range s.files {
		lo, hi = min(lo, f.at), max(hi, f.at)
	}
	copied := hi-lo < 2e9
	slices.SortStableFunc(s.files, func(a, b folderFile) int {
		if copied {
			return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name))
		}
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name))
	})
	// The request that names a reply as the one before it follows the request
	// that got it.
	type open struct {
		i     int
		agent bool
	}
	last := map[string][]open{} // by session: requests without a reply
	for i := range s.files {
		f := &s.files[i]
		if f.odd != "" || !strings.HasSuffix(f.name, ".request.json") {
			continue
		}
		session, prev, agent := s.chain(f.name)
		if name := prev + ".response.json"; prev != "" && replies[name] {
			for k, o := range slices.Backward(last[session]) {
				if o.agent == agent {
					s.files[o.i].reply = name
					delete(replies, name)
					last[session] = slices.Delete(last[session], k, k+1)
					break
				}
			}
		}
		last[session] = append(last[session], open{i, agent})
	}
	if !copied {
		var pending []int
		for i := range s.files {
			switch f := &s.files[i]; {
			case strings.HasSuffix(f.name, ".request.json") && f.reply == "":
				pending = append(pending, i)
			case replies[f.name] && len(pending) == 1:
				s.files[pending[0]].reply = f.name
				delete(replies, f.name)
				pending = nil
			}
		}
	}
	joined := map[string]bool{}
	for _, f := range s.files {
		joined[f.reply] = true
	}
	s.files = slices.DeleteFunc(s.files, func(f folderFile) bool { return joined[f.name] })
	for i := range s.files {
		if f := &s.files[i]; strings.HasSuffix(f.name, ".response.json") && f.odd == "" {
			f.odd = "a response whose request can't be told"
		}
	}
}

// chain reads what a request says of its session and of the request before it.
func (s *folderSource) chain(name string) (session, prev string, agent bool) {
	text, err := fs.ReadFile(s.fsys, name)
	if err != nil || s.t.ParseRepeats(text) != nil {
		return "", "", false
	}
	t := &s.t
	session = sessionOf(t)
	sys := t.Get(0, "system")
	if t.Kind(sys) == tape.Array && t.After(sys) > sys+1 {
		sys = t.Get(sys+1, "text")
	}
	for part := range strings.SplitSeq(t.Str(sys)[:min(len(t.Str(sys)), 400)], ";") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch k {
		case "cc_prev_req":
			prev = v
		case "cc_is_subagent":
			agent = v == "true"
		}
	}
	return session, prev, agent
}

func (s *folderSource) close() {
	if s.open != nil {
		s.open.Close()
	}
	s.open, s.cur = nil, nil
}

func (s *folderSource) next(x *Exchange) error {
	for {
		if s.cur == nil {
			if len(s.files) == 0 {
				return io.EOF
			}
			f := s.files[0]
			x.File = s.prefix + f.name
			if f.odd != "" {
				s.files = s.files[1:]
				x.Odd, x.Note = OddShape, f.odd
				return nil
			}
			file, err := s.fsys.Open(f.name)
			if err != nil {
				s.files = s.files[1:]
				x.Odd, x.Note = OddDamaged, err.Error()
				return nil
			}
			s.open, s.yielded = file, false
			if s.cur, err = Open(x.File, file); err != nil {
				s.close()
				s.files = s.files[1:]
				x.Odd, x.Note = OddShape, plainReason(err)
				return nil
			}
			if s.cur.Format == FormatEmpty {
				s.close()
				s.files = s.files[1:]
				x.Odd, x.Note = OddNoBody, "an empty file"
				return nil
			}
		}
		e, err := s.cur.Next()
		if err == nil {
			entry := x.Entry
			*x = *e
			x.Entry = entry
			if s.cur.Format == FormatBody {
				x.Scope = s.prefix
			}
			if reply := s.files[0].reply; reply != "" && !s.yielded && s.cur.Format == FormatBody {
				s.reply(x, reply)
			}
			s.yielded = true
			return nil
		}
		x.File = s.prefix + s.files[0].name
		odd := s.yielded
		s.close()
		s.files = s.files[1:]
		if err == io.EOF || odd && errors.As(err, new(*UnreadableError)) {
			continue // what it had was given out, and why the rest was not
		}
		x.Odd, x.Note = OddDamaged, plainReason(err)
		return nil
	}
}

func (s *folderSource) reply(x *Exchange, name string) {
	f, err := s.fsys.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxBody))
	if err != nil {
		return
	}
	x.reply(&s.t, text)
	x.ResponseID = cmp.Or(x.ResponseID, strings.TrimSuffix(name, ".response.json"))
}

func plainReason(err error) string {
	var u *UnreadableError
	if errors.As(err, &u) {
		return u.Reason
	}
	return fmt.Sprint(err)
}

// natural compares names so that runs of digits count as numbers.
func natural(a, b string) int {
	x, y := []byte(a), []byte(b)
	for len(x) > 0 && len(y) > 0 {
		if digit(x[0]) && digit(y[0]) {
			n, m := digits(x), digits(y)
			p, q := bytes.TrimLeft(x[:n], "0"), bytes.TrimLeft(y[:m], "0")
			if c := cmp.Or(cmp.Compare(len(p), len(q)), bytes.Compare(p, q)); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func digits(b []byte) int {
	n := 0
	for n < len(b) && digit(b[n]) {
		n++
	}
	return n
}
