// What a sentence is about.
//
// Only names settle it: a removed field, or one of the values that ask for
// more, offered. Everything else in this file is about how a sentence hangs
// together with one beside it, and never removes anything alone. So a text
// that merely speaks of permissions, sandboxes or approval stays as it is.

package schema

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// subject is what the prose of one tool must no longer speak of.
type subject struct {
	names  []string // removed fields
	values []string // values that ask for more; identifiers only
	enums  []string // all values that the removed fields listed
	stay   []string // properties that stay
	live   []string // values that stay beside dead ones

	staySet, enumSet nameSet
	// reserved is set for texts that are no tool's description: see NarrowText.
	reserved bool
}

// with merges two subjects; s may be nil.
func (s *subject) with(o *subject) *subject {
	if s == nil {
		return o
	}
	m := &subject{reserved: s.reserved || o.reserved}
	m.stay, m.enums, m.live = union(s.stay, o.stay), union(s.enums, o.enums), union(s.live, o.live)
	m.values = union(s.values, o.values)
	for _, n := range union(s.names, o.names) {
		if !slices.Contains(m.stay, n) {
			m.names = append(m.names, n)
		}
	}
	return m
}

// naming is what one sentence names. It is cheap to see, so every sentence is
// looked at.
type naming struct {
	core    bool // it is about a removed field
	mention bool // it names a removed field or value, in whatever sense
	named   bool // it names a removed field
}

// tenor is what else a sentence says. It decides about the neighbours of what
// goes, so only they are looked at: most sentences of a description never are.
type tenor struct {
	foreign bool // it holds code that is none of ours: it documents something of its own
	rise    bool // it speaks of getting more than the sandbox allows
	consent bool // it speaks of being asked or allowed
	denial  bool // it leads in from a denial
	link    bool // it refers to what was said before
}

var (
	riseRE = lazily(`(?i)\bescalat|\bunsandboxed\b` +
		`|\b(?:run|running|execut\w+|retry\w*|rerun\w*|work\w*)\s+(?:\w+\s+){0,4}(?:without|outside)\s+(?:of\s+)?(?:the\s+|any\s+)?(?:\w+\s+)?sandbox` +
		`|\b(?:bypass\w*|disabl\w+|overrid\w+|leav\w+|escap\w+)\s+(?:the\s+|any\s+|its\s+)?(?:\w+\s+)?sandbox` +
		`|\b(?:wider|broader|elevated|higher|additional|extra|more)\s+(?:\w+\s+)?(?:permissions?|access|modes?|privileges?|rights)\b` +
		`|\bfull access\b` +
		`|提权|升权|(?:提升|提高|扩大|放宽|升级|申请|请求|获取|更高|更宽|更大|更多|额外)(?:的|一下|其|该|此)?(?:\p{Han}{0,4})?(?:权限|模式|访问)|完全访问|完整访问|沙[箱盒](?:之)?外|(?:绕过|关闭|禁用|跳出|脱离|离开|突破)(?:\p{Han}{0,3})?沙[箱盒]`)
	consentRE = lazily(`(?i)\bapprov(?:al|e|es|ed|er|ing)\b|\bconsents?\b` +
		`|\b(?:ask|request|prompt)\w*\s+(?:\w+\s+){0,4}(?:permission|confirmation)\b` +
		`|\b(?:user|human|operator|person)\s+(?:\w+\s+){0,3}(?:asked|prompted|confirms?|declines?|rejects?|refuses?)\b` +
		`|\bprompts?\s+the\s+(?:user|human|operator)\b` +
		`|批准|审批|(?:征求|取得|获得|经|得到|需要?|请求)(?:\p{Han}{0,4})?(?:同意|许可|授权|确认)|(?:询问|提示|请求|等待)用户|用户(?:\p{Han}{0,4})(?:同意|确认|批准|拒绝|授权)`)
	conditionRE = lazily(`(?i)^\W*(?:if|when|whenever|where|should|once|in case|as soon as)\b|^[\s\p{P}]*(?:如果|如|若|倘若|假如|要是|当|一旦|遇到|万一|凡)`)
	attemptRE   = lazily(`(?i)\b(?:attempt\w*|retr(?:y|ies|ied|ying)|rerun\w*|try(?:ing)?)\b|重试|再次|重新|再试|尝试`)
	deniedRE    = lazily(`(?i)\b(?:den(?:y|ies|ied|ial|ials)|block(?:s|ed|ing)?|refus(?:e|es|ed|al)|reject(?:s|ed|ion)?|restrict(?:s|ed|ions?)?|not permitted|forbid(?:s|den)?)\b|拒绝|阻止|拦截|禁止|不允许|被拒|受限|限制`)

	pronounRE = lazily(`(?i)^\W*(?:it|its|they|them|their|doing so|do so|both|either way|only then|then|otherwise|if so|if not|else` +
		`|in (?:that|this|such|those|these|either|both) (?:a )?cases?|after(?:wards| that| this)|once (?:it|this|that|they|granted|approved|allowed)` +
		`|(?:when|after|until|unless|if|before|without) (?:it|this|that|they|them|granted|approved|allowed|denied|rejected|declined)` +
		`|instead|therefore|thus|hence|however|likewise|consequently|as a result|for example|for instance|e\.g\.|note that (?:this|that|it|they|these)|(?:when|if) (?:that|this|it) (?:happens|occurs|fails))\b` +
		`|^[\s\p{P}]*(?:它|其|这|那|该|此|两者|二者|届时|否则|如此|因此|所以|于是|然后|随后|之后|接着|再|另外|同时|并且?|即使|例如|比如|只有|除非|一经|获批|批准|同意|被拒|如(?:果|若)?(?:获批|被拒|获准|不|未|没有)|若(?:获批|被拒|获准|不|未|没有))`)
	demonstrativeRE = lazily(`(?i)^\W*(?:this|that|these|those|such)\s+(?:an?\s+)?(\w+)`)
	objectRE        = lazily(`(?i)\b(?:this|that|these|those|such)\s+(?:an?\s+)?(?:\w+\s+)?(?:retry|retries|request|setting|option|parameter|field|flag|argument|value|override|exception|approval|permission|mode)s?\b` +
		`|^\W*the\s+(?:retry|override|prompt|request)\b`)
	// premiseRE opens a sentence that takes the one before it as its case.
	premiseRE = lazily(`(?i)^\W*(?:in (?:that|this|such|those|these) (?:a )?(?:cases?|events?|situations?)|if so|then|when (?:this|that|it) (?:happens|occurs)|if (?:this|that|it) (?:happens|occurs|does|is)|should (?:this|that|it) happen|after that|afterwards|instead)\b` +
		`|^[\s\p{P}]*(?:此时|这时|那时|届时|这种情况|这种时候|在这种情况|此种情况|在此情况|遇到这种|出现这种|如遇此|如此|若如此|若是如此|然后|随后)`)
	imperativeRE = lazily(`(?i)^\W*(?:[a-z']+\s+){1,3}(?:it|them)\b`)
	explainRE    = lazily(`(?i)^\W*(?:always\s+|briefly\s+|then\s+)?(?:explain|state|say|give|describe|justify)\b.*\b(?:why|reasons?)\b|^[\s\p{P}]*(?:并|请|请你|务必|同时)*(?:说明|解释|写明|给出|注明|阐明)`)
	offerRE      = lazily(`(?i)\b(?:set|use|uses|using|pass|passing|request\w*|retry\w*|rerun|choose|pick|select|switch|ask|specify|allow\w*|grant\w*|may|can|need|needs|require|requires|available|accepts?|one of|either)\b|使用|采用|改用|设为|设置|设成|传入|传递|选择|指定|请求|申请|重试|切换|可以|需要|允许|支持|可选`)
	// askRE is how a text tells its reader to ask with a value.
	askRE = lazily(`(?i)\b(?:re-?run|retry|re-?try|request|provide|specify|pass|escalate)\b|重试|传入|指定|申请`)
)

// places are what a demonstrative may point to without pointing back to an
// option: "This tool returns…".
var places = map[string]bool{
	"tool": true, "function": true, "shell": true, "session": true, "environment": true, "machine": true, "project": true,
	"repository": true, "repo": true, "server": true, "client": true, "workspace": true, "output": true, "file": true, "files": true,
	"command": true, "commands": true, "directory": true, "path": true,
}

// isIdentifier tells a name that can only be a name (sandbox_permissions,
// dangerouslyDisableSandbox, danger-full-access) from a word of the language
// (justification).
func isIdentifier(s string) bool {
	letters := false
	for i, r := range s {
		switch {
		case unicode.IsLetter(r):
			if i > 0 && unicode.IsUpper(r) && strings.ContainsFunc(s, unicode.IsLower) {
				return true
			}
			letters = true
		case r == '_' || r == '-' || unicode.IsDigit(r):
			if letters && i+1 < len(s) {
				return true
			}
		default:
			return false
		}
	}
	return false
}

// find returns where word stands in text as a whole word.
func find(text, word string) []int {
	var at []int
	if word == "" {
		return nil
	}
	for i := 0; ; {
		n := strings.Index(text[i:], word)
		if n < 0 {
			return at
		}
		n += i
		i = n + len(word)
		if !wordEnds(text[:n]) && !wordStarts(text[i:]) {
			at = append(at, n)
		}
	}
}

// wordEnds reports whether a word, or a word and a hyphen, ends text.
func wordEnds(text string) bool {
	if n := len(text); n > 1 && text[n-1] == '-' {
		text = text[:n-1]
	}
	r, _ := utf8.DecodeLastRuneInString(text)
	return text != "" && isWord(r)
}

func wordStarts(text string) bool {
	if len(text) > 1 && text[0] == '-' {
		text = text[1:]
	}
	r, _ := utf8.DecodeRuneInString(text)
	return text != "" && isWord(r)
}

// isWord holds for letters that continue a word beside a name. Scripts that
// write no spaces are left out: there a name stands directly beside letters.
func isWord(r rune) bool {
	return r == '_' || r < 0x530 && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// relevant is a quick test: false means that no sentence of text can be core.
func (s *subject) relevant(text string) bool {
	for _, n := range s.names {
		if strings.Contains(text, n) || !isIdentifier(n) && strings.Contains(text, capital(n)) {
			return true
		}
	}
	for _, v := range s.values {
		if strings.Contains(text, v) {
			return true
		}
	}
	return false
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// naming says what a sentence names.
func (s *subject) naming(text string) naming {
	var t naming
	// What holds for the whole sentence is looked up once, and only if asked.
	code := sync.OnceValue(func() []span { return codeSpans(text) })
	topical := sync.OnceValue(func() bool {
		m := matcher{text: clip(text)}
		return m.rise() || m.consent()
	})
	for _, name := range s.names {
		if isIdentifier(name) {
			if len(find(text, name)) > 0 {
				return naming{core: true, mention: true, named: true}
			}
			continue
		}
		for _, form := range [...]string{name, capital(name)} {
			for i, at := range find(text, form) {
				t.mention, t.named = true, true
				if i == maxUses {
					break
				}
				if topical() || inside(code(), at) || namedAsField(text, at, at+len(form)) {
					return naming{core: true, mention: true, named: true}
				}
			}
		}
	}
	for _, v := range s.values {
		if len(find(text, v)) > 0 {
			t.mention = true
			if s.offered(text) {
				return naming{core: true, mention: true, named: true}
			}
		}
	}
	t.mention = t.mention || s.lists(text, isIdentifier)
	return t
}

// maxUses is how often a word of the language is looked at in one sentence.
const maxUses = 20

// offered reports whether a sentence that names a value offers it.
func (s *subject) offered(text string) bool {
	text = clip(text)
	if s.reserved {
		return askRE.MatchString(text)
	}
	return offerRE.MatchString(text) || riseRE.MatchString(text)
}

// matcher looks for what is found in a sentence by its stems first: most
// sentences hold none of them, and expressions are slow.
type matcher struct{ text, lower string }

func (m *matcher) has(re *pattern, stems ...string) bool {
	if m.lower == "" {
		m.lower = strings.ToLower(m.text)
	}
	for _, s := range stems {
		if strings.Contains(m.lower, s) {
			return re.MatchString(m.text)
		}
	}
	return false
}

func (m *matcher) rise() bool {
	return m.has(riseRE, "escalat", "sandbox", "permission", "access", "mode", "privilege", "right", "权", "模式", "访问", "沙")
}

func (m *matcher) consent() bool {
	return m.has(consentRE, "approv", "consent", "permission", "confirm", "user", "human", "operator", "person",
		"批", "审", "同意", "许可", "授权", "确认", "用户")
}

func (m *matcher) denied() bool {
	return m.has(deniedRE, "den", "block", "refus", "reject", "restrict", "permitted", "forbid", "拒", "阻", "拦", "禁", "允许", "限")
}

// readLimit is how much of one sentence is read for what it says beside names.
// A longer one is no sentence, and must not take long.
const readLimit = 1000

func clip(text string) string {
	if len(text) <= readLimit {
		return text
	}
	n := readLimit
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// tenor says how a sentence hangs together with others.
func (s *subject) tenor(text string) *tenor {
	code := codeSpans(text)
	t := &tenor{}
	for _, c := range code {
		if !s.ours(text[c.start:c.end]) {
			t.foreign = true
			break
		}
	}
	text = clip(text)
	m := matcher{text: text}
	t.rise, t.consent = m.rise(), m.consent()
	t.link = pronounRE.MatchString(text) || m.has(objectRE, "this", "that", "these", "those", "such", "the ") ||
		imperativeRE.MatchString(text) || explainRE.MatchString(text)
	t.denial = m.denied() && (conditionRE.MatchString(text) ||
		(strings.Contains(m.lower, "sandbox") || strings.Contains(text, "沙")) && attemptRE.MatchString(text))
	if m := demonstrativeRE.FindStringSubmatch(text); m != nil && !places[strings.ToLower(m[1])] {
		t.link = true
	}
	return t
}

// ours reports whether a piece of code names a removed field or value.
func (s *subject) ours(code string) bool {
	for _, list := range [...][]string{s.names, s.values} {
		for _, v := range list {
			if len(find(code, v)) > 0 {
				return true
			}
		}
	}
	return s.lists(code, nil)
}

// lists reports whether a text names a value that a removed field listed; only
// those that only accepts, when it is not nil.
func (s *subject) lists(text string, only func(string) bool) (yes bool) {
	if len(s.enums) == 0 {
		return false
	}
	set, odd := s.enumSet.of(s.enums)
	for _, v := range odd {
		if (only == nil || only(v)) && len(find(text, v)) > 0 {
			return true
		}
	}
	tokens(text, func(at int, token string) bool {
		yes = set[token] && (only == nil || only(token))
		return !yes
	})
	return yes
}

// inside reports whether a position lies in one of the zones, which are in
// order.
func inside(zones []span, at int) bool {
	i := sort.Search(len(zones), func(i int) bool { return zones[i].end > at })
	return i < len(zones) && zones[i].start <= at
}

var (
	supplyRE = lazily(`(?i)\b(?:provide|include|supply|give|pass|add|set|fill in|write|state|explain(?: \w+)? in|plus|together with|along with)\s+(?:(?:an?|the|your|its|one|short|brief|clear|concise|one-sentence|one-line|helpful|honest|specific|non-empty|written)\s+){0,4}$`)
	nounRE   = lazily(`(?i)^[\x60"'”’]?\s*(?:parameter|argument|field|option|property|flag|is\b|must\b|should\b|may\b|can\b|=|:|\((?:string|boolean|required|optional))`)
	labelRE  = lazily(`(?i)\b(?:parameter|argument|field|option|property|flag)\s+$`)
)

// namedAsField reports whether a word of the language stands for the field of
// that name: quoted, labelled as a field, or asked for.
func namedAsField(text string, start, end int) bool {
	before, after := text[max(0, start-80):start], text[end:min(len(text), end+40)]
	if start > 0 && strings.IndexByte("`\"'", text[start-1]) >= 0 {
		return true
	}
	// An English word between Chinese ones is a name.
	if l, _ := utf8.DecodeLastRuneInString(strings.TrimRight(before, " ")); unicode.Is(unicode.Han, l) {
		return true
	}
	if r, _ := utf8.DecodeRuneInString(strings.TrimLeft(after, " ")); unicode.Is(unicode.Han, r) {
		return true
	}
	return supplyRE.MatchString(before) || labelRE.MatchString(before) || nounRE.MatchString(after)
}

// documents returns a property that stays and that the sentence names as one,
// or a value that stays beside dead ones. A word of the language (command) must
// stand in backticks or quotes; within a longer piece of code, an example call
// for instance, nothing is documented.
func (s *subject) documents(text string) string {
	if len(s.stay)+len(s.live) == 0 {
		return ""
	}
	set, odd := s.staySet.of(s.stay)
	code := codeSpans(text)
	for _, c := range code {
		in := strings.TrimSpace(strings.Trim(text[c.start:c.end], "`"))
		name := in
		if i := strings.IndexAny(in, ":="); i >= 0 {
			name = in[:i]
		}
		if set[name] && name != "" {
			return name
		}
		if slices.Contains(s.live, strings.Trim(in, `"'`)) {
			return in
		}
	}
	if i := strings.TrimLeft(text, "| \t"); strings.HasPrefix(text, "|") {
		// A table's row is about what its first cell names.
		cell, _, _ := strings.Cut(i, "|")
		if cell = strings.Trim(cell, " \t`*"); set[cell] && cell != "" {
			return cell
		}
	}
	named := func(at int, name string) bool {
		if inside(code, at) {
			return false
		}
		end := at + len(name)
		quoted := at > 0 && end < len(text) && (text[at-1] == '"' || text[at-1] == '\'') && text[end] == text[at-1]
		if quoted && strings.HasPrefix(strings.TrimLeft(text[end+1:], " "), ":") {
			return false // a key in an example
		}
		return quoted || isIdentifier(name) || typeRE.MatchString(text[end:min(len(text), end+16)])
	}
	found := ""
	tokens(text, func(at int, token string) bool {
		if set[token] && named(at, token) || slices.Contains(s.live, token) && isIdentifier(token) && !inside(code, at) {
			found = token
		}
		return found == ""
	})
	for _, name := range odd {
		if found != "" {
			break
		}
		for _, at := range find(text, name) {
			if named(at, name) {
				found = name
				break
			}
		}
	}
	return found
}

// nameSet is a list of names as a set, for a list that comes from the tool and
// may be long; made when it is first asked for. Names that tokens does not give
// as one piece are in odd.
type nameSet struct {
	set  map[string]bool
	odd  []string
	made bool
}

// maxOdd bounds how many odd names are looked for one by one.
const maxOdd = 64

func (n *nameSet) of(list []string) (map[string]bool, []string) {
	if !n.made {
		n.made = true
		n.set = make(map[string]bool, len(list))
		for _, name := range list {
			if n.set[name] {
				continue
			}
			n.set[name] = true
			whole := false
			tokens(name, func(at int, token string) bool {
				whole = len(token) == len(name)
				return false
			})
			if !whole && name != "" && len(n.odd) < maxOdd {
				n.odd = append(n.odd, name)
			}
		}
	}
	return n.set, n.odd
}

// tokens calls f with each word of a text and where it stands, until it returns
// false: letters, digits, underscores, and hyphens between them.
func tokens(text string, f func(at int, token string) bool) {
	from := -1
	for i := 0; i <= len(text); {
		r, size := rune(0), 1
		if i < len(text) {
			r, size = rune(text[i]), 1
			if r >= utf8.RuneSelf {
				r, size = utf8.DecodeRuneInString(text[i:])
			}
		}
		if r != 0 && (isWord(r) || r == '-' && from >= 0) {
			if from < 0 {
				from = i
			}
		} else if from >= 0 {
			if !f(from, strings.TrimRight(text[from:i], "-")) {
				return
			}
			from = -1
		}
		i += size
	}
}

var typeRE = lazily(`^\s\((?:string|number|integer|boolean|array|object|required|optional)\b`)
