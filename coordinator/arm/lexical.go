package arm

import (
	"context"
	"fmt"

	"recalld/lexical"
	"recalld/memory"
	"recalld/shards"
	"recalld/sqlite"
)

// Lexical ranks one kind of record by its words, with statistics of the scope
// alone (DECISIONS 1, 16, 17). Its keys are bits of information.
type Lexical struct {
	kind  memory.Kind
	index *shards.Lexical
}

// NewLexical returns the arm for one kind over an index.
func NewLexical(kind memory.Kind, index *shards.Lexical) *Lexical {
	return &Lexical{kind: kind, index: index}
}

// Name implements [Arm].
func (l *Lexical) Name() string {
	if l.kind == memory.KindEpisode {
		return LexicalEpisodeName
	}
	return LexicalMemoryName
}

// Search implements [Arm]. A query that has no words, such as a lone symbol, and
// one whose words no memory has are looked for literally instead, newest first
// (RR-402), unless that is in vain.
func (l *Lexical) Search(ctx context.Context, view *sqlite.View, q Query) (Result, error) {
	out := Result{Arm: l.Name()}
	if l.kind == memory.KindEpisode && q.excludesEpisodes() || q.Depth <= 0 {
		return out, nil
	}
	found, err := l.find(ctx, view, q)
	if err != nil {
		return out, fmt.Errorf("%s arm: %w", l.Name(), err)
	}
	if found.QueryTruncated {
		out.Degraded = append(out.Degraded, Degradation{Reason: ReasonQueryTruncated, Detail: fmt.Sprintf("only the first %d distinct terms were searched", lexical.MaxQueryTerms)})
	}
	if found.Unavailable != nil {
		out.Degraded = append(out.Degraded, Degradation{Reason: ReasonScanner, Detail: "answered without it: " + scannerProblem(found.Unavailable)})
	}
	if found.NotBuilt > 0 {
		out.Partial = true
		out.Degraded = append(out.Degraded, Degradation{Reason: ReasonNotBuilt, Detail: fmt.Sprintf("the words of %d records in scope are still being indexed", found.NotBuilt)})
	}
	out.Scanned = found.PostingsTouched
	if len(found.Hits) == 0 && l.kind == memory.KindMemory && !out.Partial {
		if !found.QueryTruncated && lexical.Surely(q.Text) {
			return Result{Arm: KeywordName, Unscored: true, Degraded: out.Degraded}, nil
		}
		literal, err := NewFTS(memory.KindMemory).keyword(view, q)
		literal.Degraded = append(out.Degraded, literal.Degraded...)
		return literal, err
	}
	if out.Truncated = len(found.Hits) > q.Depth; out.Truncated {
		found.Hits = found.Hits[:q.Depth]
	}
	out.Evidence = found.Evidence()
	out.Dated = dated(q.Text, found.Hits[:min(len(found.Hits), datedHits)])
	out.Terms, out.Near = make(map[memory.Ref][]string), make(map[memory.Ref][]string)
	for _, h := range found.Hits {
		out.Candidates = append(out.Candidates, memory.Candidate{Ref: h.Ref, Key: h.Bits()})
		for _, m := range h.Matches {
			into := out.Near
			if m.Own {
				into = out.Terms
			}
			into[h.Ref] = append(into[h.Ref], m.Term)
		}
	}
	return out, nil
}

// datedHits is how many of the best hits tell how much of a question is dates.
const datedHits = 10

// dated returns the part of the hits' scores that date words gave.
func dated(query string, hits []lexical.Hit) float64 {
	dates := make(map[string]bool)
	terms, _ := lexical.Terms(query)
	for _, t := range terms {
		if lexical.IsDateWord(t.Term) {
			dates[t.Shown] = true
		}
	}
	var all, byDate uint64
	for _, h := range hits {
		all += uint64(h.Score)
		for _, m := range h.Matches {
			if dates[m.Term] {
				byDate += uint64(m.Score)
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(byDate) / float64(all)
}

func (l *Lexical) find(ctx context.Context, view *sqlite.View, q Query) (shards.Answer, error) {
	cells, err := view.Cells(q.Scope)
	if err != nil {
		return shards.Answer{}, err
	}
	asked := shards.WordQuery{Query: lexical.Query{Text: q.Text, Kind: l.kind, K: q.Depth + 1, Explain: true}, Patient: q.Patient}
	if l.kind == memory.KindMemory {
		only, err := subset(view, q)
		if err != nil {
			return shards.Answer{}, err
		}
		if only != nil {
			asked.Only = &shards.Only{Memories: only.Memories, Episodes: only.Episodes}
		}
	}
	return l.index.Search(ctx, view, cells, asked)
}
