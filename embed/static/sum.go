package static

// Sum returns the sum of the text's piece vectors, Dims integers that are valid
// until the next use of s. It is all zero only for the empty text.
func (t *Table) Sum(s *Scratch, text string) []int64 {
	clear(s.sum[:])
	if text == "" {
		return s.sum[:]
	}
	t.segment(s, text)
	var before int32
	for _, piece := range s.pieces {
		if piece >= 0 {
			t.add(&s.sum, piece)
			before = 0
			continue
		}
		// A code point of no piece has a pseudo-random vector, and so has it together
		// with such a neighbour: spelling is all that is known of other scripts.
		r := -1 - piece
		addSigns(&s.sum, scramble(uint64(r)), t.unknownWeight)
		if before != 0 {
			addSigns(&s.sum, scramble(uint64(before)<<32|uint64(r)), t.unknownWeight)
		}
		before = r
	}
	if s.sum == [Dims]int64{} {
		seed := uint64(1)
		for i := range len(text) {
			seed = scramble(seed ^ uint64(text[i]))
		}
		addSigns(&s.sum, seed, 1)
	}
	return s.sum[:]
}

func (t *Table) add(sum *[Dims]int64, piece int32) {
	scale := int64(t.scales[piece])
	codes := t.codes[int(piece)*Dims:][:Dims]
	for i := range Dims {
		sum[i] += int64(int8(codes[i])) * scale
	}
}

// addSigns adds a vector of ±weight whose signs follow from the seed.
func addSigns(sum *[Dims]int64, seed uint64, weight int64) {
	for word := range uint64(Dims / 64) {
		bits := scramble(seed + word)
		for i := range sum[64*word:][:64] {
			sum[64*word+uint64(i)] += weight * (int64(bits>>i&1)*2 - 1)
		}
	}
}

// scramble is the finaliser of splitmix64 after its increment.
func scramble(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
