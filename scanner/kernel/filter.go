package kernel

import (
	"math/bits"
	"unsafe"
)

// filter compares rows from `from` on, before `to`, with all queries. For each
// query q it writes a hit for every live row below limits[q], in ascending order,
// from hits[q*room] on, and adds their number to found[q]. It returns how many rows
// it compared, at least one: it stops when a query may have no room left.
func filter(job *Job, queries []byte, from, to int, limits []uint32, hits []Hit, found []uint32) int {
	if job.Path != Go {
		return filterC(job, queries, from, to, limits, hits, found)
	}
	return filterGo(job, queries, from, to, limits, hits, found)
}

// chunk is how many rows are compared before any distance is looked at.
const chunk = 256

func filterGo(job *Job, queries []byte, from, to int, limits []uint32, hits []Hit, found []uint32) int {
	stride := job.Matrix.Bits / 8
	words := stride / 8
	var distances [chunk]uint16
	row := from
	for ; row < to && !full(found); row += chunk {
		n := min(chunk, to-row)
		for q, limit := range limits {
			hamming(words, job.Matrix.Codes[row*stride:(row+n)*stride], queries[q*stride:(q+1)*stride], &distances)
			for i, d := range distances[:n] {
				if uint32(d) < limit && job.Live.Has(row+i) {
					hits[q*room+int(found[q])] = Hit{Row: uint32(row + i), Distance: uint32(d)}
					found[q]++
				}
			}
		}
	}
	return min(row, to) - from
}

// full reports whether a query has no room for another chunk.
func full(found []uint32) bool {
	for _, n := range found {
		if n+chunk > room {
			return true
		}
	}
	return false
}

// hamming writes the distances of up to chunk rows to one query. Loops over the
// words of a row cost half as much again, so the usual widths are written out, in
// pieces that the compiler takes in line.
func hamming(words int, codes, query []byte, out *[chunk]uint16) {
	rows := len(codes) / (8 * words)
	row, q := unsafe.Pointer(unsafe.SliceData(codes)), unsafe.Pointer(unsafe.SliceData(query))
	turns := 0
	if rows == chunk {
		turns = bits.Len(uint(len(codes)/page)) - 1
	}
	switch words {
	case 4:
		hamming4(row, q, rows, turns, out)
	case 6:
		hamming6(row, q, rows, turns, out)
	case 8:
		hamming8(row, q, rows, turns, out)
	case 12:
		hamming12(row, q, rows, turns, out)
	case 16:
		hamming16(row, q, rows, turns, out)
	case 24:
		hamming24(row, q, rows, turns, out)
	default:
		for i := range rows {
			d := 0
			for w := range words {
				d += words1(unsafe.Add(row, (i*words+w)*8), unsafe.Add(q, w*8))
			}
			out[i] = uint16(d)
		}
	}
}

// page is how much of memory processors read ahead in by themselves.
const page = 4096

// inTurns returns the row of a chunk to read at step i. Go cannot ask for memory
// ahead of time, but processors do so by themselves, in several pages at once: a
// chunk that is read in 1<<turns places in turns takes a third less time than one
// that is read from end to end.
func inTurns(i, turns int) uint8 { return bits.RotateLeft8(uint8(i), -turns) }

func words1(a, b unsafe.Pointer) int { return bits.OnesCount64(*(*uint64)(a) ^ *(*uint64)(b)) }

func words2(a, b unsafe.Pointer) int {
	x, y := (*[2]uint64)(a), (*[2]uint64)(b)
	return bits.OnesCount64(x[0]^y[0]) + bits.OnesCount64(x[1]^y[1])
}

func words4(a, b unsafe.Pointer) int {
	x, y := (*[4]uint64)(a), (*[4]uint64)(b)
	return bits.OnesCount64(x[0]^y[0]) + bits.OnesCount64(x[1]^y[1]) + bits.OnesCount64(x[2]^y[2]) + bits.OnesCount64(x[3]^y[3])
}

func hamming4(row, q unsafe.Pointer, rows, turns int, out *[chunk]uint16) {
	for i := range rows {
		j := inTurns(i, turns)
		r := unsafe.Add(row, int(j)*32)
		out[j] = uint16(words4(r, q))
	}
}

func hamming6(row, q unsafe.Pointer, rows, turns int, out *[chunk]uint16) {
	for i := range rows {
		j := inTurns(i, turns)
		r := unsafe.Add(row, int(j)*48)
		out[j] = uint16(words4(r, q) + words2(unsafe.Add(r, 32), unsafe.Add(q, 32)))
	}
}

func hamming8(row, q unsafe.Pointer, rows, turns int, out *[chunk]uint16) {
	for i := range rows {
		j := inTurns(i, turns)
		r := unsafe.Add(row, int(j)*64)
		out[j] = uint16(words4(r, q) + words4(unsafe.Add(r, 32), unsafe.Add(q, 32)))
	}
}

func hamming12(row, q unsafe.Pointer, rows, turns int, out *[chunk]uint16) {
	for i := range rows {
		j := inTurns(i, turns)
		r := unsafe.Add(row, int(j)*96)
		out[j] = uint16(words4(r, q) + words4(unsafe.Add(r, 32), unsafe.Add(q, 32)) + words4(unsafe.Add(r, 64), unsafe.Add(q, 64)))
	}
}

func hamming16(row, q unsafe.Pointer, rows, turns int, out *[chunk]uint16) {
	for i := range rows {
		j := inTurns(i, turns)
		r := unsafe.Add(row, int(j)*128)
		out[j] = uint16(words4(r, q) + words4(unsafe.Add(r, 32), unsafe.Add(q, 32)) + words4(unsafe.Add(r, 64), unsafe.Add(q, 64)) +
			words4(unsafe.Add(r, 96), unsafe.Add(q, 96)))
	}
}

func hamming24(row, q unsafe.Pointer, rows, turns int, out *[chunk]uint16) {
	for i := range rows {
		j := inTurns(i, turns)
		r := unsafe.Add(row, int(j)*192)
		out[j] = uint16(words4(r, q) + words4(unsafe.Add(r, 32), unsafe.Add(q, 32)) + words4(unsafe.Add(r, 64), unsafe.Add(q, 64)) +
			words4(unsafe.Add(r, 96), unsafe.Add(q, 96)) + words4(unsafe.Add(r, 128), unsafe.Add(q, 128)) + words4(unsafe.Add(r, 160), unsafe.Add(q, 160)))
	}
}
