package command

import "strings"

// GNU sed runs a command by its own command e and by the flag e of s. To tell
// them from a letter in a pattern or in a text, its script is read by the
// grammar; what is none of it is taken for the worst.
//
// Source: GNU sed's manual, "sed scripts" and "Commands specific to GNU sed".

// sedRuns reports whether one of sed's scripts may run a command.
func sedRuns(args []string) bool {
	var scripts, operands []string
	given, emptySuffix := false, false
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch {
		case a == "--":
			operands = append(operands, args[i+1:]...)
			i = len(args)
		case strings.HasPrefix(a, "--"):
			option, value, has := strings.Cut(a[2:], "=")
			switch {
			case option == "":
			case strings.HasPrefix("expression", option):
				if given = true; !has {
					value = next()
				}
				scripts = append(scripts, value)
			case strings.HasPrefix("file", option):
				if given = true; !has {
					next()
				}
			case strings.HasPrefix("line-length", option) && !has:
				next()
			}
		case len(a) > 1 && a[0] == '-':
			for at := 1; at < len(a); at++ {
				rest := a[at+1:]
				switch a[at] {
				case 'e', 'f', 'l':
					if rest == "" {
						rest = next()
					}
					if given = given || a[at] != 'l'; a[at] == 'e' {
						scripts = append(scripts, rest)
					}
				case 'i', 'I': // a suffix; elsewhere than with GNU sed it may be the next word
					emptySuffix = emptySuffix || rest == "" && i+1 < len(args) && args[i+1] == ""
				default:
					continue
				}
				break
			}
		default:
			operands = append(operands, a)
		}
	}
	if !given && len(operands) > 0 {
		scripts = append(scripts, operands[0])
		if emptySuffix && len(operands) > 1 {
			scripts = append(scripts, operands[1])
		}
	}
	s := sedScript{text: strings.Join(scripts, "\n")}
	return !s.plain()
}

// sedScript is read from the front.
type sedScript struct{ text string }

func (s *sedScript) peek() byte {
	if s.text == "" {
		return 0
	}
	return s.text[0]
}

func (s *sedScript) skip(chars string) { s.text = strings.TrimLeft(s.text, chars) }

// line takes all up to the end of the line, in a text also lines that go on.
func (s *sedScript) line(text bool) {
	for i := 0; i < len(s.text); i++ {
		switch {
		case s.text[i] == '\\' && text:
			i++
		case s.text[i] == '\n':
			s.text = s.text[i:]
			return
		}
	}
	s.text = ""
}

// part takes all up to the delimiter and it. Inside of brackets a delimiter may
// or may not be one, so a pattern in which it could stand there can't be read.
func (s *sedScript) part(delimiter byte) bool {
	bracket := false
	for i := 0; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '\\':
			i++
		case '[':
			bracket = true
			if delimiter == '[' {
				return false
			}
		case delimiter:
			s.text = s.text[i+1:]
			at := strings.IndexAny(s.text, "[]\n"+string(rune(delimiter)))
			return !bracket || at < 0 || s.text[at] != ']' && delimiter < 0x80
		}
	}
	return false
}

// address takes one address, if there is one.
func (s *sedScript) address() bool {
	switch c := s.peek(); {
	case c >= '0' && c <= '9' || c == '$' || c == '+' || c == '~':
		s.skip("0123456789$+~")
		return true
	case c == '/':
		s.text = s.text[1:]
		if !s.part('/') {
			return false
		}
	case c == '\\' && len(s.text) > 1:
		delimiter := s.text[1]
		s.text = s.text[2:]
		if !s.part(delimiter) {
			return false
		}
	default:
		return true
	}
	s.skip("IM")
	return true
}

// plain reports whether the script was read to its end and runs nothing.
func (s *sedScript) plain() bool {
	for {
		s.skip(" \t\n;")
		if s.text == "" {
			return true
		}
		if !s.address() {
			return false
		}
		if s.skip(" \t"); s.peek() == ',' {
			s.text = s.text[1:]
			if s.skip(" \t"); !s.address() {
				return false
			}
		}
		s.skip(" \t!")
		c := s.peek()
		if c == 0 {
			return false
		}
		s.text = s.text[1:]
		switch c {
		case '{', '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		case '#', 'r', 'R', 'w', 'W':
			s.line(false)
		case 'a', 'i', 'c':
			s.line(true)
		case 'b', 't', 'T', ':', 'v', 'q', 'Q', 'l', 'L':
			s.skip(" \t")
			if i := strings.IndexAny(s.text, " \t;\n}"); i >= 0 {
				s.text = s.text[i:]
			} else {
				s.text = ""
			}
		case 's', 'y':
			if s.text == "" {
				return false
			}
			delimiter := s.text[0]
			s.text = s.text[1:]
			if !s.part(delimiter) || !s.second(delimiter) {
				return false
			}
			if c == 'y' {
				continue
			}
			s.skip("0123456789gpiIMm")
			switch s.peek() {
			case 'e':
				return false
			case 'w':
				s.line(false)
			case 0, ';', '\n', '}', ' ', '\t', '#':
			default:
				return false
			}
		default:
			return false
		}
	}
}

// second takes the other half of s and y, in which brackets mean nothing.
func (s *sedScript) second(delimiter byte) bool {
	for i := 0; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case delimiter:
			s.text = s.text[i+1:]
			return true
		}
	}
	return false
}
