package lexical

import "unicode/utf8"

// How much the best row has to say before its words are believed. Words that a
// question and a row share by chance are worth a few bits; of a question that is
// asked in other words than the answer's they are all that is found.
const (
	// evidencePart is the part of [Result.Asked] that is enough. A word that a row
	// has once gives about half of its weight, so .3 is some six words in ten.
	evidencePart = .3
	// evidenceNames is how many times the bits that name one row of the scope are
	// enough, whatever else was asked: a question inside a long message has most of
	// its words in vain.
	evidenceNames = 1.5
)

// Evidence is what the best hit's words say, over what would be enough: that part
// of what the query could say at most, or those bits that tell one row of the
// scope from all others, whichever is less. From 1 on the words can be believed;
// it is above 0 whenever there is a hit. The search must have been asked to
// explain. Statistics of other scopes are not in it (DECISIONS 1).
func (r Result) Evidence() float64 {
	if len(r.Hits) == 0 {
		return 0
	}
	var said uint32
	for _, m := range r.Hits[0].Matches {
		said += distinct(m.Term, m.Score)
	}
	naming := log2(uint64(r.Rows)+1) >> (logBits - 16) // in score units
	enough := min(float64(evidencePart*float64(r.Asked)), float64(evidenceNames*float64(naming)))
	return float64(said) / max(enough, 1)
}

// distinct is the part of a term's score that no other term of the query says as
// well: of a bigram half, rounded up, because each character stands in two.
func distinct(term string, score uint32) uint32 {
	if r, size := utf8.DecodeRuneInString(term); size < len(term) && unspaced(r) {
		return score/2 + score%2
	}
	return score
}
