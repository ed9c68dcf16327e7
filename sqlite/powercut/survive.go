package powercut

import (
	"math/rand/v2"
	"slices"
)

// sector is the unit, in bytes, that a disk writes whole.
const sector = 512

// survive draws what a power cut leaves of the file, and counts its unsynced operations and their damage in image. The
// file itself is unchanged.
func (f *inode) survive(rng *rand.Rand, image *Image) []byte {
	contents := slices.Clone(f.durable)
	if len(f.pending) == 0 {
		return contents
	}
	shares := [...]float64{0, .1, .5, .9, 1}
	share := shares[rng.IntN(len(shares))]
	image.Unsynced += len(f.pending)

	reached := int64(len(contents))
	for _, o := range f.pending {
		reached = o.length(reached)
	}
	order := slices.Clone(f.pending)
	if rng.IntN(2) == 0 {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, o := range order {
		var whole bool
		contents, whole = o.survive(rng, share, contents)
		if !whole {
			image.Damaged++
		}
	}
	if missing := reached - int64(len(contents)); missing > 0 && rng.IntN(4) == 0 {
		contents = append(contents, tail(rng, missing)...)
	}
	return contents
}

// survive applies what is left of the operation and says whether that is all of it. One write in four is at risk of being
// torn.
func (o op) survive(rng *rand.Rand, share float64, contents []byte) ([]byte, bool) {
	if o.kind == truncated || rng.IntN(4) > 0 {
		if rng.Float64() >= share {
			return contents, false
		}
		return o.perform(contents), true
	}
	whole := true
	for at, end := o.offset, o.offset+int64(len(o.bytes)); at < end; {
		next := min((at/sector+1)*sector, end)
		if rng.Float64() < share {
			piece := op{kind: wrote, offset: at, bytes: o.bytes[at-o.offset : next-o.offset]}
			contents = piece.perform(contents)
		} else {
			whole = false
		}
		at = next
	}
	return contents, whole
}

// length returns the size of a file of the given size after the operation.
func (o op) length(size int64) int64 {
	if o.kind == truncated {
		return o.offset
	}
	return max(size, o.offset+int64(len(o.bytes)))
}

// tail is n bytes that the file's length covers though nothing was written there: zeros, or what the disk held before.
func tail(rng *rand.Rand, n int64) []byte {
	bytes := make([]byte, n)
	if rng.IntN(2) == 0 {
		for i := range bytes {
			bytes[i] = byte(rng.Uint32())
		}
	}
	return bytes
}
