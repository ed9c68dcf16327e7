package lexical

import (
	"cmp"
	"slices"
)

// posting is one row that contains a term and how often, at most maxFrequency.
type posting struct {
	row  uint32 // ordinal inside its source
	freq uint32
}

// blockLen is the number of postings that are coded, bounded and skipped
// together.
const blockLen = 128

// block is one decoded block of postings.
type block struct {
	n    int
	row  [blockLen]uint32
	freq [blockLen]uint32
}

// list is the postings of one term in one source, ascending by row. Its blocks
// are either coded bytes of a partition or a slice in memory.
type list struct {
	count  int
	blocks int
	memory []posting // when it is in memory
	coded  codedList // when it is not
}

// last returns the highest row of a block.
func (l *list) last(i int) uint32 {
	if l.memory != nil {
		return l.memory[min((i+1)*blockLen, l.count)-1].row
	}
	return l.coded.last(i, l.blocks)
}

// maxFreq returns the highest frequency in a block.
func (l *list) maxFreq(i int) uint32 {
	if l.memory == nil {
		return l.coded.maxFreq(i, l.blocks)
	}
	highest := uint32(0)
	for _, p := range l.memory[i*blockLen : min((i+1)*blockLen, l.count)] {
		highest = max(highest, p.freq)
	}
	return highest
}

// decode fills b with a block. The error is an [ErrCorrupt].
func (l *list) decode(i int, b *block) error {
	if l.memory == nil {
		return l.coded.decode(i, l.count, b)
	}
	part := l.memory[i*blockLen : min((i+1)*blockLen, l.count)]
	b.n = len(part)
	for j, p := range part {
		b.row[j], b.freq[j] = p.row, p.freq
	}
	return nil
}

// memoryList wraps postings in memory.
func memoryList(p []posting) list {
	return list{count: len(p), blocks: (len(p) + blockLen - 1) / blockLen, memory: p}
}

// mergeLists returns one list with the postings of several. Frequencies in one row
// add up.
func mergeLists(lists []list) (list, error) {
	if len(lists) == 1 {
		return lists[0], nil
	}
	var all []posting
	var b block
	for i := range lists {
		for j := range lists[i].blocks {
			if err := lists[i].decode(j, &b); err != nil {
				return list{}, err
			}
			for k := range b.n {
				all = append(all, posting{b.row[k], b.freq[k]})
			}
		}
	}
	slices.SortFunc(all, func(a, b posting) int { return cmp.Compare(a.row, b.row) })
	n := 0
	for _, p := range all {
		if n > 0 && all[n-1].row == p.row {
			all[n-1].freq = min(all[n-1].freq+p.freq, maxFrequency)
			continue
		}
		all[n] = p
		n++
	}
	return memoryList(all[:n]), nil
}
