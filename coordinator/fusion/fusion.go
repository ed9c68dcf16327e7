package fusion

import (
	"cmp"
	"slices"

	"recalld/memory"
)

// Mode is how rankings become one score.
type Mode string

// The modes. [Convex] is the default (DECISIONS 18); [ReciprocalRank] is the
// compatibility mode (RR-404).
const (
	Convex         Mode = "rsf"
	ReciprocalRank Mode = "rrf"
)

// DefaultK is the constant of [ReciprocalRank] (RR-405).
const DefaultK = 60

// Ranking is what one arm returned, best first in the total order.
type Ranking struct {
	Arm string
	// Weight is the arm's share, ≥ 0. Weights are relative to each other.
	Weight     float64
	Candidates []memory.Candidate
	// Scale names the unit of the keys. Rankings of the same named scale hold
	// different rows with comparable keys: [Convex] scales them together and
	// counts them as one arm. "" is a scale of its own.
	Scale string
	// Unscored says that keys order the rows but measure no similarity, such as
	// the time of a row. Only ranks are used then.
	Unscored bool
}

// Vote is one arm's part in a row.
type Vote struct {
	Arm  string
	Rank int     // from 1
	Key  float64 // the arm's own key; 0 from an unscored arm
}

// Row is one candidate after fusion.
type Row struct {
	Ref   memory.Ref
	Score float64 // 0..1 for Convex
	Votes []Vote  // in the order of the rankings given
	// Recency is the key that an unscored arm gave, 0 without one. It breaks
	// ties of Score.
	Recency float64
}

// Compare orders fused rows: better score, then newer, then the total order of
// references.
func Compare(a, b Row) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	if c := cmp.Compare(b.Recency, a.Recency); c != 0 {
		return c
	}
	return memory.CompareRefs(a.Ref, b.Ref)
}

// Fuse merges the rankings, best first. k is the constant of [ReciprocalRank].
func Fuse(mode Mode, k float64, rankings []Ranking) []Row {
	share := func(r Ranking) []float64 { return reciprocal(r, k) }
	norm := 1.0
	if mode != ReciprocalRank {
		share = func(r Ranking) []float64 { return scaled(r, rankings) }
		norm = totalWeight(rankings)
	}
	rows := collect(rankings, share)
	for i := range rows {
		rows[i].Score /= norm
	}
	slices.SortFunc(rows, Compare)
	return rows
}

// collect sums each row's shares in the order of the rankings, so that the
// floating-point sum is always the same.
func collect(rankings []Ranking, share func(Ranking) []float64) []Row {
	var rows []Row
	at := make(map[memory.Ref]int)
	for _, r := range rankings {
		for i, part := range share(r) {
			c := r.Candidates[i]
			n, seen := at[c.Ref]
			if !seen {
				n = len(rows)
				at[c.Ref] = n
				rows = append(rows, Row{Ref: c.Ref})
			}
			row := &rows[n]
			row.Score += float64(r.Weight * part)
			vote := Vote{Arm: r.Arm, Rank: i + 1, Key: c.Key}
			if r.Unscored {
				row.Recency, vote.Key = c.Key, 0
			}
			row.Votes = append(row.Votes, vote)
		}
	}
	return rows
}
