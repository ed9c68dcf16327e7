package arm

import "slices"

// Names of the arms as they stand in answers.
const (
	VectorName         = "vector"
	LexicalMemoryName  = "lexical_memory"
	LexicalEpisodeName = "lexical_episode"
	FTSMemoryName      = "fts_memory"
	FTSEpisodeName     = "fts_episode"
	BlockName          = "block"   // finds what the reservation adds, never asked for by name
	KeywordName        = "keyword" // stands in for lexical_memory and fts_memory, never asked for by name
)

// Groups that a request may name beside single arms.
const (
	GroupLexical = "lexical"
	GroupFTS     = "fts"
	GroupAll     = "all" // all but the compatibility arms
)

// Names lists what a request may ask for: the groups, then the arms.
func Names() []string {
	return []string{GroupAll, VectorName, GroupLexical, LexicalMemoryName, LexicalEpisodeName, GroupFTS, FTSMemoryName, FTSEpisodeName}
}

// order is the order of arms in every answer and every floating-point sum.
func order() []string {
	return []string{VectorName, LexicalMemoryName, LexicalEpisodeName, FTSMemoryName, FTSEpisodeName}
}

// Expand turns groups and arms into arms, each once, in the fixed order.
// ok is false for a name that is neither, which is returned.
func Expand(names []string) (arms []string, unknown string, ok bool) {
	asked := make(map[string]bool)
	for _, n := range names {
		switch {
		case n == GroupAll:
			asked[VectorName], asked[LexicalMemoryName], asked[LexicalEpisodeName] = true, true, true
		case n == GroupLexical:
			asked[LexicalMemoryName], asked[LexicalEpisodeName] = true, true
		case n == GroupFTS:
			asked[FTSMemoryName], asked[FTSEpisodeName] = true, true
		case slices.Contains(order(), n):
			asked[n] = true
		default:
			return nil, n, false
		}
	}
	for _, a := range order() {
		if asked[a] {
			arms = append(arms, a)
		}
	}
	return arms, "", true
}
