package lexical

import (
	"strconv"
	"strings"
	"time"
)

// MaxQueryTerms is the most distinct terms of a query that are looked for; of a
// longer query the first count and the answer says so.
const MaxQueryTerms = 64

// QueryTerm is one distinct term of a query.
type QueryTerm struct {
	Term  string // as in the index
	Shown string // as a reader knows it: the word of the query, or the date meant
	// Prefix says that every term that begins with Term is meant. It is set for one
	// character of a script without spaces, which is the start of a bigram wherever
	// it is not the end of a run.
	Prefix bool
}

// matches reports whether a term of a text is one that the query means.
func (q QueryTerm) matches(term string) bool {
	return term == q.Term || q.Prefix && strings.HasPrefix(term, q.Term)
}

// Terms returns the distinct terms of a query in the order in which they first
// occur, at most MaxQueryTerms, and whether there were more. Text and query go
// through the same analyser; only of a run of Han, kana or Hangul of two or more
// characters a query takes the bigrams alone.
func Terms(query string) (terms []QueryTerm, truncated bool) {
	a := NewAnalyser()
	a.query = true
	a.Append(nil, query)
	for id := range a.Len() {
		if id == MaxQueryTerms {
			return terms, true
		}
		term := a.Term(TermID(id))
		shown := a.shown[id]
		if IsDateWord(term) {
			shown = showDate(term)
		}
		terms = append(terms, QueryTerm{Term: term, Shown: shown, Prefix: character(term)})
	}
	return terms, false
}

// showDate returns a date word as a person writes it.
func showDate(term string) string {
	n, err := strconv.Atoi(term[2:])
	if err != nil {
		return term[1:]
	}
	switch term[1] {
	case 'm':
		return time.Month(n).String()
	case 'a':
		return time.Month(n/100).String() + " " + strconv.Itoa(n%100)
	case 'd':
		return "day " + strconv.Itoa(n)
	case 'w':
		return time.Weekday(n).String()
	}
	return strconv.Itoa(n)
}
