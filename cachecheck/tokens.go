package cachecheck

import (
	"strconv"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer"
)

// Tokens are either reported, or estimated; a Figure always says which, and how
// far off it may be. The estimate counts a sample with o200k and scales it by
// what was measured for the model's family (data/tokens.tsv): no vendor but
// OpenAI publishes a vocabulary that could be embedded.

// Figure is a number of tokens, and what it rests on.
type Figure struct {
	Tokens int `json:"tokens"`
	// Method is "reported", "offset-fit", "o200k" or "o200k sample".
	Method string `json:"method"`
	// Band is the error to expect, in per cent of Tokens either way; 0 for
	// what was reported.
	Band float64 `json:"band"`
}

func (f Figure) String() string {
	if f.Method == "reported" {
		return thousands(f.Tokens) + " (reported)"
	}
	return thousands(f.Tokens) + " (" + f.Method + " ±" + strconv.FormatFloat(f.Band, 'f', -1, 64) + "%)"
}

// Low and High are the ends of the band.
func (f Figure) Low() int  { return int(float64(f.Tokens) * max(0, 1-f.Band/100)) }
func (f Figure) High() int { return int(float64(f.Tokens) * (1 + f.Band/100)) }

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// family is one row of data/tokens.tsv.
type family struct {
	name                      string
	slope, median, p90, plain float64
}

var families = func() (out []family) {
	for _, f := range rows(tokensTSV, 7) {
		num := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v }
		out = append(out, family{f[0], num(f[1]), num(f[2]), num(f[3]), num(f[4])})
	}
	return out
}()

func familyOf(model string) family {
	m := strings.ToLower(model)
	for _, f := range families {
		if strings.Contains(m, f.name) {
			return f
		}
	}
	return families[len(families)-1]
}

// sampleBytes is how much of a text is counted.
const sampleBytes = 8 << 10

var vocabulary = sync.OnceValue(func() tokenizer.Codec {
	c, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return nil
	}
	return c
})

// o200k counts text, or a sample of it; whole says which.
func o200k(text []byte) (n float64, whole bool) {
	sample := text
	if len(sample) > sampleBytes {
		// From the middle: the beginning of a prompt is not like the rest.
		from := (len(text) - sampleBytes) / 2
		sample = text[from : from+sampleBytes]
	}
	if c := vocabulary(); c != nil {
		if k, err := c.Count(strings.ToValidUTF8(string(sample), "\uFFFD")); err == nil {
			return float64(k) * float64(len(text)) / float64(max(1, len(sample))), len(sample) == len(text)
		}
	}
	return float64(len(text)) / 4, false
}

// estimate counts text for a model.
func estimate(model string, text []byte) Figure {
	f := familyOf(model)
	n, whole := o200k(text)
	method, band := "o200k", f.plain
	if !whole {
		method, band = "o200k sample", f.plain+10
	}
	return Figure{int(n * f.slope), method, band}
}

// fit estimates the tokens of a part of a request whose total was reported: its
// share by bytes of what is not the provider's own hidden text.
func fit(model string, total, partBytes, allBytes int) Figure {
	if allBytes == 0 {
		return Figure{}
	}
	return Figure{int(float64(total) * float64(partBytes) / float64(allBytes)), "offset-fit", familyOf(model).p90}
}
