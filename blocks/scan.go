package blocks

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// An edge is a boundary between two units of a text, in code points: the unit's
// content ends at content, the white space after it, which belongs to it too, at
// end (BR-018).
type edge struct {
	content, end int
	// sure is false for a boundary that could not be decided and is used because
	// the unit would not fit in a block otherwise.
	sure bool
}

// A held edge stands inside an enclosure and counts only if that does not bind.
type held struct {
	edge
	depth int
}

// How many enclosures inside one another are told apart.
const maxDepth = 16

// scanner finds the edges of a text in one pass. An enclosure (brackets, quoted
// words, a line with the list that it governs) binds what it holds when it closes
// before its paragraph ends and the unit fits in a block; else it does not bind.
type scanner struct {
	text  string
	i, n  int // the next code point: byte, index
	edges []edge
	from  int // where the open unit starts
	line  line
	began int // byte where the open line starts
	open  [maxDepth]rune
	depth int
	held  []held // ordered by depth and by place
	soft  []edge // undecided, ordered by place
	known fences
	over  bool // the end of the text was taken
}

// Enclosures without a mark of their own.
const (
	governing rune = -1 - iota // a line and the list that it governs
	whole                      // a heading, a row of a table
)

// edges returns the boundaries of a text that is valid UTF-8, in order. The last
// one is the end of the text. They depend on the text alone.
func edges(text string) []edge {
	s := newScanner(text)
	s.scan(len(text) + 1)
	return s.edges
}

func newScanner(text string) *scanner {
	s := &scanner{text: text, edges: make([]edge, 0, len(text)/48+1)}
	s.begin(s.known.look(text, 0))
	return s
}

// scan goes on until an edge is known that ends at an index or behind it, or the text
// is over. What is known then, more text does not change.
func (s *scanner) scan(to int) {
	for !s.over && (len(s.edges) == 0 || s.edges[len(s.edges)-1].end < to) {
		if s.i == len(s.text) {
			s.finish()
			return
		}
		r, m, size := markAt(s.text, s.i)
		switch m {
		case plain:
			s.i += size
			s.n++
		case halfStop, fullStop, dots:
			s.stop()
		case lineBreak:
			content := s.trimmed()
			s.fits(content)
			s.settle(content, false)
		case opener:
			s.step(size)
			s.enclose(r)
		case closer:
			s.fits(s.n + 1)
			s.step(size)
			s.close(opens(r))
		case straight:
			s.toggle(r)
		}
	}
}

// finish takes the end of the text.
func (s *scanner) finish() {
	content := s.trimmed()
	s.fits(content)
	s.release()
	s.emit(edge{content, s.n, true})
	s.over = true
}

func (s *scanner) step(size int) {
	s.i += size
	s.n++
}

// jump goes on to a byte further on.
func (s *scanner) jump(to int) {
	s.n += utf8.RuneCountInString(s.text[s.i:to])
	s.i = to
}

// trimmed returns the index at which the content before the scanner ends, white
// space left out.
func (s *scanner) trimmed() int {
	return s.n - trailing(s.text[:s.i])
}

// trailing counts the code points of white space at the end of text.
func trailing(text string) int {
	n := 0
	for len(text) > 0 {
		r, size := utf8.DecodeLastRuneInString(text)
		if !unicode.IsSpace(r) {
			break
		}
		text = text[:len(text)-size]
		n++
	}
	return n
}

// stop takes a run of marks that can end a sentence.
func (s *scanner) stop() {
	at := stopAt(s.text, s.i)
	// Closing marks after the stop close what it stands in.
	for s.i < at.content {
		r, m, size := markAt(s.text, s.i)
		s.step(size)
		switch m {
		case closer, straight:
			s.fits(s.n)
			s.close(opens(r))
		}
	}
	s.fits(s.n)
	content := s.n
	if at.verdict == inside {
		return
	}
	if at.broken {
		s.jump(at.next)
		s.settle(content, at.verdict == ended)
		return
	}
	if at.next == len(s.text) {
		return
	}
	s.jump(at.next)
	s.put(edge{content, s.n, at.verdict == ended})
}

// put takes an edge that an enclosure can hold back.
func (s *scanner) put(e edge) {
	switch {
	case !e.sure:
		s.soft = append(s.soft, e)
	case s.depth > 0:
		s.held = append(s.held, held{e, s.depth})
	default:
		s.emit(e)
	}
}

// emit publishes an edge. A new unit starts at its end.
func (s *scanner) emit(e edge) {
	s.edges = append(s.edges, e)
	s.from = e.end
	kept := 0
	for kept < len(s.soft) && s.soft[kept].end <= e.end {
		kept++
	}
	s.soft = append(s.soft[:0], s.soft[kept:]...)
}

func (s *scanner) enclose(r rune) {
	if s.depth < maxDepth {
		s.open[s.depth] = r
		s.depth++
	}
}

// close ends the innermost enclosure that r opened, with those inside it. What it
// held is bound.
func (s *scanner) close(r rune) {
	for d := s.depth - 1; d >= 0; d-- {
		if s.open[d] == r {
			s.depth = d
			s.bind()
			return
		}
	}
}

// bind forgets the edges of enclosures that are closed.
func (s *scanner) bind() {
	for len(s.held) > 0 && s.held[len(s.held)-1].depth > s.depth {
		s.held = s.held[:len(s.held)-1]
	}
}

// toggle takes a mark that opens and closes alike.
func (s *scanner) toggle(r rune) {
	for d := range s.depth {
		if s.open[d] == r {
			s.fits(s.n + 1)
			s.step(1)
			s.close(r)
			return
		}
	}
	before, _ := utf8.DecodeLastRuneInString(s.text[:s.i])
	s.step(1)
	if s.i == 1 || unicode.IsSpace(before) || markOf(before) == opener || r == '`' {
		s.enclose(r)
	}
}

// unbind takes the outermost enclosure away: its edges count.
func (s *scanner) unbind() {
	copy(s.open[:], s.open[1:s.depth])
	s.depth--
	kept := 0
	for kept < len(s.held) && s.held[kept].depth == 1 {
		s.emit(s.held[kept].edge)
		kept++
	}
	s.held = append(s.held[:0], s.held[kept:]...)
	for i := range s.held {
		s.held[i].depth--
	}
}

// release ends every enclosure where a paragraph ends: a row has reached its end, a
// list is bound to its line, whatever else is open does not bind.
func (s *scanner) release() {
	s.close(whole)
	s.close(governing)
	for s.depth > 0 {
		s.unbind()
	}
}

// fits makes the open unit fit in a block if it is to reach at least to content:
// first enclosures stop binding, then an undecided edge is taken. What is left
// will be cut by force.
func (s *scanner) fits(content int) {
	for content-s.from > MaxLen {
		if s.depth > 0 {
			s.unbind()
			continue
		}
		last := -1
		for k := range s.soft {
			if e := s.soft[k]; e.content > s.from && e.end <= s.from+MaxLen {
				last = k
			}
		}
		if last < 0 {
			s.from += MaxLen
			continue
		}
		s.emit(s.soft[last])
	}
}

// settle decides a line break, with the scanner at the end of a line whose content
// ends at the index content. stopped says that a sentence ended there.
func (s *scanner) settle(content int, stopped bool) {
	body := s.text[s.began:s.i]
	next, gap := s.skip()
	s.jump(next.start)
	e := edge{content, s.n, true}
	past := s.line
	switch {
	case s.i == len(s.text):
		s.began = s.i
		return
	case s.open[0] == governing && s.depth > 0:
		if next.kind == item {
			s.inner()
			s.put(e)
		} else if gap || next.indent == 0 || next.kind != prose {
			s.release()
			s.emit(e)
		} else {
			s.put(edge{content, s.n, stopped})
		}
	case next.kind == item && !stopped && past.kind != fence && governs(body):
		s.release()
		s.enclose(governing)
		s.put(e)
	case gap, next.kind == item, next.kind.separate(), past.kind.separate(), (next.kind == quote) != (past.kind == quote):
		s.release()
		s.emit(e)
	default:
		s.put(edge{content, s.n, stopped})
	}
	s.begin(next)
}

// inner takes the enclosures inside a governing line away: an item ends them.
func (s *scanner) inner() {
	s.depth = 1
	for i := range s.held {
		s.held[i].depth = 1
	}
}

// skip looks past the line break and the blank and drawn lines after it. gap says
// that there were any.
func (s *scanner) skip() (next line, gap bool) {
	i := s.i
	for {
		next = s.known.look(s.text, i+1)
		if next.kind != blank && next.kind != rule {
			return next, gap
		}
		end := strings.IndexByte(s.text[next.start:], '\n')
		if end < 0 {
			next.start = len(s.text)
			return next, true
		}
		gap = true
		i = next.start + end
	}
}

// begin enters a line, and passes a fence as a whole: its lines are undecided.
func (s *scanner) begin(l line) {
	if s.i < l.start {
		s.jump(l.start)
	}
	s.line, s.began = l, s.i
	if l.kind == row || l.kind == heading {
		s.enclose(whole)
	}
	for l.kind == fence && s.i < l.end {
		next := strings.IndexByte(s.text[s.i:l.end], '\n')
		if next < 0 {
			s.jump(l.end)
			s.fits(s.n)
			return
		}
		s.jump(s.i + next)
		content := s.n
		for next = s.i; next < l.end && s.text[next] == '\n'; {
			next, _ = indented(s.text, next+1)
		}
		s.jump(next)
		s.fits(content)
		s.put(edge{content, s.n, false})
	}
}

// governs reports whether a line ends with a colon and states a condition or a
// negation, for the list below it (BR-013).
func governs(body string) bool {
	body = strings.TrimRightFunc(body, unicode.IsSpace)
	return (strings.HasSuffix(body, ":") || strings.HasSuffix(body, "：")) && holds(body, governors)
}
