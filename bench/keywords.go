package bench

import (
	_ "embed"
	"fmt"
	"strings"

	"recalld/coordinator"
	"recalld/memory"
	"recalld/sqlite"
)

//go:embed testdata/keywords.txt
var keywordText string

// keywordSet is 200 words of two characters and the sentences that they are put
// into.
type keywordSet struct {
	words     []string
	sentences []string
}

func keywordsOf(language string) (set keywordSet) {
	for line := range strings.Lines(keywordText) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, rest, _ := strings.Cut(rest, " ")
		switch {
		case name != language:
		case kind == "words":
			set.words = append(set.words, strings.Fields(rest)...)
		case kind == "sentence":
			set.sentences = append(set.sentences, rest)
		}
	}
	return set
}

// recordsPerKeyword is how many records say each word, each in another sentence.
const recordsPerKeyword = 3

// keywords stores sentences with each word of a language, asks for every word
// alone, and returns the share of them that have one of their records among the
// first ten.
func (t *lexicalTrial) keywords(language string) (float64, error) {
	set := keywordsOf(language)
	var items []sqlite.NewMemory
	for i, word := range set.words {
		for j := range recordsPerKeyword {
			sentence := set.sentences[(i+7*j)%len(set.sentences)]
			items = append(items, sqlite.NewMemory{Cell: memory.Cell{Agent: language}, Content: strings.Replace(sentence, "{}", word, 1)})
		}
	}
	results, err := t.store.StoreMemories(t.ctx, items)
	if err != nil {
		return 0, err
	}
	hits := 0
	for i, word := range set.words {
		answer, err := t.service.Recall(t.ctx, coordinator.RecallRequest{Agent: language, Query: word, Count: 10, Gate: "off"})
		if err != nil {
			return 0, fmt.Errorf("keyword %d: %w", i+1, err)
		}
		relevant := map[string]bool{}
		for _, r := range results[i*recordsPerKeyword : (i+1)*recordsPerKeyword] {
			relevant[r.Ref.String()] = true
		}
		var ranking []string
		for _, row := range answer.Rows {
			ranking = append(ranking, row.Ref)
		}
		if FirstHit(ranking, relevant) > 0 {
			hits++
		}
	}
	return round(float64(hits) / float64(len(set.words))), nil
}
