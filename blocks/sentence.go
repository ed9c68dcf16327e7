package blocks

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A verdict says what a mark that can end a sentence does.
type verdict uint8

const (
	inside    verdict = iota // ends nothing: a decimal, a URL, a quotation that goes on
	undecided                // may end a sentence; the larger unit is kept (BR-015)
	ended                    // ends the sentence
)

// A stop is a run of marks that can end a sentence, with everything that belongs
// to them. Offsets are bytes.
type stop struct {
	marks   int // end of the marks themselves
	content int // end of the closing marks and pictographs after them
	next    int // end of the white space after those; where a line ends, its end
	broken  bool
	verdict verdict
}

// A window into the text before and after a stop is all that a rule looks at.
const lookBehind, lookAhead = 48, 240

// stopAt judges the mark at byte i.
func stopAt(text string, i int) stop {
	s := stop{marks: i}
	var first, last mark
	single := 0
	for s.marks < len(text) {
		_, m, size := markAt(text, s.marks)
		if m != halfStop && m != fullStop && m != dots {
			break
		}
		if s.marks == i {
			first = m
		}
		last = m
		single++
		s.marks += size
	}
	quoted := false
	s.content, quoted = closers(text, s.marks)
	s.next, s.broken = spaces(text, s.content)
	if s.next > s.content && !s.broken || s.next == s.content && s.next < len(text) {
		if end := pictographs(text, s.next); end > s.next {
			if after, broken := spaces(text, end); after > end || broken || after == len(text) {
				s.content, s.next, s.broken = end, after, broken
			}
		}
	}
	after := text[s.next:min(len(text), s.next+lookAhead)]
	adjacent := s.next == s.content && !s.broken && s.next < len(text)
	switch {
	case s.next == len(text):
		s.verdict = ended
	case extendsAt(text, s.next) && !s.broken:
		s.verdict = inside
	case adjacent:
		s.verdict = touching(text, s, last, quoted)
	case first == halfStop && single == 1 && text[i] == '.':
		s.verdict = afterPeriod(text, i, after, s.broken)
	case text[i] == '.' || first == dots:
		s.verdict = unlessLower(after, s.broken)
	default:
		s.verdict = ended
		if quoted {
			s.verdict = unlessLower(after, s.broken)
		}
	}
	if s.verdict != ended || s.next == len(text) {
		return s
	}
	if dependent(text[max(0, i-lookBehind):i], after, quoted, s.broken) {
		s.verdict = undecided
	}
	return s
}

// closers returns where the closing marks and emphasis from byte i on end, and
// whether one of them closes quoted words.
func closers(text string, i int) (end int, quoted bool) {
	for i < len(text) {
		r, m, size := markAt(text, i)
		switch {
		case m == closer, m == straight, r == '\'':
			quoted = quoted || quoting(r)
		case r != '*' && r != '_' && r != '~':
			return i, quoted
		}
		i += size
	}
	return i, quoted
}

// pictographs returns where a run of pictographs that starts at byte i ends.
func pictographs(text string, i int) int {
	end := i
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if !emoji(r) && (end == i || !extends(r)) {
			break
		}
		end += size
	}
	return end
}

// touching judges marks that the next character follows without white space.
func touching(text string, s stop, last mark, quoted bool) verdict {
	r, _ := utf8.DecodeRuneInString(text[s.next:])
	switch {
	case last == fullStop && strings.HasSuffix(text[:s.marks], "．") && (unicode.IsDigit(r) || r >= 'Ａ' && r <= 'ｚ'):
		return inside
	case last != fullStop && !eastAsian(r), last == dots && !quoted:
		return inside
	case last == halfStop && text[s.marks-1] == '.', goesOn(text[s.next:], s.content > s.marks):
		return undecided
	}
	return ended
}

// goesOn reports whether a sentence goes on after marks that nothing separates from
// it: 「…。」を after closing marks, ！と叫んだ without.
func goesOn(after string, closed bool) bool {
	if closed {
		return starts(after, continuations) > 0
	}
	return starts(after, reporting) > 0 && holds(prefix(after, speechReach(after)), speech)
}

// afterPeriod judges one full stop at byte i with white space after it.
func afterPeriod(text string, i int, after string, broken bool) verdict {
	word, before := lastWord(text[max(0, i-lookBehind):i])
	switch {
	case word == "":
	case listNumber(word) && freshStart(before):
		return inside
	case equals(word, abbreviations):
		return undecided
	case equals(word, numbered) && after != "" && after[0] >= '0' && after[0] <= '9':
		return undecided
	case initials(word):
		return undecided
	}
	return unlessLower(after, broken)
}

// unlessLower is undecided before a lower-case letter: the sentence may go on. On
// a new line it does not.
func unlessLower(after string, broken bool) verdict {
	if r, _ := utf8.DecodeRuneInString(after); !broken && unicode.IsLower(r) {
		return undecided
	}
	return ended
}

// dependent reports whether what stands after a sentence end belongs to what
// stands before it: a condition and its consequence, an exception, quoted words
// and the verb that they are the object of (BR-013).
func dependent(before, after string, quoted, broken bool) bool {
	if !broken && ends(before, conditions) {
		return true
	}
	fragment, reported := starts(after, fragments) > 0, quoted && !broken
	if !fragment && !reported {
		return false
	}
	clause := after
	if end := strings.IndexAny(after, ".!?\n。！？"); end >= 0 {
		clause = after[:end]
	}
	return fragment && !strings.ContainsAny(clause, ",、，") || reported && holds(prefix(clause, speechReach(clause)), speech)
}

// speechReach is how many code points after a quotation its verb is looked for.
func speechReach(clause string) int {
	if clause != "" && clause[0] < utf8.RuneSelf {
		return 32
	}
	return 8
}

// prefix returns at most n code points of text.
func prefix(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// lastWord returns the word that text ends with, dots inside it included, and what
// stands before it. Text may start inside a character.
func lastWord(text string) (word, before string) {
	i := len(text)
	for i > 0 && text[i-1] < utf8.RuneSelf && (letterAt(text, i-1) || text[i-1] == '.') {
		i--
	}
	return text[i:], text[:i]
}

// listNumber reports at most three digits.
func listNumber(word string) bool {
	if len(word) > 3 {
		return false
	}
	for i := range len(word) {
		if word[i] < '0' || word[i] > '9' {
			return false
		}
	}
	return true
}

// freshStart reports whether a unit starts after what stands before it: a number
// there counts an item.
func freshStart(before string) bool {
	before = strings.TrimRight(before, " \t\n\r　")
	return before == "" || strings.IndexByte(".:;!?,)", before[len(before)-1]) >= 0 ||
		strings.HasSuffix(before, "：") || strings.HasSuffix(before, "。") || strings.HasSuffix(before, "；")
}

// initials reports single letters with dots between them: J, U.S
func initials(word string) bool {
	for i := range len(word) {
		if letter := i%2 == 0; letter != (lower(word[i]) >= 'a' && lower(word[i]) <= 'z') || !letter && word[i] != '.' {
			return false
		}
	}
	return len(word)%2 == 1
}

// extendsAt reports whether the code point at byte i belongs to the one before it.
func extendsAt(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return extends(r)
}
