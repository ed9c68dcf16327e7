package lexical

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// maxTurns is the most changes between letters and digits that are places to
// split at; a part with more is a digest or a key, and stays whole.
const maxTurns = 6

// compound emits an identifier, path, version, address or error string whole,
// then the segments between its outer separators, then their parts between
// dots, hyphens and underscores, then the words that camelCase and digits
// divide those into. A form that equals the one it is part of is not repeated.
func (a *Analyser) compound(s string) {
	if word, ok := initials(s); ok {
		a.word(word)
		return
	}
	a.whole(s)
	eachPart(s, outer, func(segment string) {
		if len(segment) < len(s) && shapeOf(segment) == shapeCompound {
			a.whole(segment)
		}
		eachPart(segment, inner, func(part string) {
			a.part(part, len(part) < len(s), len(part) < len(segment))
		})
	})
}

// initials returns the letters of a compound that is letters and single dots in
// turn, such as U.S.A or e.g.
func initials(s string) (word string, ok bool) {
	if len(s) < 3 || len(s)%2 == 0 || len(s) > 15 {
		return "", false
	}
	var letters [8]byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case i%2 == 1 && c != '.', i%2 == 0 && (c|0x20 < 'a' || c|0x20 > 'z'):
			return "", false
		case i%2 == 0:
			letters[i/2] = c
		}
	}
	return string(letters[:(len(s)+1)/2]), true
}

// whole emits a compound as one term unless it is too long to be one.
func (a *Analyser) whole(s string) {
	w := a.fold.folded(s)
	if bytes.IndexByte(w, 0xE2) >= 0 {
		w = bytes.ReplaceAll(w, []byte("’"), []byte("'"))
	}
	if len(w) <= MaxTerm {
		a.seen = s
		a.emit(w)
	}
}

// part emits the part of a compound that has no separator in it. isPart says
// that it is shorter than the compound, fresh that it is shorter than the
// segment, whose form was emitted already when it was a compound itself.
func (a *Analyser) part(s string, isPart, fresh bool) {
	words := 0
	eachWord(s, func(string) { words++ })
	if words <= 1 {
		if isPart {
			a.piece(s)
		}
		return
	}
	if isPart && fresh {
		a.whole(s)
	}
	eachWord(s, a.piece)
}

// piece emits one word or number of a compound. A single letter says nothing.
func (a *Analyser) piece(s string) {
	if len(s) == 1 && (s[0] < '0' || s[0] > '9') {
		return
	}
	a.seen = s
	a.stemmed(a.fold.folded(s))
}

// eachPart calls f with every part of s between separators, trimmed of edge
// punctuation.
func eachPart(s string, separator func(rune) bool, f func(string)) {
	start := 0
	give := func(end int) {
		if core, _ := trim(s[start:end]); core != "" {
			f(core)
		}
	}
	for i, r := range s {
		if separator(r) {
			give(i)
			start = i + utf8.RuneLen(r)
			if r == utf8.RuneError {
				start = i + 1
			}
		}
	}
	give(len(s))
}

// inner reports the separators inside one name.
func inner(r rune) bool {
	switch r {
	case '.', '-', '_', hyphen:
		return true
	}
	return outer(r)
}

// outer reports the separators between names.
func outer(r rune) bool {
	switch r {
	case '.', '-', '_', hyphen:
		return false
	}
	return !wordRune(r) && !invisible(r)
}

// eachWord calls f with the words that camelCase and changes between letters and
// digits divide s into: "parseHTTPBody2" is parse, HTTP, Body, 2.
func eachWord(s string, f func(string)) {
	turns := 0
	var before rune
	for i, r := range s {
		if i > 0 && digit(before) != digit(r) {
			turns++
		}
		before = r
	}
	if turns > maxTurns {
		f(s)
		return
	}
	start := 0
	var p, pp rune // the code points before r
	at, n := 0, 0
	for i, r := range s {
		if n > 0 {
			switch {
			case digit(p) != digit(r), lower(p) && upper(r):
				f(s[start:i])
				start = i
			case n > 1 && upper(pp) && upper(p) && lower(r) && at > start:
				f(s[start:at])
				start = at
			}
		}
		pp, p, at = p, r, i
		n++
	}
	f(s[start:])
}

func digit(r rune) bool { return '0' <= r && r <= '9' || r >= utf8.RuneSelf && unicode.IsDigit(r) }
