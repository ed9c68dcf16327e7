package arm

import (
	"slices"

	"recalld/memory"
	"recalld/sqlite"
)

// Subset is a part of a scope's records; nil is all of them.
type Subset struct {
	Memories []int64 // ids, ascending
	Episodes bool    // all episodes, or none
}

// Has reports whether a record is in the subset.
func (s *Subset) Has(ref memory.Ref) bool {
	if s == nil {
		return true
	}
	if ref.Kind == memory.KindEpisode {
		return s.Episodes
	}
	_, found := slices.BinarySearch(s.Memories, ref.ID)
	return found
}

// sourcePage is how many references of a source are read at a time.
const sourcePage = 10_000

// subset is RR-442 for an arm that does not read records.
func subset(view *sqlite.View, q Query) (*Subset, error) {
	if q.SourceID == "" {
		return nil, nil
	}
	s := &Subset{Episodes: !q.excludesEpisodes()}
	page := sqlite.Filter{Kind: memory.KindMemory, Limit: sourcePage, SourceIDPrefix: q.SourceID}
	for more := true; more; {
		refs, err := view.Refs(q.Scope, page)
		if err != nil {
			return nil, err
		}
		for _, ref := range refs {
			s.Memories = append(s.Memories, ref.ID)
			page.After = ref.ID
		}
		more = len(refs) == page.Limit
	}
	slices.Sort(s.Memories)
	return s, nil
}
