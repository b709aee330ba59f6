package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// decoder walks a YAML tree along the types of Config. For each value it
// remembers where the value stands, under its path ("guards[0].file"), so that
// a later check can point there.
type decoder struct {
	file, dir string
	places    map[string]place
}

// place is a line and a column, from 1.
type place struct{ line, column int }

func parse(file, dir string, data []byte) (*Config, error) {
	d := &decoder{file: file, dir: dir, places: map[string]place{}}
	c := Default()
	body, err := d.tree(data)
	if err != nil {
		return nil, err
	}
	if body != nil {
		if err := d.value(body, "", reflect.ValueOf(c).Elem(), ""); err != nil {
			return nil, err
		}
	}
	if err := d.validate(c); err != nil {
		return nil, err
	}
	return c, nil
}

// maxNesting bounds how deep flow lists and maps may nest, and how many block
// entries may open on one line. The parser recurses on both.
const maxNesting = 32

// tree returns the root of the one document in data, nil for an empty file.
func (d *decoder) tree(data []byte) (body ast.Node, err error) {
	if len(data) > maxFile {
		return nil, d.errorf(place{}, "longer than 128 KiB", "a configuration is a page of text: is this the right file?")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		before := validPrefix(data)
		return nil, d.errorf(place{1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])},
			"not valid UTF-8", "save the file as UTF-8")
	}
	// The parser is not ours and the input is any file: a panic in it is an
	// unreadable file and nothing worse.
	defer func() {
		if r := recover(); r != nil {
			body, err = nil, d.errorf(place{}, "can't be read as YAML", "write it in plain block style: key, colon, value, two spaces for each level")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if err := d.shallow(tokens); err != nil {
		return nil, err
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, d.syntax(err)
	}
	for _, doc := range f.Docs {
		switch {
		case doc.Body == nil:
		case doc.Body.Type() == ast.DirectiveType:
			return nil, d.errorf(at(doc.Body), "a YAML directive", "leave the line out; the file is one plain document")
		case doc.Body.Type() == ast.CommentType:
		case body != nil:
			return nil, d.errorf(at(doc.Body), "a second document", "one file holds one configuration; remove the --- between them")
		default:
			body = doc.Body
		}
	}
	return body, nil
}

func validPrefix(data []byte) []byte {
	i := 0
	for i < len(data) {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return data[:i]
}

func (d *decoder) shallow(tokens token.Tokens) error {
	flow, line, onLine := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			if t.Position.Line != line {
				line, onLine = t.Position.Line, 0
			}
			onLine++
		}
		if flow > maxNesting || onLine > maxNesting {
			return d.errorf(place{t.Position.Line, t.Position.Column}, fmt.Sprintf("nested deeper than %d levels", maxNesting), "nothing in a configuration nests that deep: is this the right file?")
		}
	}
	return nil
}

func (d *decoder) syntax(err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) || ye.GetToken() == nil {
		return d.errorf(place{}, "not valid YAML: "+err.Error(), "")
	}
	t := ye.GetToken()
	return d.errorf(place{t.Position.Line, t.Position.Column}, "not valid YAML: "+ye.GetMessage(),
		"check the indentation (spaces, no tabs), the brackets and the quotes on this line and the one before")
}

func (d *decoder) errorf(p place, message, hint string) error {
	return &Error{File: d.file, Line: p.line, Column: p.column, Message: message, hint: hint}
}

// at returns where a node starts. For a block mapping that is its first key:
// the node's own token is the colon.
func at(n ast.Node) place {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return at(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return at(n.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{}
}

// what names a node's kind in an error.
func what(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.NullNode:
		return "nothing"
	}
	return "something else"
}

var (
	durationType    = reflect.TypeFor[Duration]()
	sizeType        = reflect.TypeFor[Size]()
	fuelType        = reflect.TypeFor[Fuel]()
	rawType         = reflect.TypeFor[json.RawMessage]()
	passthroughType = reflect.TypeFor[Passthrough]()
	upstreamsType   = reflect.TypeFor[[]Upstream]()
	guardType       = reflect.TypeFor[Guard]()
)

// value decodes n into v. tag is that of the field that holds v, or holds the
// list or map that v is in.
func (d *decoder) value(n ast.Node, path string, v reflect.Value, tag reflect.StructTag) error {
	d.places[path] = at(n)
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return d.errorf(at(n), named(path)+"anchors and aliases are not supported", "write the value out")
	case *ast.TagNode:
		return d.errorf(at(n), named(path)+"YAML tags are not supported", "write the plain value")
	case *ast.NullNode:
		return d.errorf(at(n), named(path)+"no value", "give it a value, or leave the key out to get the default")
	}
	switch v.Type() {
	case durationType:
		s, err := d.text(n, path, "a duration with a unit, such as 250ms or 2s")
		if err != nil {
			return err
		}
		t, perr := time.ParseDuration(s)
		if perr != nil {
			return d.errorf(at(n), named(path)+fmt.Sprintf("%s is not a duration", show(s)), "write a number and a unit, such as 250ms or 2s")
		}
		v.SetInt(int64(t))
		return nil
	case sizeType:
		s, err := d.text(n, path, "a size with a unit, such as 16MiB")
		if err != nil {
			return err
		}
		size, ok := parseSize(s)
		if !ok {
			return d.errorf(at(n), named(path)+fmt.Sprintf("%s is not a size", show(s)), "write a whole number and one of the units B, KiB, MiB, GiB, such as 16MiB")
		}
		v.SetInt(size)
		return nil
	case fuelType:
		s, err := d.text(n, path, "fuel with a unit, such as 100M")
		if err != nil {
			return err
		}
		var fuel Fuel
		if err := fuel.UnmarshalText([]byte(s)); err != nil {
			return d.errorf(at(n), named(path)+err.Error(), "write a whole number and one of the units M (a million) and G (a thousand of them), such as 100M")
		}
		v.SetInt(int64(fuel))
		return nil
	case rawType:
		var b bytes.Buffer
		if _, ok := n.(*ast.MappingNode); !ok {
			return d.mismatch(n, path, "a map")
		}
		if err := d.json(&b, n, path); err != nil {
			return err
		}
		v.SetBytes(b.Bytes())
		return nil
	case passthroughType:
		s, err := d.text(n, path, "a text such as GET /v1/usage")
		if err != nil {
			return err
		}
		p, problem, hint := parsePassthrough(s)
		if problem != "" {
			return d.errorf(at(n), named(path)+problem, hint)
		}
		v.Set(reflect.ValueOf(p))
		return nil
	case upstreamsType:
		return d.upstreams(n, path, v)
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(n, path, v)
	case reflect.Map:
		return d.mapping(n, path, v, tag)
	case reflect.Slice:
		return d.list(n, path, v, tag)
	case reflect.Bool:
		return d.boolean(n, path, v, tag)
	case reflect.String:
		return d.string(n, path, v, tag)
	}
	panic("config: a field of the type " + v.Type().String())
}

// named is the prefix of an error about the value at path.
func named(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// show quotes a text for an error, cut to a length that fits on a line.
func show(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return strconv.Quote(s)
}

func (d *decoder) mismatch(n ast.Node, path, want string) error {
	hint := "write " + want + " here"
	switch n.(type) {
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		switch {
		case path == "listen" || path == "metrics":
			hint = listenHint
		case want == "a text":
			hint = "put the value in quotes"
		}
	}
	if path == "" {
		path = "the file"
	}
	return d.errorf(at(n), fmt.Sprintf("%s is %s, and must be %s", path, what(n), want), hint)
}

func (d *decoder) text(n ast.Node, path, want string) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	}
	return "", d.mismatch(n, path, want)
}

func (d *decoder) string(n ast.Node, path string, v reflect.Value, tag reflect.StructTag) error {
	allowed, later := strings.Fields(tag.Get("one")), strings.Fields(tag.Get("later"))
	// Some writers of YAML take the word off for a switch and turn it into
	// false.
	if b, ok := n.(*ast.BoolNode); ok && !b.Value && slices.Contains(allowed, "off") {
		v.SetString("off")
		return nil
	}
	want := "a text"
	if len(allowed) > 0 {
		want = "one of the words " + strings.Join(allowed, ", ")
	}
	if len(allowed) == 1 {
		want = "the word " + allowed[0]
	}
	s, err := d.text(n, path, want)
	if err != nil {
		return err
	}
	if len(allowed) > 0 {
		if err := d.oneOf(n, named(path), "value", s, allowed, later, "allowed"); err != nil {
			return err
		}
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return d.errorf(at(n), named(path)+"a line break or a control character", "write the value on one line, without | or >")
	}
	if tag.Get("file") != "" {
		switch {
		case s == "":
			return d.errorf(at(n), named(path)+"not a file's path", "name a file, absolute or relative to the configuration file")
		case s == "~" || strings.HasPrefix(s, "~/"):
			return d.errorf(at(n), named(path)+"~ is not expanded here", "write the absolute path")
		case filepath.IsAbs(s):
			s = filepath.Clean(s)
		default:
			s = filepath.Join(d.dir, s)
		}
	}
	v.SetString(s)
	return nil
}

// oneOf checks that s is an allowed text. prefix and noun begin the error,
// list begins the enumeration in the hint.
func (d *decoder) oneOf(n ast.Node, prefix, noun, s string, allowed, later []string, list string) error {
	switch {
	case slices.Contains(allowed, s):
		return nil
	case slices.Contains(later, s):
		return d.errorf(at(n), prefix+fmt.Sprintf("%s is not supported by this version", s), list+": "+strings.Join(allowed, ", "))
	}
	return d.errorf(at(n), prefix+fmt.Sprintf("unknown %s %s", noun, show(s)), suggestion(s, allowed)+list+": "+strings.Join(allowed, ", "))
}

func (d *decoder) boolean(n ast.Node, path string, v reflect.Value, tag reflect.StructTag) error {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return d.mismatch(n, path, "true or false")
	}
	if b.Value && tag.Get("later") == "true" {
		return d.errorf(at(n), named(path)+"true is not supported by this version", "leave the key out, or set it to false")
	}
	v.SetBool(b.Value)
	return nil
}

func (d *decoder) list(n ast.Node, path string, v reflect.Value, tag reflect.StructTag) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.mismatch(n, path, "a list")
	}
	out := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		if v.Type().Elem() == guardType {
			out.Index(i).Set(reflect.ValueOf(defaultGuard()))
		}
		if err := d.value(item, fmt.Sprintf("%s[%d]", path, i), out.Index(i), tag); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

// pair is one entry of a YAML map.
type pair struct {
	key   string
	node  ast.Node // the key's node
	value ast.Node
}

// pairs returns the entries of a map whose keys are texts without duplicates.
func (d *decoder) pairs(n ast.Node, path string) ([]pair, error) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, d.mismatch(n, path, "a map")
	}
	in := ""
	if path != "" {
		in = " in " + path
	}
	var out []pair
	seen := map[string]place{}
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			return nil, d.errorf(at(v.Key), "a merge key"+in, "write the values out")
		}
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return nil, d.errorf(at(v.Key), "a key that is not a text"+in, "put the key in quotes")
		}
		if p, ok := seen[key.Value]; ok {
			return nil, d.errorf(at(key), fmt.Sprintf("duplicate key %s%s", show(key.Value), in), fmt.Sprintf("the first one is on line %d; keep one of them", p.line))
		}
		seen[key.Value] = at(key)
		out = append(out, pair{key.Value, key, v.Value})
	}
	return out, nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (d *decoder) structure(n ast.Node, path string, v reflect.Value) error {
	pairs, err := d.pairs(n, path)
	if err != nil {
		return err
	}
	keys := keysOf(v.Type())
	for _, p := range pairs {
		i := slices.Index(keys, p.key)
		if i < 0 {
			in := ""
			if path != "" {
				in = " in " + path
			}
			return d.errorf(at(p.node), fmt.Sprintf("unknown key %s%s", show(p.key), in), keySuggestion(p.key, path, keys)+"keys here: "+strings.Join(keys, ", "))
		}
		field, _ := fieldOf(v.Type(), p.key)
		if err := d.value(p.value, join(path, p.key), v.FieldByIndex(field.Index), field.Tag); err != nil {
			return err
		}
	}
	return nil
}

// keysOf returns the keys of a struct, in the order of its fields.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("yaml") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func (d *decoder) mapping(n ast.Node, path string, v reflect.Value, tag reflect.StructTag) error {
	pairs, err := d.pairs(n, path)
	if err != nil {
		return err
	}
	out := reflect.MakeMapWithSize(v.Type(), len(pairs))
	for _, p := range pairs {
		if keys := strings.Fields(tag.Get("keys")); len(keys) > 0 {
			if err := d.oneOf(p.node, named(path), "key", p.key, keys, strings.Fields(tag.Get("later")), "keys here"); err != nil {
				return err
			}
		} else if strings.TrimSpace(p.key) == "" || strings.ContainsFunc(p.key, unicode.IsControl) {
			return d.errorf(at(p.node), named(path)+fmt.Sprintf("%s can't be a name", show(p.key)), "the keys here are names of tools")
		}
		e := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(p.value, join(path, p.key), e, tag); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(p.key), e)
	}
	v.Set(out)
	return nil
}

// upstreams decodes a map by name into a list in the order of the file.
func (d *decoder) upstreams(n ast.Node, path string, v reflect.Value) error {
	pairs, err := d.pairs(n, path)
	if err != nil {
		return err
	}
	var out []Upstream
	for _, p := range pairs {
		if !validName(p.key) {
			return d.errorf(at(p.node), named(path)+fmt.Sprintf("%s can't be a name", show(p.key)), nameHint)
		}
		u := Upstream{Name: p.key}
		if err := d.value(p.value, join(path, p.key), reflect.ValueOf(&u).Elem(), ""); err != nil {
			return err
		}
		out = append(out, u)
	}
	v.Set(reflect.ValueOf(out))
	return nil
}

// json writes n as JSON: members in the order of the file, numbers in their
// shortest decimal form.
func (d *decoder) json(b *bytes.Buffer, n ast.Node, path string) error {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		pairs, err := d.pairs(n, path)
		if err != nil {
			return err
		}
		b.WriteByte('{')
		for i, p := range pairs {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, p.key)
			b.WriteByte(':')
			if err := d.json(b, p.value, join(path, p.key)); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case *ast.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Values {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := d.json(b, item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case *ast.StringNode:
		writeString(b, n.Value)
	case *ast.LiteralNode:
		writeString(b, n.Value.Value)
	case *ast.BoolNode:
		b.WriteString(strconv.FormatBool(n.Value))
	case *ast.NullNode:
		b.WriteString("null")
	case *ast.IntegerNode:
		fmt.Fprintf(b, "%d", n.Value)
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			return d.errorf(at(n), named(path)+"a number that JSON does not have", "write a finite number")
		}
		text, err := json.Marshal(n.Value)
		if err != nil {
			return d.errorf(at(n), named(path)+"a number that JSON does not have", "write a finite number")
		}
		b.Write(text)
	case *ast.InfinityNode, *ast.NanNode:
		return d.errorf(at(n), named(path)+"a number that JSON does not have", "write a finite number")
	default:
		return d.errorf(at(n), named(path)+"anchors, aliases and tags are not supported", "write the plain value")
	}
	return nil
}

func writeString(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always has a JSON form
	}
	b.Truncate(b.Len() - 1) // Encode ends the text with a line break
}

var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

func parseSize(s string) (int64, bool) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			return 0, false
		}
		return n * u.bytes, true
	}
	return 0, false
}

// String writes a size the way the file does.
func (s Size) String() string {
	for _, u := range []int{2, 1, 0} {
		if unit := units[u]; s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// UnmarshalText reads what a file, and the flag of a command, has.
func (f *Fuel) UnmarshalText(text []byte) error {
	million, digits := int64(1e6), strings.TrimSuffix(string(text), "M")
	if len(digits) == len(text) {
		million, digits = 1e9, strings.TrimSuffix(string(text), "G")
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if len(digits) == len(text) || err != nil || n < 0 || n > math.MaxInt64/million {
		return fmt.Errorf("%s is no amount of fuel", show(string(text)))
	}
	*f = Fuel(n * million)
	return nil
}

// String writes fuel the way the file does.
func (f Fuel) String() string {
	if f != 0 && f%1e9 == 0 {
		return strconv.FormatInt(int64(f)/1e9, 10) + "G"
	}
	return strconv.FormatInt(int64(f)/1e6, 10) + "M"
}

func (d Duration) String() string { return time.Duration(d).String() }

// suggestion is the first half of a hint: what was probably meant, or "".
func suggestion(s string, allowed []string) string {
	if near := nearest(s, allowed); near != "" {
		return fmt.Sprintf("did you mean %s? ", near)
	}
	return ""
}

// keySuggestion also looks for the key elsewhere: a key at the wrong level is
// as common a mistake as a typing error.
func keySuggestion(key, path string, here []string) string {
	if near := nearest(key, here); near != "" {
		return suggestion(key, here)
	}
	for _, k := range Keys() {
		last := k[strings.LastIndexByte(k, '.')+1:]
		if last == key && k != join(path, key) {
			return fmt.Sprintf("did you mean %s? ", k)
		}
	}
	return ""
}

// nearest returns the allowed text that s is most likely to mean, or "": equal
// but for case, hyphens and underscores, or at most a third of it mistyped, or
// the only one that begins with s.
func nearest(s string, allowed []string) string {
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(s))
	}
	best, least := "", 0
	for _, a := range allowed {
		n := 0
		if fold(a) != fold(s) {
			n = distance(s, a)
		}
		if n <= max(1, len(a)/3) && (best == "" || n < least) {
			best, least = a, n
		}
	}
	if best == "" && len(s) >= 3 {
		longer := func(a string) bool { return strings.HasPrefix(fold(a), fold(s)) }
		if i := slices.IndexFunc(allowed, longer); i >= 0 && !slices.ContainsFunc(allowed[i+1:], longer) {
			best = allowed[i]
		}
	}
	return best
}

// distance is the number of characters to insert, delete, replace, or swap
// with their neighbour to get from a to b. Long texts count as far apart.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	// rows[i][j] is the distance of a's first i and b's first j bytes.
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			n := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, rows[i-2][j-2]+1)
			}
			rows[i][j] = n
		}
	}
	return rows[len(a)][len(b)]
}

// Keys returns the path of every key that a file may hold, in the order of the
// structs. NAME stands for a key that the operator chooses, [] for the entries
// of a list.
func Keys() []string { return appendKeys(nil, "", reflect.TypeFor[Config]()) }

func appendKeys(keys []string, path string, t reflect.Type) []string {
	switch {
	case t == passthroughType || t == rawType:
		return append(keys, path)
	case t.Kind() == reflect.Struct:
		for _, key := range keysOf(t) {
			f, _ := fieldOf(t, key)
			keys = appendKeys(keys, join(path, key), f.Type)
		}
		return keys
	case t == upstreamsType, t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return appendKeys(keys, path+".NAME", t.Elem())
	case t.Kind() == reflect.Map:
		return append(keys, path+".NAME")
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && t.Elem() != passthroughType:
		return appendKeys(keys, path+"[]", t.Elem())
	}
	return append(keys, path)
}
