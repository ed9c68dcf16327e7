package arm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"

	"recalld/memory"
	"recalld/sqlite"
)

// codes is a readable state of the codes of a cell's current block sets. Its
// slices are only ever appended to beyond its own length.
type codes struct {
	dims  int
	sets  []codeSet
	words []uint64
	dead  map[int]struct{}
}

// codeSet is where the codes of one record stand.
type codeSet struct {
	ref         memory.Ref
	first, past int   // in words
	without     []int // blocks that have no code, ascending; nearly always nil
}

// coded is how many of the set's first n blocks have a code.
func (s codeSet) coded(n int) int {
	coded := n
	for _, i := range s.without {
		if i < n {
			coded--
		}
	}
	return coded
}

// each calls fn with every live set and its codes, block by block; the order of
// the sets means nothing.
func (c codes) each(fn func(set codeSet, words []uint64)) {
	for i, s := range c.sets {
		if len(c.dead) > 0 {
			if _, gone := c.dead[i]; gone {
				continue
			}
		}
		fn(s, c.words[s.first:s.past])
	}
}

// put appends a set; one of another width, or whose bits are not whole, is not
// seen.
func (c *codes) put(s sqlite.BlockCodes) bool {
	row := (c.dims + 7) / 8
	if s.Dims != c.dims || row == 0 || len(s.Bits) != s.N*row {
		return false
	}
	first := len(c.words)
	for b := s.Bits; len(b) > 0; b = b[row:] {
		c.words = wordsOf(c.words, b[:row], wordsIn(c.dims))
	}
	c.sets = append(c.sets, codeSet{s.Ref, first, len(c.words), s.Unembeddable})
	return true
}

func wordsIn(dims int) int { return (dims + 63) / 64 }

// wordsOf appends one code as n words, padded with zeroes.
func wordsOf(into []uint64, code []byte, n int) []uint64 {
	for range n {
		var word [8]byte
		code = code[copy(word[:], code):]
		into = append(into, binary.LittleEndian.Uint64(word[:]))
	}
	return into
}

// codes are the codes of a cell as the snapshot has them: all that are kept, or
// those that a question reads from the file.
func (m *Matrices) codes(view *sqlite.View, cell int64, q BlockQuery) (got codes, err error) {
	if m.limit > 0 {
		key := matrixKey{blockCodes, q.Model, cell}
		ok, err := m.current(view, key, &codeMatrix{key: key, codes: codes{dims: q.Dims}, limit: m.limit}, func(x matrix) { got = x.(*codeMatrix).codes })
		if err != nil {
			return codes{}, fmt.Errorf("read block codes: %w", err)
		}
		if ok && got.dims == q.Dims {
			return got, nil
		}
	}
	return q.read(view, cell)
}

// read reads the codes of a cell from the file, no further than one record beyond
// q.Most: the file has them in the order in which that cuts.
func (q BlockQuery) read(view *sqlite.View, cell int64) (got codes, err error) {
	got = codes{dims: q.Dims}
	n := 0
	err = view.BlockBits(q.Model, []int64{cell}, func(s sqlite.BlockCodes) error {
		if !q.Only.Has(s.Ref) || !got.put(s) {
			return nil
		}
		if n += got.sets[len(got.sets)-1].coded(q.share(s.N)); q.Most > 0 && n > q.Most {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return codes{}, fmt.Errorf("read block codes: %w", err)
	}
	return got, nil
}

var errEnough = errors.New("enough")

// codeMatrix is the matrix of a cell's block codes.
type codeMatrix struct {
	key   matrixKey
	codes codes
	place map[memory.Ref]int // of live sets
	limit int64              // bytes; a larger cell is not loaded
}

// A set is dropped with its text and moves with its record; each is in the log. What
// becomes of another model's sets says nothing of this one's.
func (c *codeMatrix) follows(x sqlite.Change) bool {
	return x.Op == sqlite.OpBlocks && x.Model == c.key.model || x.Op == sqlite.OpText || x.Op == sqlite.OpRetag || x.Op == sqlite.OpDelete
}

// bytesPerSet is what one set costs beside its codes.
const bytesPerSet = 80

func (c *codeMatrix) size() (int, int64) {
	n := len(c.codes.sets)
	return n, int64(n)*bytesPerSet + int64(len(c.codes.words))*8
}

func (c *codeMatrix) load(view *sqlite.View) error {
	sets, blocks, err := view.BlockCount(c.key.model, c.key.cell)
	if err != nil {
		return err
	}
	if sets*bytesPerSet+blocks*int64(wordsIn(c.codes.dims))*8 > c.limit {
		return errTooLarge
	}
	c.place = make(map[memory.Ref]int)
	return view.BlockBits(c.key.model, []int64{c.key.cell}, c.put)
}

func (c *codeMatrix) put(s sqlite.BlockCodes) error {
	if c.codes.put(s) {
		c.place[s.Ref] = len(c.codes.sets) - 1
	}
	return nil
}

func (c *codeMatrix) follow(view *sqlite.View, here map[memory.Ref]bool) error {
	dead := maps.Clone(c.codes.dead)
	if dead == nil {
		dead = make(map[int]struct{})
	}
	var refs []memory.Ref
	for ref, in := range here {
		if i, ok := c.place[ref]; ok {
			dead[i] = struct{}{}
			delete(c.place, ref)
		}
		if in {
			refs = append(refs, ref)
		}
	}
	c.codes.dead = dead
	if err := view.BlockBitsOf(c.key.model, refs, c.put); err != nil {
		return err
	}
	if 4*len(c.codes.dead) > len(c.codes.sets) {
		c.compact()
	}
	return nil
}

// compact rewrites the matrix without its dead sets; readers keep the old one.
func (c *codeMatrix) compact() {
	old := c.codes
	c.codes = codes{dims: old.dims, sets: make([]codeSet, 0, len(old.sets)-len(old.dead))}
	clear(c.place)
	old.each(func(set codeSet, words []uint64) {
		set.first = len(c.codes.words)
		c.codes.words = append(c.codes.words, words...)
		set.past = len(c.codes.words)
		c.place[set.ref] = len(c.codes.sets)
		c.codes.sets = append(c.codes.sets, set)
	})
}
