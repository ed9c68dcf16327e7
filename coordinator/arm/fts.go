package arm

import (
	"context"
	"fmt"

	"recalld/memory"
	"recalld/sqlite"
)

// FTS ranks one kind of record by SQLite's trigram index: the compatibility
// arms fts_memory and fts_episode. Its keys are minus bm25(), which counts the
// rows of all agents, and it says so (DECISIONS 1).
type FTS struct {
	kind memory.Kind
}

// NewFTS returns the arm for one kind.
func NewFTS(kind memory.Kind) *FTS { return &FTS{kind: kind} }

// Name implements [Arm].
func (f *FTS) Name() string {
	if f.kind == memory.KindEpisode {
		return FTSEpisodeName
	}
	return FTSMemoryName
}

// Search implements [Arm]. When the index matches no memory, the literal text
// of the query is looked for instead, newest first (RR-397, RR-402); that is
// also what answers queries of one or two characters.
func (f *FTS) Search(_ context.Context, view *sqlite.View, q Query) (Result, error) {
	out := Result{Arm: f.Name()}
	if f.kind == memory.KindEpisode && q.excludesEpisodes() {
		return out, nil
	}
	source := q.SourceID
	if f.kind == memory.KindEpisode {
		source = ""
	}
	query := sqlite.BuildFTSQuery(q.Text)
	if query.Truncated {
		out.Degraded = append(out.Degraded, Degradation{Reason: ReasonQueryTruncated, Detail: "only the first 64 distinct terms were searched"})
	}
	if query.Match != "" {
		waiting, err := view.Unindexed()
		if err != nil {
			return out, fmt.Errorf("%s arm: %w", f.Name(), err)
		}
		if out.Partial = waiting > 0; out.Partial {
			out.Degraded = append(out.Degraded, Degradation{Reason: ReasonNotIndexed, Detail: "the newest records are not in the full-text index yet"})
		}
		candidates, truncated, err := view.MatchFTS(q.Scope, f.kind, query, q.Depth, source)
		if err != nil {
			return out, fmt.Errorf("%s arm: %w", f.Name(), err)
		}
		out.Candidates, out.Truncated, out.Scanned = candidates, truncated, int64(len(candidates))
	}
	switch {
	case len(out.Candidates) > 0:
		out.Degraded = append(out.Degraded, Degradation{Reason: ReasonSharedStatistics, Detail: "word weights come from all agents' records; the order may change with them"})
	case f.kind == memory.KindMemory:
		return f.keyword(view, q)
	}
	return out, nil
}

// keyword is the literal substring search that stands in for fts_memory.
func (f *FTS) keyword(view *sqlite.View, q Query) (Result, error) {
	out := Result{Arm: KeywordName, Unscored: true}
	candidates, truncated, err := view.Substring(q.Scope, q.Text, q.Depth, q.SourceID)
	if err != nil {
		return out, fmt.Errorf("keyword arm: %w", err)
	}
	out.Candidates, out.Truncated, out.Scanned = candidates, truncated, int64(len(candidates))
	return out, nil
}
