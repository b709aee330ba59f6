package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../../docs/configuration.md"

func readPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func example(t *testing.T) string {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(readPage(t), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d yaml blocks in %s, want 1", len(blocks), page)
	}
	return blocks[0][1]
}

// The page's example is a valid file, and it holds every key there is.
func TestDocumentedExample(t *testing.T) {
	d := &decoder{file: "example.yaml", places: map[string]place{}}
	text := example(t)
	c, err := Parse("/etc/guardproxy/example.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Guards) != 2 || c.Guards[0].File != "/etc/guardproxy/guards/no-force-push.wasm" ||
		string(c.Guards[0].Config) != `{"branches":["main","release"],"allow_lease":false}` {
		t.Errorf("guards: %+v", c.Guards)
	}
	body, err := d.tree([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.value(body, "", reflect.ValueOf(Default()).Elem(), ""); err != nil {
		t.Fatal(err)
	}
	index := regexp.MustCompile(`\[\d+\]`)
	name := regexp.MustCompile(`^(upstreams|schema\.fields|tools|dialects)\.[^.]+`)
	var used []string
	for path := range d.places {
		path = strings.TrimSuffix(index.ReplaceAllString(path, "[]"), "[]")
		used = append(used, name.ReplaceAllString(path, "$1.NAME"))
	}
	for _, key := range Keys() {
		if !slices.Contains(used, key) {
			t.Errorf("the example does not use %s", key)
		}
	}
}

// The page's table lists exactly the keys of the struct, in its order, with
// their defaults.
func TestDocumentedKeys(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*?) \\| (.+) \\|$").FindAllStringSubmatch(readPage(t), -1)
	var keys []string
	for _, row := range rows {
		keys = append(keys, row[1])
		if want := defaultOf(t, row[1]); row[2] != want {
			t.Errorf("%s: the page gives the default as %s, it is %s", row[1], row[2], want)
		}
	}
	for _, key := range Keys() {
		if !slices.Contains(keys, key) {
			t.Errorf("the page does not mention %s", key)
		}
	}
	for _, key := range keys {
		if !slices.Contains(Keys(), key) {
			t.Errorf("the page mentions %s, which is no key", key)
		}
	}
	if !slices.Equal(keys, Keys()) {
		t.Errorf("the page's order is\n%q\nthe struct's\n%q", keys, Keys())
	}
}

// defaultOf returns the default of a key the way the page writes it.
func defaultOf(t *testing.T, key string) string {
	t.Helper()
	v := reflect.ValueOf(*Default())
	if rest, ok := strings.CutPrefix(key, "guards[]."); ok {
		v, key = reflect.ValueOf(defaultGuard()), rest
	}
	for _, k := range strings.Split(key, ".") {
		if v.Kind() != reflect.Struct {
			return "-" // below a map or a list that is empty by default
		}
		f, ok := fieldOf(v.Type(), strings.TrimSuffix(k, "[]"))
		if !ok {
			return "-"
		}
		v = v.FieldByIndex(f.Index)
	}
	switch {
	case v.Type() == rawType:
		return fmt.Sprintf("`%s`", v.Bytes())
	case v.Kind() == reflect.Bool, !v.IsZero():
		return fmt.Sprintf("`%v`", v.Interface())
	}
	return "-"
}

// Each word that the decoder knows for a key is in that key's row.
func TestDocumentedWords(t *testing.T) {
	text := readPage(t)
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for _, key := range keysOf(typ) {
			f, _ := fieldOf(typ, key)
			at := join(path, key)
			for _, tag := range []string{"one", "keys"} {
				for _, word := range strings.Fields(f.Tag.Get(tag)) {
					row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(at) + "[^`]*` .*`" + regexp.QuoteMeta(word) + "`.*$")
					if !row.MatchString(text) {
						t.Errorf("the page does not mention the word %s of %s", word, at)
					}
				}
			}
			next := f.Type
			switch {
			case next == rawType || next == passthroughType:
				continue
			case next == upstreamsType || next.Kind() == reflect.Map:
				at, next = at+".NAME", next.Elem()
			case next.Kind() == reflect.Slice:
				at, next = at+"[]", next.Elem()
			}
			if next.Kind() == reflect.Struct && next != passthroughType {
				walk(at, next)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
}

// The configurations of the README and of the page about guards are ones, and an
// upstream that a client is pointed at by name is in the one beside it.
func TestOtherPagesConfigurations(t *testing.T) {
	named := regexp.MustCompile(`http://127\.0\.0\.1:8788/u/([a-z]+)`)
	for name, block := range map[string]string{
		"../../README.md":      "(?s)```yaml\n(upstreams:.*?)```",
		"../../docs/guards.md": "(?s)```\n(guards:.*?)```",
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(block).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s: no configuration", name)
		}
		c, err := Parse(name, m[1])
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, at := range named.FindAllStringSubmatch(string(text), -1) {
			if !slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Name == at[1] }) {
				t.Errorf("%s: %s names an upstream that its configuration does not have", name, at[0])
			}
		}
	}
}
