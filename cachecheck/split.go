package cachecheck

import (
	"bufio"
	"errors"
	"io"
)

// splitter takes one large JSON document apart without holding it: it walks to
// an array and gives out the raw text of one element after the other. What is
// inside an element is not checked; tape does that.
type splitter struct {
	r   *bufio.Reader
	off int64 // of the next byte
	max int
	buf []byte
}

var (
	errSyntax = errors.New("no JSON")
	errLarge  = errors.New("too large")
)

func (s *splitter) byte() (byte, error) {
	c, err := s.r.ReadByte()
	if err == nil {
		s.off++
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return c, err
}

func (s *splitter) unread() { s.r.UnreadByte(); s.off-- }

// space skips white space and returns the next byte.
func (s *splitter) space() (byte, error) {
	for {
		c, err := s.byte()
		if err != nil || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, err
		}
	}
}

// value reads one value. It is appended to buf when keep is set; one of more
// than max bytes is read to its end and gives errLarge.
func (s *splitter) value(keep bool) ([]byte, error) {
	c, err := s.space()
	if err != nil {
		return nil, err
	}
	s.buf = s.buf[:0]
	depth, str, esc, large := 0, false, false, false
	for {
		if keep {
			if len(s.buf) < s.max {
				s.buf = append(s.buf, c)
			} else {
				large = true
			}
		}
		switch {
		case esc:
			esc = false
		case str:
			if c == '\\' {
				esc = true
			} else if c == '"' {
				str = false
			}
		case c == '"':
			str = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				return nil, errSyntax
			}
		}
		if depth == 0 && !str {
			// A container or a string is over here, a bare word before the
			// next byte that can't be in it.
			if c == '}' || c == ']' || c == '"' && len(s.buf) != 1 || c == '"' && !keep {
				break
			}
			n, err := s.r.Peek(1)
			if err != nil {
				if err == io.EOF {
					break
				}
				return nil, err
			}
			if n[0] == ',' || n[0] == '}' || n[0] == ']' || n[0] == ' ' || n[0] == '\n' || n[0] == '\r' || n[0] == '\t' {
				break
			}
		}
		if c, err = s.byte(); err != nil {
			return s.buf, err
		}
	}
	if large {
		return nil, errLarge
	}
	return s.buf, nil
}

// enter walks into the document to the array at path, which is a list of keys.
// It stands behind the array's bracket then.
func (s *splitter) enter(path ...string) error {
	for {
		c, err := s.space()
		if err != nil {
			return err
		}
		if len(path) == 0 {
			if c != '[' {
				return errSyntax
			}
			return nil
		}
		if c != '{' {
			return errSyntax
		}
		for found := false; !found; {
			if c, err = s.space(); err != nil {
				return err
			}
			if c == '}' {
				return io.EOF
			}
			if c == ',' {
				continue
			}
			if c != '"' {
				return errSyntax
			}
			s.unread()
			key, err := s.value(true)
			if err != nil {
				return err
			}
			found = string(key) == `"`+path[0]+`"`
			if c, err = s.space(); err != nil {
				return err
			} else if c != ':' {
				return errSyntax
			}
			if !found {
				if _, err := s.value(false); err != nil {
					return err
				}
			}
		}
		path = path[1:]
	}
}

// next returns the next element of the array and where it starts; io.EOF at
// the array's end. The slice is valid until the next call.
func (s *splitter) next() ([]byte, int64, error) {
	c, err := s.space()
	for err == nil && c == ',' {
		c, err = s.space()
	}
	if err != nil {
		return nil, s.off, err
	}
	if c == ']' {
		return nil, s.off, io.EOF
	}
	s.unread()
	at := s.off
	v, err := s.value(true)
	return v, at, err
}
