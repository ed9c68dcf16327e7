package memory

import "cmp"

// Candidate is one row as an arm ranks it. Key is the arm's key: larger is
// better. Block is the index of a block inside its parent, 0 for whole records.
type Candidate struct {
	Ref   Ref
	Block int32
	Key   float64
}

// Compare is the one total order over rows that compete (DECISIONS 2, RR-224):
// the better key first, then kind in byte order, parent id ascending, block
// index ascending. Every ranking, merge and cut in the project ends in it.
func Compare(a, b Candidate) int {
	if c := cmp.Compare(b.Key, a.Key); c != 0 {
		return c
	}
	return CompareRows(a, b)
}

// CompareRows is the part of [Compare] after the key.
func CompareRows(a, b Candidate) int {
	if c := CompareRefs(a.Ref, b.Ref); c != 0 {
		return c
	}
	return cmp.Compare(a.Block, b.Block)
}

// CompareRefs orders references: "ep" before "mem", then id ascending.
func CompareRefs(a, b Ref) int {
	if c := cmp.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}
