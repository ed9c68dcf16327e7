package lexical

import (
	"cmp"
	"math/bits"
	"slices"
)

// placed is one posting at its place in the sequence of a cell.
type placed struct {
	pos  uint32
	freq uint32
}

// lane is the postings of one query term in one cell, read once from the lowest
// position to the highest.
type lane struct {
	term    int // index of the query term
	weight  uint32
	date    bool   // a date word: neither neighbours nor length count
	bound   uint32 // no row of the cell gets more from this term
	readers []reader
	window  []placed // postings of the window being scored, ascending
	touched int64    // postings placed so far
}

// limit returns what no row gets from the term when no posting has a higher
// frequency than the given one.
func (l *lane) limit(c curve, freq uint32) uint32 {
	if l.date {
		return curve{base: saturation}.bound(l.weight, shareOwn*freq)
	}
	return c.bound(l.weight, shareAll*freq)
}

// fill makes window hold the postings from lo up to but not including hi. Neither
// may be lower than at the call before.
func (l *lane) fill(lo, hi uint32) error {
	kept := l.window[:0]
	for _, p := range l.window {
		if p.pos >= lo {
			kept = append(kept, p)
		}
	}
	l.window = kept
	n := len(l.window)
	parts := 0
	for i := range l.readers {
		r := &l.readers[i]
		if err := r.skip(lo); err != nil {
			return err
		}
		before := len(l.window)
		var err error
		if l.window, err = r.fill(l.window, hi); err != nil {
			return err
		}
		if len(l.window) > before {
			parts++
		}
	}
	l.touched += int64(len(l.window) - n)
	if parts > 1 {
		order(l.window[n:], lo, hi)
	}
	return nil
}

// order sorts postings of different positions from lo on, below hi. A window has so
// few positions that each posting can be put in its place; whole lists, as a merge of
// files reads them, are sorted.
func order(postings []placed, lo, hi uint32) {
	if len(postings) < 16 || hi-lo > windowRows+2*Reach {
		slices.SortFunc(postings, func(a, b placed) int { return cmp.Compare(a.pos, b.pos) })
		return
	}
	var there [(windowRows + 2*Reach + 63) / 64]uint64
	var freq [64 * len(there)]uint32
	for _, p := range postings {
		i := p.pos - lo
		there[i/64] |= 1 << (i % 64)
		freq[i] = p.freq
	}
	n := 0
	for w, word := range there {
		for ; word != 0; word &= word - 1 {
			i := uint32(64*w + bits.TrailingZeros64(word))
			postings[n] = placed{lo + i, freq[i]}
			n++
		}
	}
}

// next returns the lowest position at or behind lo that has a posting not yet
// given up, and false at the end.
func (l *lane) next(lo uint32) (pos uint32, ok bool, err error) {
	for _, p := range l.window {
		if p.pos >= lo {
			return p.pos, true, nil
		}
	}
	for i := range l.readers {
		r := &l.readers[i]
		if err := r.skip(lo); err != nil {
			return 0, false, err
		}
		p, more, err := r.peek()
		if err != nil {
			return 0, false, err
		}
		if more && (!ok || p < pos) {
			pos, ok = p, true
		}
	}
	return pos, ok, nil
}

// reader walks one source's list of one term.
type reader struct {
	list  list
	runs  []run // the source's, from the one being read on
	block int   // the next block, or the one that is loaded
	next  int   // next posting in the loaded block
	ready bool  // a block is loaded
	b     *block
}

func (r *reader) load() error {
	if r.ready {
		return nil
	}
	if r.b == nil {
		r.b = new(block)
	}
	r.ready, r.next = true, 0
	return r.list.decode(r.block, r.b)
}

// end gives up all that is left.
func (r *reader) end() { r.runs, r.block, r.ready = nil, r.list.blocks, false }

// skip gives up the postings before a position.
func (r *reader) skip(pos uint32) error {
	for len(r.runs) > 0 && r.runs[0].end() <= pos {
		r.runs = r.runs[1:]
	}
	if len(r.runs) == 0 {
		r.end()
		return nil
	}
	row := r.runs[0].first
	if pos > r.runs[0].pos {
		row += pos - r.runs[0].pos
	}
	for r.block < r.list.blocks && r.list.last(r.block) < row {
		r.block++
		r.ready = false
	}
	if r.block == r.list.blocks {
		return nil
	}
	if err := r.load(); err != nil {
		return err
	}
	for r.next < r.b.n && r.b.row[r.next] < row {
		r.next++
	}
	return nil
}

// peek returns the position of the next live posting.
func (r *reader) peek() (pos uint32, ok bool, err error) {
	for r.block < r.list.blocks {
		if err := r.load(); err != nil {
			return 0, false, err
		}
		for ; r.next < r.b.n; r.next++ {
			row := r.b.row[r.next]
			for len(r.runs) > 0 && row >= r.runs[0].first+r.runs[0].count {
				r.runs = r.runs[1:]
			}
			if len(r.runs) == 0 {
				r.end()
				return 0, false, nil
			}
			if row >= r.runs[0].first {
				return r.runs[0].pos + row - r.runs[0].first, true, nil
			}
		}
		r.block++
		r.ready = false
	}
	return 0, false, nil
}

// fill appends the live postings before hi to dst.
func (r *reader) fill(dst []placed, hi uint32) ([]placed, error) {
	for r.block < r.list.blocks {
		if err := r.load(); err != nil {
			return dst, err
		}
		for ; r.next < r.b.n; r.next++ {
			row := r.b.row[r.next]
			for len(r.runs) > 0 && row >= r.runs[0].first+r.runs[0].count {
				r.runs = r.runs[1:]
			}
			if len(r.runs) == 0 {
				r.end()
				return dst, nil
			}
			if row < r.runs[0].first {
				continue
			}
			pos := r.runs[0].pos + row - r.runs[0].first
			if pos >= hi {
				return dst, nil
			}
			dst = append(dst, placed{pos, r.b.freq[r.next]})
		}
		r.block++
		r.ready = false
	}
	return dst, nil
}

// holds reports whether the row at a position of the window has the term itself.
func (l *lane) holds(pos uint32) bool {
	return slices.ContainsFunc(l.window, func(p placed) bool { return p.pos == pos })
}
