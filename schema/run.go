// How far a cut reaches.
//
// The seeds are the sentences about a removed field. From each, the cut grows
// over what hangs on it: forwards over sentences that refer back to it,
// backwards over those that lead in to it, downwards to what it introduces.
// It stops at the first sentence that stands on its own, and never takes one
// that documents a property that stays. Then what the cut left without a
// purpose goes: a colon with nothing after it, a heading with nothing under it.

package schema

import "strings"

// edits is what should leave a text.
type edits struct {
	cuts         []span // at rune boundaries of the decoded text
	declarations []span // cuts within TypeScript
	kept         []remark
}

// layout is what is known of a text before its prose is read.
type layout struct {
	subject *subject
	own     []owned // functions that are declared in it; in order
	opaque  []span  // code without a fence
	scripts []span  // code that is cut line by line, elsewhere
	whole   []span  // of those, what goes as a whole
}

// owned is a function's declaration: the heading section around it is judged
// by what that function loses.
type owned struct {
	at int
	*subject
}

// remark is a sentence that stayed although something spoke against it.
type remark struct{ why, text string }

// edit decides what leaves text. It takes time linear in the text's length.
func edit(text string, s *subject) edits {
	if !s.relevant(text) {
		return edits{}
	}
	return editLayout(text, layout{subject: s})
}

// editLayout is edit for a text that may hold declarations.
func editLayout(text string, l layout) edits {
	relevant := l.subject.relevant(text) || len(l.whole) > 0
	for _, o := range l.own {
		relevant = relevant || o.relevant(text)
	}
	if !relevant {
		return edits{}
	}
	r := run{text: text, subject: l.subject}
	r.blocks, r.units = blocks(text, l.opaque)
	r.assign(l)
	for i := range r.units {
		u := &r.units[i]
		if b := &r.blocks[u.block]; !b.script {
			u.naming = r.about(i).naming(text[u.start:u.end])
		}
	}
	if r.seed() || r.any {
		r.forwards()
		r.backwards()
		r.dangling()
	}
	return r.result()
}

type run struct {
	text    string
	subject *subject
	other   []*subject // by block, nil where it is subject
	blocks  []block
	units   []unit
	any     bool // something is gone from the start
	read    map[reading]*tenor
}

// reading is a sentence and what it is judged by.
type reading struct {
	*subject
	text string
}

// about is the subject that unit i is judged by.
func (r *run) about(i int) *subject {
	if r.other != nil {
		if s := r.other[r.units[i].block]; s != nil {
			return s
		}
	}
	return r.subject
}

// assign marks the blocks that are scripts, and gives each heading section in
// which functions are declared the subject of these functions.
func (r *run) assign(l layout) {
	scripts, whole := l.scripts, l.whole
	for b := range r.blocks {
		blk := &r.blocks[b]
		for len(scripts) > 0 && scripts[0].end <= blk.start {
			scripts = scripts[1:]
		}
		if len(scripts) > 0 && blk.kind == verbatim && scripts[0].start <= blk.start {
			blk.script = true
		}
		for len(whole) > 0 && whole[0].end <= blk.start {
			whole = whole[1:]
		}
		if blk.script && len(whole) > 0 && whole[0].start <= blk.start {
			r.units[blk.units.start].gone, r.any = true, true
		}
	}
	if len(l.own) == 0 {
		return
	}
	r.other = make([]*subject, len(r.blocks))
	own := l.own
	for b := 0; b < len(r.blocks); {
		end := b + 1
		for end < len(r.blocks) && r.blocks[end].kind != heading {
			end++
		}
		stop := len(r.text)
		if end < len(r.blocks) {
			stop = r.blocks[end].start
		}
		var s *subject
		for len(own) > 0 && own[0].at < stop {
			s = s.with(own[0].subject)
			own = own[1:]
		}
		for ; b < end; b++ {
			r.other[b] = s
		}
	}
}

func (r *run) sentence(i int) string { return r.text[r.units[i].start:r.units[i].end] }

// stay is what unit i documents that stays, "" for nothing.
func (r *run) stay(i int) string {
	u := &r.units[i]
	if !u.asked {
		u.asked, u.stays = true, r.about(i).documents(r.sentence(i))
	}
	return u.stays
}

// tenor reads unit i, once.
func (r *run) tenor(i int) *tenor {
	u := &r.units[i]
	if u.tenor == nil {
		// A text that says the same thing over and over is read once.
		key := reading{r.about(i), r.sentence(i)}
		if u.tenor = r.read[key]; u.tenor == nil {
			u.tenor = key.tenor(key.text)
			if r.read == nil {
				r.read = map[reading]*tenor{}
			}
			r.read[key] = u.tenor
		}
	}
	return u.tenor
}

// keep notes why unit i looks like one that should go. It counts if the unit
// stays in the end.
func (r *run) keep(i int, why string) { r.units[i].remark = why }

// seed marks the sentences about a removed field, and the sections whose
// heading is. It reports whether there were any.
func (r *run) seed() bool {
	any := false
	section := -1 // the level of the open section that goes, or -1
	under := 0    // its heading's block
	for i := range r.units {
		u := &r.units[i]
		b := &r.blocks[u.block]
		switch {
		case b.kind == heading && (section < 0 || b.level <= section):
			section = -1
			if u.naming.core && r.stay(i) == "" {
				section, under = b.level, u.block
			}
			if section < 0 && r.rising(i) {
				section, under = b.level, u.block
				u.gone, any = true, true
				continue
			}
		case section == boldLevel && b.kind == paragraph && b.gap && u.block > under+1:
			// A line in bold is a title for what stands directly under it.
			section = -1
		}
		switch {
		case (u.naming.core || section >= 0) && r.stay(i) != "":
			r.keep(i, "kept, since it documents "+r.stay(i)+" too")
		case b.kind == verbatim && (section >= 0 || u.naming.core && r.shows(i)):
			u.gone, any = true, true
		case b.kind == verbatim && u.naming.mention:
			r.keep(i, "kept, since it is code")
		case b.kind == verbatim:
		case u.naming.core || section >= 0:
			u.gone, any = true, true
		case u.naming.mention && (!r.subject.reserved || u.naming.named):
			r.keep(i, "names a removed field or value, but is not about it")
		}
	}
	return any
}

// rising reports whether the heading i is about getting more than the sandbox
// allows and the section below it names a removed field: then the section is
// the manual of that field, whatever else its sentences say.
func (r *run) rising(i int) bool {
	h := &r.blocks[r.units[i].block]
	for j := i + 1; j < len(r.units); j++ {
		b := &r.blocks[r.units[j].block]
		if b.kind == heading {
			// One below it answers for itself.
			return false
		}
		if h.level == boldLevel && b.gap && r.units[j].block > r.units[i].block+1 {
			return false
		}
		if r.units[j].naming.core {
			return riseRE.MatchString(clip(r.sentence(i))) && r.stay(i) == ""
		}
	}
	return false
}

// shows reports whether the code in unit i only shows a removed field: nothing
// in it is the name of a property that stays and could be nothing else.
func (r *run) shows(i int) bool {
	text := r.sentence(i)
	for _, name := range r.about(i).stay {
		if isIdentifier(name) && len(find(text, name)) > 0 {
			return false
		}
	}
	return true
}

// relation is how closely two neighbouring units belong together.
type relation uint8

const (
	separate relation = iota // a heading or a piece of code lies between or is one of them
	apart                    // in different paragraphs
	siblings                 // items of one list, or an item and what it introduces
	together                 // in one block
)

func (r *run) relation(i, j int) relation {
	if r.units[i].block == r.units[j].block {
		return together
	}
	a, b := &r.blocks[r.units[i].block], &r.blocks[r.units[j].block]
	switch {
	case a.kind == heading, b.kind == heading, a.kind == verbatim, b.kind == verbatim:
		return separate
	case a.kind == item && b.kind == item:
		return siblings
	}
	return apart
}

// free reports whether unit i may be pulled in by a neighbour.
func (r *run) free(i int) bool {
	return !r.units[i].gone && r.stay(i) == "" && r.blocks[r.units[i].block].kind <= item
}

// forwards takes what a gone sentence introduces and what refers back to it.
func (r *run) forwards() {
	lost := map[int]bool{} // blocks of which something they lead is gone
	for j := range r.units {
		u := &r.units[j]
		l := r.blocks[u.block].lead
		if u.gone {
			lost[l] = true
			continue
		}
		if l >= 0 && r.closes(l) {
			if r.blocks[u.block].script || r.stay(j) != "" || r.blocks[u.block].kind == verbatim && u.naming.mention {
				r.keep(j, "kept, though the text that introduced it is gone")
			} else {
				u.gone = true
			}
			continue
		}
		if l >= 0 && lost[l] {
			// "This will prompt the user": in a list of steps, the step that
			// is gone, even with another between.
			if t := r.tenor(j); t.link && t.consent && !t.foreign && r.free(j) {
				u.gone = true
				continue
			}
		}
		if j == 0 || !r.units[j-1].gone {
			continue
		}
		t := r.tenor(j)
		var follows bool
		switch r.relation(j-1, j) {
		case together, siblings:
			follows = t.rise || u.naming.mention || !t.foreign && (t.link || t.consent && !r.subject.reserved)
			if !follows && t.link && t.foreign {
				r.keep(j, "kept, though it seems to follow removed text")
			}
		case apart:
			follows = t.rise && !t.foreign
		}
		if !follows {
			continue
		}
		if !r.free(j) {
			r.keep(j, "kept, though it seems to follow removed text")
			continue
		}
		u.gone = true
	}
}

// closes reports whether the last sentence of block l is gone, and with it the
// reason for what l introduces. A fence or paragraph only hangs on a colon; a
// nested item hangs on its parent in any case.
func (r *run) closes(l int) bool {
	us := r.blocks[l].units
	return us.end > us.start && r.units[us.end-1].gone
}

// backwards takes the sentences that only lead in to a gone one. Of those that
// speak of a denial or of consent just the last is taken, for a tool may well
// say on its own account that there is a sandbox.
func (r *run) backwards() {
	mild := false // the gone unit after i was taken for a mild reason
	for i := len(r.units) - 2; i >= 0; i-- {
		u := &r.units[i]
		if u.gone {
			mild = false
			continue
		}
		if !r.units[i+1].gone || !r.free(i) {
			continue
		}
		t := r.tenor(i)
		last := i == r.blocks[u.block].units.end-1
		if last && r.blocks[u.block].led > 0 {
			continue // it introduces a list: dangling decides
		}
		strong := t.rise
		// "In that case …" needs its case, and a case of denial that nothing
		// answers any more is only a warning about what was taken away.
		premise := r.premise(i + 1)
		soft := !mild && !t.foreign && (t.denial || t.consent && !r.subject.reserved || premise && deniedRE.MatchString(clip(r.sentence(i))))
		if premise && !strong && !soft {
			r.keep(i, "kept, though the removed text takes it as its case")
		}
		switch r.relation(i, i+1) {
		case together:
			u.gone = strong || soft
		case siblings:
			u.gone = strong || soft && t.denial
		case apart:
			u.gone = t.rise && !t.foreign
		}
		mild = u.gone && !strong
	}
}

// premise reports whether unit i, which is gone, opens by pointing back.
func (r *run) premise(i int) bool { return premiseRE.MatchString(clip(r.sentence(i))) }

// dangling takes, from the end backwards, what is left without a purpose.
func (r *run) dangling() {
	kept := make([]int, len(r.blocks)) // led blocks that stay
	bound := r.sections()
	next := len(r.blocks) // the first block after b that stays
	var stay []int        // all of them, the first one last
	for b := len(r.blocks) - 1; b >= 0; b-- {
		blk := &r.blocks[b]
		us := r.units[blk.units.start:blk.units.end]
		if blk.kind == heading {
			if next >= bound[b] && b+1 < bound[b] && r.stay(blk.units.start) == "" {
				us[0].gone = true
			}
		} else {
			// A colon with nothing left to introduce, in the block or below.
			for i := len(us) - 1; i >= 0; i-- {
				if us[i].gone {
					continue
				}
				emptied := i+1 < len(us) || blk.led > 0
				if !emptied || kept[b] > 0 || !hasColon(r.sentence(blk.units.start+i)) || r.stay(blk.units.start+i) != "" {
					break
				}
				us[i].gone = true
			}
		}
		if blk.row && r.header(b) {
			us[0].gone = true
		}
		if r.opening(b, next) {
			us[0].gone = true
			r.units[r.blocks[next].units.start].gone = true
			stay = stay[:len(stay)-1]
			next = len(r.blocks)
			if n := len(stay); n > 0 {
				next = stay[n-1]
			}
		}
		if r.stays(b) {
			next = b
			stay = append(stay, b)
			if blk.lead >= 0 {
				kept[blk.lead]++
			}
		}
	}
}

// header reports whether row b heads a table of which all that is left are
// this row and the rule below it, or is that rule.
func (r *run) header(b int) bool {
	rule := func(i int) bool {
		return i < len(r.blocks) && r.blocks[i].row && strings.Trim(r.sentence(r.blocks[i].units.start), " \t|:-") == ""
	}
	if !rule(b) {
		return rule(b+1) && !r.stays(b+1)
	}
	rows := 0
	for at := b + 1; at < len(r.blocks) && r.blocks[at].row && !r.blocks[at].gap; at++ {
		if r.stays(at) {
			return false
		}
		rows++
	}
	return rows > 0 && b > 0 && r.blocks[b-1].row
}

// opening reports whether block b is a tag on its line, next is the one that
// closes it, and what stood between them is gone.
func (r *run) opening(b, next int) bool {
	if next >= len(r.blocks) || next == b+1 || r.blocks[b].kind != verbatim || r.blocks[next].kind != verbatim {
		return false
	}
	open := tagRE.FindStringSubmatch(r.sentence(r.blocks[b].units.start))
	shut := tagRE.FindStringSubmatch(r.sentence(r.blocks[next].units.start))
	return open != nil && shut != nil && open[1] == "" && shut[1] == "/" && open[2] == shut[2]
}

// sections returns, for each heading, the index after its section's last block.
func (r *run) sections() []int {
	bound := make([]int, len(r.blocks))
	var open []int
	for b := range r.blocks {
		if r.blocks[b].kind != heading {
			continue
		}
		for len(open) > 0 && r.blocks[open[len(open)-1]].level >= r.blocks[b].level {
			bound[open[len(open)-1]] = b
			open = open[:len(open)-1]
		}
		open = append(open, b)
	}
	for _, b := range open {
		bound[b] = len(r.blocks)
	}
	return bound
}

// stays reports whether anything of block b is left.
func (r *run) stays(b int) bool {
	us := r.blocks[b].units
	for i := us.start; i < us.end; i++ {
		if !r.units[i].gone {
			return true
		}
	}
	return us.start == us.end
}

// result turns gone units into cuts whose seams are clean: one separator stays
// where two stood, a marker goes with its item, and the text neither starts nor
// ends with white space that it did not have.
func (r *run) result() edits {
	var e edits
	for i := range r.units {
		u := &r.units[i]
		if u.remark != "" && !u.gone {
			e.kept = append(e.kept, remark{u.remark, r.sentence(i)})
		}
	}
	prev := -1 // the last block that stays
	lost := false
	for b := range r.blocks {
		blk := &r.blocks[b]
		if !r.stays(b) {
			lost = true
			continue
		}
		if lost {
			e.cuts = append(e.cuts, r.seam(prev, b))
			lost = false
		}
		prev = b
		r.within(blk, &e)
	}
	switch {
	case lost && prev < 0:
		e.cuts = append(e.cuts, span{0, len(r.text)})
	case lost:
		e.cuts = append(e.cuts, span{r.blocks[prev].end, r.blocks[len(r.blocks)-1].end})
	}
	return e
}

// within cuts the gone units of a block that stays.
func (r *run) within(b *block, e *edits) {
	us := r.units[b.units.start:b.units.end]
	for i := 0; i < len(us); {
		if !us[i].gone {
			i++
			continue
		}
		first := i
		for i < len(us) && us[i].gone {
			i++
		}
		if i < len(us) {
			// Of the separators before and after, the line break remains.
			if first > 0 && !strings.Contains(r.text[us[first-1].end:us[first].start], "\n") && strings.Contains(r.text[us[i-1].end:us[i].start], "\n") {
				e.cuts = append(e.cuts, span{us[first-1].end, us[i-1].end})
			} else {
				e.cuts = append(e.cuts, span{us[first].start, us[i].start})
			}
		} else {
			e.cuts = append(e.cuts, span{us[first-1].end, us[i-1].end})
		}
	}
}

// seam cuts the blocks between two that stay (prev is -1 at the start). Of the
// separators before and after them the one with more line breaks remains.
func (r *run) seam(prev, next int) span {
	to := r.blocks[next].start
	if prev < 0 {
		return span{r.blocks[0].start, to}
	}
	from := r.blocks[prev].end
	before := r.blocks[prev+1].start - from
	after := to - r.blocks[next-1].end
	lines := func(at, n int) int { return strings.Count(r.text[at:at+n], "\n") }
	if lines(from, before) >= lines(to-after, after) {
		return span{from + before, to}
	}
	return span{from, to - after}
}
