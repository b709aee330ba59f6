package cachecheck

// Times are nanoseconds since 1970 UTC, since a checker has no clock and only
// ever compares what others measured.

// parseInstant reads an RFC 3339 time, with a space for the T too; 0 when it is
// none.
func parseInstant(s string) int64 {
	num := func(from, to int) int {
		if len(s) < to {
			return -1
		}
		n := 0
		for _, c := range s[from:to] {
			if c < '0' || c > '9' {
				return -1
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	y, mo, d, h, mi, sec := num(0, 4), num(5, 7), num(8, 10), num(11, 13), num(14, 16), num(17, 19)
	if min(y, mo, d, h, mi, sec) < 0 || s[4] != '-' || s[7] != '-' || s[10] != 'T' && s[10] != ' ' && s[10] != 't' || s[13] != ':' || s[16] != ':' ||
		y < 1970 || y > 2200 || mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 || sec > 60 {
		return 0
	}
	rest, nano := s[19:], int64(0)
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		i, scale := 1, int64(100_000_000)
		for ; i < len(rest) && rest[i] >= '0' && rest[i] <= '9'; i++ {
			nano += int64(rest[i]-'0') * scale
			scale /= 10
		}
		rest = rest[i:]
	}
	off := 0
	switch {
	case rest == "" || rest == "Z" || rest == "z":
	case (rest[0] == '+' || rest[0] == '-') && len(rest) >= 5:
		at := len(s) - len(rest)
		oh, om := num(at+1, at+3), -1
		if rest[3] == ':' {
			om = num(at+4, at+6)
		} else {
			om = num(at+3, at+5)
		}
		if oh < 0 || om < 0 {
			return 0
		}
		if off = oh*3600 + om*60; rest[0] == '-' {
			off = -off
		}
	default:
		return 0
	}
	// Days since 1970, counting years from March so that the leap day is last.
	if mo <= 2 {
		y, mo = y-1, mo+12
	}
	days := 365*y + y/4 - y/100 + y/400 + (153*(mo-3)+2)/5 + d - 1 - 719468
	return (int64(days)*86400+int64(h*3600+mi*60+sec-off))*1e9 + nano
}
