package lexical

import (
	"math"
	"testing"

	"recalld/memory"
)

// kettle is the corpus of docs/lexical.md, beside rows of another cell.
func kettle(t *testing.T, others ...Doc) *Index {
	return NewIndex(seal(t, append([]Doc{
		{Cell: 1, Ref: mem(1), Session: "s", Text: "Ann: Did you repair the kettle?"},
		{Cell: 1, Ref: mem(2), Session: "s", Text: "Bo: Yesterday, yes."},
		{Cell: 1, Ref: mem(3), Session: "s", Text: "Ann: Good."}}, others...)...))
}

// DECISIONS 18: what the best row says, over .3 of what was asked or 1.5 times
// the bits of one row's name, by hand: a row says 2 × 51555 units, a word of one
// row weighs 92735, one of none 3 bits, and one row in three is named by 2 bits.
func TestEvidenceByHand(t *testing.T) {
	const said = 2 * 51555.0
	for query, want := range map[string]float64{
		"repair the kettle":                         said / (.3 * 2 * 92735),
		"repair the kettle, zebra":                  said / (.3 * (2*92735 + 3*ScoreUnit)),
		"repair the kettle, zebra walrus":           said / (.3 * (2*92735 + 6*ScoreUnit)),
		"repair the kettle, zebra walrus lynx":      said / (1.5 * 2 * ScoreUnit),
		"repair the kettle, zebra walrus lynx orca": said / (1.5 * 2 * ScoreUnit),
		"zebra": 0,
	} {
		got := mustSearch(t, kettle(t), Query{Text: query, Cells: []Cell{1}, Kind: memory.KindMemory, K: 9, Explain: true}).Evidence()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// DECISIONS 16, 18: each character of a script without spaces stands in two
// bigrams and counts once; of a query in two scripts neither part is worth double.
func TestEvidenceCountsACharacterOnce(t *testing.T) {
	for term, want := range map[string]uint32{"会議": 4, "のは": 4, "会": 7, "회의": 4, "kettl": 7, "k": 7, "👍": 7, "": 7} {
		if got := distinct(term, 7); got != want {
			t.Errorf("%q: %d of 7, want %d", term, got, want)
		}
	}
	x := NewIndex(seal(t, Doc{Cell: 1, Ref: mem(1), Text: "kettle 会議"}, Doc{Cell: 1, Ref: mem(2), Text: "nothing"}))
	ask := func(text string) Result {
		return mustSearch(t, x, Query{Text: text, Cells: []Cell{1}, Kind: memory.KindMemory, K: 9, Explain: true})
	}
	word, bigram := ask("kettle"), ask("会議")
	if bigram.Hits[0].Score != word.Hits[0].Score || bigram.Asked != (word.Asked+1)/2 {
		t.Errorf("asked %d by a bigram, %d by a word", bigram.Asked, word.Asked)
	}
	if w, b := word.Evidence(), bigram.Evidence(); math.Abs(w-b) > 1e-4 {
		t.Errorf("evidence %v of a bigram, %v of a word", b, w)
	}
}

// DECISIONS 1: what a row says, and what would be enough, is counted in the
// scope alone.
func TestEvidenceKnowsNoOtherScope(t *testing.T) {
	q := Query{Text: "repair the kettle and the zebra", Cells: []Cell{1}, Kind: memory.KindMemory, K: 9, Explain: true}
	alone := mustSearch(t, kettle(t), q)
	beside := mustSearch(t, kettle(t, Doc{Cell: 2, Ref: mem(4), Text: "zebra"}, Doc{Cell: 2, Ref: mem(5), Text: "a kettle"}), q)
	if alone.Evidence() != beside.Evidence() || alone.Asked != beside.Asked || alone.Evidence() == 0 {
		t.Errorf("%v of %d alone, %v of %d beside others", alone.Evidence(), alone.Asked, beside.Evidence(), beside.Asked)
	}
}
