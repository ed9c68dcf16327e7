package static

// trie finds the pieces that begin at a position, one code point at a time. A node
// is a prefix of some piece; its children are entries of one open hash table, so
// that 80,000 pieces take a few MB and no pointers.
type trie struct {
	keys  []uint64 // parent<<32 | code point, plus 1; 0 is free
	child []int32  // node
	piece []int32  // of a node: its piece, or -1
	mask  uint64
}

// root is the empty prefix.
const root int32 = 0

func newTrie(pieces int) trie {
	size := 1
	for size < 4*pieces {
		size *= 2
	}
	return trie{keys: make([]uint64, size), child: make([]int32, size), piece: []int32{-1}, mask: uint64(size - 1)}
}

func (t *trie) slot(key uint64) uint64 {
	at := scramble(key) & t.mask
	for t.keys[at] != 0 && t.keys[at] != key {
		at = (at + 1) & t.mask
	}
	return at
}

func edge(node int32, r rune) uint64 { return (uint64(node)<<32 | uint64(uint32(r))) + 1 }

func (t *trie) add(piece string, id int32) {
	node := root
	for _, r := range piece {
		key := edge(node, r)
		at := t.slot(key)
		if t.keys[at] == 0 {
			// Twice as many slots as nodes keep the chains short.
			if 2*len(t.piece) > len(t.keys) {
				t.grow()
				at = t.slot(key)
			}
			t.keys[at], t.child[at] = key, int32(len(t.piece))
			t.piece = append(t.piece, -1)
		}
		node = t.child[at]
	}
	t.piece[node] = id
}

func (t *trie) grow() {
	old := *t
	t.keys, t.child = make([]uint64, 2*len(old.keys)), make([]int32, 2*len(old.keys))
	t.mask = uint64(len(t.keys) - 1)
	for i, key := range old.keys {
		if key != 0 {
			at := t.slot(key)
			t.keys[at], t.child[at] = key, old.child[i]
		}
	}
}

// step follows one code point, and returns false where no piece goes on.
func (t *trie) step(node int32, r rune) (int32, bool) {
	at := t.slot(edge(node, r))
	return t.child[at], t.keys[at] != 0
}
