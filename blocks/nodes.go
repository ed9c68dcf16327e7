package blocks

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"recalld/memory"
)

// Nodes returns consecutive spans of a text that fit an embedding window each
// (RR-092). A text that fits is one node; an empty one has none. A node reaches as
// far as the window allows and ends at the last end of a paragraph before that,
// else of a line, else of a sentence, else of white space; an end that leaves less
// than half is not taken; with none, the window's last code point is the end, moved
// to before a character made of several.
//
// Count returns the number of tokens of each text, in order; window is a number of
// tokens, at least 1. Every node's own text is counted, so a node has more tokens
// than the window only when it is a single code point. Where more text never has
// fewer tokens, a node is the longest that its boundary allows; the same answers
// give the same nodes.
//
// Errors: [ErrInvalidText]; a window below 1; what count returns, or answers of
// another number than the texts.
func Nodes(text string, window int, count func(texts []string) ([]int, error)) ([]memory.Span, error) {
	switch {
	case !utf8.ValidString(text):
		return nil, ErrInvalidText
	case window < 1:
		return nil, fmt.Errorf("window: %d tokens, expected at least 1", window)
	case text == "":
		return nil, nil
	}
	d := divider{text: text, window: window, ask: count, n: memory.Len(text)}
	tokens, err := d.count(text)
	if err != nil {
		return nil, err
	}
	if tokens[0] <= window {
		return []memory.Span{{Start: 0, End: d.n}}, nil
	}
	d.tokens = tokens[0]
	d.at = make([]int, 0, d.n+1)
	for i := range text {
		d.at = append(d.at, i)
	}
	d.at = append(d.at, len(text))
	var nodes []memory.Span
	for start := 0; start < d.n; {
		end, err := d.next(start)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, memory.Span{Start: start, End: end})
		start = end
	}
	return nodes, nil
}

// divider looks for the ends of nodes with few questions.
type divider struct {
	text   string
	window int
	ask    func([]string) ([]int, error)
	n      int   // code points of the text
	tokens int   // of the whole text
	at     []int // byte of each code point, and of the end
}

func (d *divider) count(texts ...string) ([]int, error) {
	tokens, err := d.ask(texts)
	if err != nil {
		return nil, fmt.Errorf("count tokens: %w", err)
	}
	if len(tokens) != len(texts) {
		return nil, fmt.Errorf("count tokens: %d answers for %d texts", len(tokens), len(texts))
	}
	return tokens, nil
}

// slice returns the code points [start, end).
func (d *divider) slice(start, end int) string { return d.text[d.at[start]:d.at[end]] }

// next returns where the node that begins at start ends.
func (d *divider) next(start int) (int, error) {
	fits, tokens := start, 0 // the longest prefix known to fit
	limit, over := d.n+1, 0  // the shortest known not to; beyond the text: none
	for round := 0; ; round++ {
		end, done := d.decided(start, fits, limit)
		if done && (end == fits || end == start+1) {
			return end, nil
		}
		if done {
			// A tokeniser may make more of a part than of the whole.
			own, err := d.count(d.slice(start, end))
			if err != nil || own[0] <= d.window {
				return end, err
			}
			fits, tokens, limit, over = start, 0, end, own[0]
			continue
		}
		low, high := d.probes(start, fits, limit, tokens, over, round)
		texts := []string{d.slice(start, low)}
		if high > low {
			texts = append(texts, d.slice(start, high))
		}
		answers, err := d.count(texts...)
		if err != nil {
			return 0, err
		}
		for i, end := range []int{low, high}[:len(texts)] {
			switch {
			case answers[i] > d.window && end < limit:
				limit, over = end, answers[i]
			case answers[i] <= d.window && end > fits && end < limit:
				fits, tokens = end, answers[i]
			}
		}
	}
}

// decided returns the node's end when what is known settles it.
func (d *divider) decided(start, fits, limit int) (end int, done bool) {
	switch {
	case fits == d.n:
		return d.n, true
	case limit == fits+1:
		end, class := d.boundary(start, max(fits, start+1))
		if class == hard {
			end = d.whole(start, end)
		}
		return end, true
	case limit > d.n || fits == start || limit-1-start > 2*(fits-start):
		return 0, false
	}
	// The window closes in [fits, limit-1]: where exactly matters only if it moves
	// the boundary.
	end, class := d.boundary(start, fits)
	last, _ := d.boundary(start, limit-1)
	return end, class != hard && end == last
}

// probes chooses two prefixes to count. While little is known they stand around the
// place where the window should close, every third time in the middle, so that an
// odd tokeniser cannot keep the search from ending. Then they are the middle and the
// boundary that would be taken if the window closed as late as it can.
func (d *divider) probes(start, fits, limit, tokens, over, round int) (low, high int) {
	if limit <= d.n && fits > start {
		middle := (fits + limit) / 2
		if end, _ := d.boundary(start, limit-1); end > fits {
			return min(middle, end), max(middle, end)
		}
	}
	guess := 0
	switch {
	case round%3 == 2:
		guess = (fits + min(limit, d.n+1)) / 2
	case limit <= d.n && over > tokens:
		guess = fits + muldiv(limit-fits, d.window-tokens, over-tokens)
	default:
		guess = fits + muldiv(d.n, d.window-tokens, d.tokens)
	}
	near := max(1, (guess-start)/24)
	if round%3 == 2 {
		near = 0
	}
	inside := func(p int) int { return max(fits+1, min(p, limit-1, d.n)) }
	return inside(guess - near), inside(guess + near)
}

// muldiv returns a*b/c for counts whose product may exceed 31 bits.
func muldiv(a, b, c int) int { return int(int64(a) * int64(b) / int64(max(c, 1))) }

// Classes of a node's end, better ones higher.
type nodeEnd int

const (
	hard nodeEnd = iota
	afterSpace
	afterSentence
	afterLine
	afterParagraph
	nodeEnds
)

// boundary returns the best end of a node that may reach from start to at most
// reach.
func (d *divider) boundary(start, reach int) (end int, class nodeEnd) {
	from := start + (reach-start+1)/2
	var last [nodeEnds]int
	k, i := start, d.at[start]
	for i < d.at[reach] {
		class, to := d.gap(i, d.at[reach])
		if to == i {
			_, size := utf8.DecodeRuneInString(d.text[i:])
			i += size
			k++
			continue
		}
		k += utf8.RuneCountInString(d.text[i:to])
		i = to
		if class > hard && k >= from && k <= reach {
			last[class] = k
		}
	}
	for class := afterParagraph; class > hard; class-- {
		if last[class] > 0 {
			return last[class], class
		}
	}
	return reach, hard
}

// gap looks for the end of a unit in what starts at byte i, no further than byte
// reach: white space, or marks that end a sentence with the white space after them.
// It returns the byte where the next unit starts; i itself when none ends.
func (d *divider) gap(i, reach int) (class nodeEnd, to int) {
	marks := i
	for marks < reach {
		_, m, size := markAt(d.text, marks)
		if m != halfStop && m != fullStop && m != dots {
			break
		}
		marks += size
	}
	to = i
	if marks > i {
		if marks == reach {
			return hard, marks
		}
		stop := stopAt(d.text, i)
		if stop.verdict != ended {
			return hard, marks
		}
		class, to = afterSentence, stop.content
	}
	lines := 0
	for to < reach {
		r, size := utf8.DecodeRuneInString(d.text[to:])
		if !unicode.IsSpace(r) {
			break
		}
		if r == '\n' {
			lines++
		}
		class = max(class, afterSpace)
		to += size
	}
	if lines > 0 {
		class = max(class, min(afterLine+nodeEnd(lines-1), afterParagraph))
	}
	if to < len(d.text) && extendsAt(d.text, to) {
		class = hard
	}
	return class, to
}

// The most code points that a hard end moves back to keep a character whole.
const characterReach = 32

// whole moves a hard end to before the character that it would divide, unless
// nothing would be left.
func (d *divider) whole(start, end int) int {
	for k := end; k > start && k > end-characterReach; k-- {
		if k == d.n || !d.joined(k) {
			return k
		}
	}
	return end
}

// joined reports whether the code points at k-1 and k are one character.
func (d *divider) joined(k int) bool {
	before, _ := utf8.DecodeLastRuneInString(d.text[:d.at[k]])
	after, _ := utf8.DecodeRuneInString(d.text[d.at[k]:])
	if flag(before) && flag(after) {
		n := 0
		for i := k - 1; i >= 0 && n < characterReach; i-- {
			if r, _ := utf8.DecodeRuneInString(d.text[d.at[i]:]); !flag(r) {
				break
			}
			n++
		}
		return n%2 == 1
	}
	return extends(after) || before == 0x200D || before == '\r' && after == '\n'
}

// flag reports the letters of which two make a flag.
func flag(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }
