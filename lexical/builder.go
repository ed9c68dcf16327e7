package lexical

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
)

// Builder codes rows into a file without an index, as bulk import and rebuilding
// do. It is not safe for concurrent use.
type Builder struct {
	words  *Analyser
	tables map[place]*Table
	ids    []TermID
	text   int64
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{words: NewAnalyser(), tables: make(map[place]*Table)}
}

// Add adds a row, in place of an earlier row of the same record and cell.
func (b *Builder) Add(d Doc) {
	at := place{d.Cell, d.Ref.Kind}
	t := b.tables[at]
	if t == nil {
		t = newTable(b.words)
		b.tables[at] = t
	}
	b.ids = t.put(d, b.ids)
	b.text += int64(len(d.Text))
}

// Text returns the bytes of text added, for the caller to decide when to seal.
func (b *Builder) Text() int64 { return b.text }

// Seal returns the rows as a file. The same rows give the same bytes in whatever
// order they were added. The builder is empty afterwards.
func (b *Builder) Seal() ([]byte, error) {
	var parts []part
	none := []*roaring.Bitmap{nil}
	for at, t := range b.tables {
		t.settle()
		v := view{newSequence([]source{t}, none), none}
		coded, err := encode(at.kind, v)
		if err != nil {
			return nil, fmt.Errorf("seal postings of cell %d: %w", at.cell, err)
		}
		parts = append(parts, part{at, coded, v.rows})
		delete(b.tables, at)
	}
	*b = *NewBuilder()
	return join(parts), nil
}
