package lexical

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"recalld/memory"
)

// plainSearch ranks rows the way docs/lexical.md explains it, row by row and
// without postings, windows or pruning. It shares the analyser and the two
// formulas of weight.go with the code under test, and nothing else.
func plainSearch(docs []Doc, q Query) []Hit {
	type row struct {
		doc    Doc
		freq   map[string]uint32
		length uint32
	}
	groups := map[Cell][]row{}
	var stats statistics
	df := map[string]uint64{}
	a := NewAnalyser()
	for _, d := range docs {
		if d.Ref.Kind != q.Kind || !slices.Contains(q.Cells, d.Cell) {
			continue
		}
		r := row{doc: d, freq: map[string]uint32{}}
		for _, id := range a.AppendTime(a.Append(nil, d.Text), d.Time) {
			term := a.Term(id)
			if !IsDateWord(term) {
				r.length++
			}
			r.freq[term] = min(r.freq[term]+1, 255)
		}
		stats.rows++
		stats.length += uint64(r.length)
		groups[d.Cell] = append(groups[d.Cell], r)
	}
	terms, _ := Terms(q.Text)
	// The frequency of a prefix is that of all terms that begin with it.
	for _, rows := range groups {
		for _, r := range rows {
			whole := maps.Clone(r.freq)
			for _, t := range terms {
				if t.Prefix {
					r.freq[t.Term] = 0
					for term, n := range whole {
						if strings.HasPrefix(term, t.Term) {
							r.freq[t.Term] = min(r.freq[t.Term]+n, 255)
						}
					}
				}
				if r.freq[t.Term] > 0 {
					df[t.Term]++
				}
			}
		}
	}
	curve := stats.curve()
	shares := []uint32{10, 4, 2, 1}
	var hits []Hit
	for _, rows := range groups {
		sessions := map[string][]row{}
		for _, r := range rows {
			key := r.doc.Session
			if key == "" {
				key = "\x00" + r.doc.Ref.String()
			}
			sessions[key] = append(sessions[key], r)
		}
		for _, s := range sessions {
			slices.SortFunc(s, func(a, b row) int { return cmp.Compare(a.doc.Ref.ID, b.doc.Ref.ID) })
			for i, r := range s {
				if q.Keep != nil && !q.Keep(r.doc.Ref) {
					continue
				}
				length := uint32(0)
				for j := max(0, i-3); j < min(len(s), i+4); j++ {
					length += shares[max(i-j, j-i)] * s[j].length
				}
				h := Hit{Ref: r.doc.Ref}
				for _, t := range terms {
					if df[t.Term] == 0 {
						continue
					}
					w := stats.weight(df[t.Term])
					freq, damp := uint32(0), curve.damp(length)
					if IsDateWord(t.Term) {
						freq, damp = 10*r.freq[t.Term], 9
					} else {
						for j := max(0, i-3); j < min(len(s), i+4); j++ {
							freq += shares[max(i-j, j-i)] * s[j].freq[t.Term]
						}
					}
					if freq == 0 {
						continue
					}
					if score := contribution(w, freq, damp); score > 0 {
						h.Score += score
						at := slices.IndexFunc(h.Matches, func(m Match) bool { return m.Term == t.Shown })
						if at < 0 {
							at = len(h.Matches)
							h.Matches = append(h.Matches, Match{Term: t.Shown})
						}
						h.Matches[at].Score += score
						h.Matches[at].Own = h.Matches[at].Own || r.freq[t.Term] > 0
					}
				}
				slices.SortStableFunc(h.Matches, func(a, b Match) int {
					return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Term, b.Term))
				})
				if h.Score > 0 {
					hits = append(hits, h)
				}
			}
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), memory.CompareRefs(a.Ref, b.Ref))
	})
	if len(hits) > q.K {
		hits = hits[:q.K]
	}
	if !q.Explain {
		for i := range hits {
			hits[i].Matches = nil
		}
	}
	return hits
}
