package lexical

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
)

// rowKey orders the rows of a partition: rows of one session stand together in
// the order in which they were stored.
type rowKey struct {
	session uint64 // sessionOf the record's session, 0 when it has none
	id      int64
}

func compareKeys(a, b rowKey) int {
	if c := cmp.Compare(a.session, b.session); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// continues reports whether a row with key b, next after one with key a, is in
// the same session. Rows without a session are alone.
func (a rowKey) continues(b rowKey) bool { return a.session != 0 && a.session == b.session }

// sessionOf returns the number that stands for a session inside one cell: 64
// bits of SHA-256. Every source uses it, so that even two sessions that met in
// one number would rank the same from all of them.
func sessionOf(session string) uint64 {
	if session == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(session))
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}

// termList is one term and its postings.
type termList struct {
	term string
	list list
}

// source is where rows of one cell and kind and their postings are read from:
// a [Table] in memory or a [Partition] in a file. Ordinals run from 0 in the
// order of keys; rows that have been deleted since may be among them.
type source interface {
	// Rows returns the number of ordinals.
	Rows() int
	// sessions returns the number of sessions, those without one being one; session
	// and sessionFirst return the number that stands for one of them, ascending, and
	// its first row.
	sessions() int
	session(i int) uint64
	sessionFirst(i int) uint32
	// key returns the key of a row.
	key(row int) rowKey
	// length returns the number of words of a row.
	length(row int) uint32
	// lengths fills dst with the lengths of consecutive rows from row on, and
	// joined with whether each continues the session of the row before it.
	lengths(row int, dst []uint32, joined []bool)
	// total returns the sum of all lengths.
	total() uint64
	// find returns the ordinal of a record.
	find(id int64) (row int, ok bool)
	// postings returns the list of a query's term, that of a prefix merged from all
	// terms that begin with it; its count is 0 when there is none.
	postings(term QueryTerm) (list, error)
	// dictionary yields every term in ascending byte order, and an error at most once,
	// at the end.
	dictionary() iter.Seq2[termList, error]
}
