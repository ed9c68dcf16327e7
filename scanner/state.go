package scanner

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// state is what one scan sees. It never changes; Publish and Apply make another
// one, which shares what is the same.
type state struct {
	generation uint64
	sequence   int64
	digest     []byte
	models     map[int64]*model
	lease      *lease
}

func (s *state) wire() *scannerv1.State {
	return &scannerv1.State{Generation: s.generation, Sequence: s.sequence, Digest: s.digest}
}

// model is the rows of one model.
type model struct {
	source   layout.Source
	segments []*segment                // of sign codes
	records  []*segment                // of int8 codes of record vectors
	values   map[uint32]*layout.Values // by number
	delta    []*part                   // by cell, ascending
	vectors  []*vectors                // of records, as delta
}

// stride is the bytes of a row of codes.
func (m *model) stride() int { return (m.source.Dims + 63) / 64 * 8 }

// segment is a file of codes and which of its rows are live.
type segment struct {
	*layout.Segment
	dead *roaring.Bitmap // never changed
	live kernel.Live     // never changed; nil: all
	// verified says of which [kernel.TileRows] rows everything was. It belongs to
	// the file, whatever becomes of its rows.
	verified []atomic.Bool

	mu     sync.Mutex
	capped kernel.Live // live within the first cap rows of each record
	cap    int         // 0: none made yet
}

// newSegment makes the live bitmap of a file whose rows in dead are gone.
func newSegment(f *file, dead *roaring.Bitmap) (*segment, error) {
	file := f.segment
	rows := file.Header().Rows
	if !dead.IsEmpty() && int(dead.Maximum()) >= rows {
		return nil, invalid("segments.dead", "%s has %d rows, and row %d is to be gone", file.Name(), rows, dead.Maximum())
	}
	absent, err := file.Absent()
	if err != nil {
		return nil, inFile(file.Name(), err)
	}
	s := &segment{Segment: file, dead: dead, verified: f.verified}
	if len(absent) == 0 && dead.IsEmpty() {
		return s, nil
	}
	s.live = kernel.NewLive(rows)
	for _, row := range absent {
		s.live.Clear(int(row))
	}
	for it := dead.Iterator(); it.HasNext(); {
		s.live.Clear(int(it.Next()))
	}
	return s, nil
}

// without returns the segment with more rows gone.
func (s *segment) without(gone []layout.Range) *segment {
	rows := s.Header().Rows
	next := &segment{Segment: s.Segment, verified: s.verified, dead: s.dead.Clone(), live: cloneLive(s.live, rows)}
	s.mu.Lock()
	if s.cap > 0 {
		next.cap, next.capped = s.cap, cloneLive(s.capped, rows)
	}
	s.mu.Unlock()
	for _, r := range gone {
		next.dead.AddRange(uint64(r.From), uint64(r.To))
		for row := r.From; row < r.To; row++ {
			next.live.Clear(row)
			if next.cap > 0 {
				next.capped.Clear(row)
			}
		}
	}
	return next
}

// liveWithin is the bitmap under a cap of so many rows a record, 0 for none. The
// last cap's is kept: it is one server's policy.
func (s *segment) liveWithin(most int, records kernel.Runs) kernel.Live {
	if most == 0 {
		return s.live
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cap != most {
		rows := s.Header().Rows
		s.capped = cloneLive(s.live, rows)
		s.capped.Cap(0, rows, records, most)
		s.cap = most
	}
	return s.capped
}

// cloneLive copies a bitmap over so many rows; nil becomes one that can be
// changed.
func cloneLive(l kernel.Live, rows int) kernel.Live {
	if l == nil {
		return kernel.NewLive(rows)
	}
	return slices.Clone(l)
}

// newState opens a generation. After an error the lease has what was opened.
func (s *Server) newState(p *scannerv1.PublishRequest, l *lease) (*state, error) {
	next := &state{generation: p.GetGeneration(), sequence: p.GetSequence(), models: make(map[int64]*model), lease: l}
	sum := sha256.New()
	for _, m := range p.GetModels() {
		if len(m.GetIdentity()) != sha256.Size || m.GetDims() < 1 || m.GetDims() > layout.MaxDims || next.models[m.GetNumber()] != nil {
			return nil, invalid("models", "model %d has %d bytes of identity and %d components, or is there twice", m.GetNumber(), len(m.GetIdentity()), m.GetDims())
		}
		next.models[m.GetNumber()] = &model{values: make(map[uint32]*layout.Values),
			source: layout.Source{TruthID: s.truthID, Model: m.GetNumber(), Identity: [sha256.Size]byte(m.GetIdentity()), Dims: int(m.GetDims())}}
	}
	for _, g := range p.GetSegments() {
		segment, err := s.openSegment(l, next, g, layout.Signs)
		if err != nil {
			return nil, err
		}
		m := next.models[g.GetModel()]
		m.segments = append(m.segments, segment)
		fmt.Fprintf(sum, "%d %s\n", g.GetModel(), g.GetName())
	}
	for _, g := range p.GetRecords() {
		segment, err := s.openSegment(l, next, g, layout.Int8)
		if err != nil {
			return nil, err
		}
		m := next.models[g.GetModel()]
		m.records = append(m.records, segment)
		fmt.Fprintf(sum, "%d records %s\n", g.GetModel(), g.GetName())
	}
	for _, v := range p.GetValues() {
		m := next.models[v.GetModel()]
		if m == nil || m.values[v.GetNumber()] != nil {
			return nil, invalid("values", "file %d is of model %d, which is not listed, or is there twice", v.GetNumber(), v.GetModel())
		}
		f, err := s.open(l, fileKey{m.source, v.GetName()}, true)
		if err != nil {
			return nil, err
		}
		if number := f.values.Header().Number; number != v.GetNumber() {
			return nil, inFile(v.GetName(), fmt.Errorf("%w: it is value file %d, not %d", layout.ErrForeign, number, v.GetNumber()))
		}
		m.values[v.GetNumber()] = f.values
		fmt.Fprintf(sum, "%d %d %s\n", v.GetModel(), v.GetNumber(), v.GetName())
	}
	next.digest = sum.Sum(nil)
	return next, nil
}

// openSegment opens a segment of a generation.
func (s *Server) openSegment(l *lease, in *state, g *scannerv1.Segment, kind layout.Kind) (*segment, error) {
	m := in.models[g.GetModel()]
	if m == nil {
		return nil, invalid("segments", "%s is of model %d, which is not listed", memory.Shape(g.GetName()), g.GetModel())
	}
	dead := roaring.New()
	if len(g.GetDead()) > 0 {
		if err := dead.UnmarshalBinary(g.GetDead()); err != nil {
			return nil, invalid("segments.dead", "does not decode: %v", err)
		}
		if err := dead.Validate(); err != nil {
			return nil, invalid("segments.dead", "is not a bitmap: %v", err)
		}
	}
	f, err := s.open(l, fileKey{m.source, g.GetName()}, false)
	if err != nil {
		return nil, err
	}
	if has := f.segment.Header().Kind; has != kind {
		return nil, invalid("segments", "%s has codes of kind %d, not %d", g.GetName(), has, kind)
	}
	return newSegment(f, dead)
}

// with returns the state after changes. They are checked before anything is
// done; after an error there is nothing to undo.
func (s *state) with(a *scannerv1.ApplyRequest) (*state, error) {
	next := *s
	next.sequence = a.GetSequence()
	next.models = maps.Clone(s.models)
	gone := make(map[*segment][]layout.Range)
	for _, c := range a.GetChanges() {
		m := s.models[c.GetModel()]
		if m == nil {
			return nil, invalid("changes", "model %d is not published", c.GetModel())
		}
		if err := checkChange(m, c); err != nil {
			return nil, err
		}
		if err := find(m.segments, c.GetCell(), c.GetRef(), gone); err != nil {
			return nil, err
		}
	}
	for _, c := range a.GetVectors() {
		m := s.models[c.GetModel()]
		if m == nil {
			return nil, invalid("vectors", "model %d is not published", c.GetModel())
		}
		if err := checkVector(m, c); err != nil {
			return nil, err
		}
		if err := find(m.records, c.GetCell(), c.GetRef(), gone); err != nil {
			return nil, err
		}
	}
	for number, m := range s.models {
		changed := *m
		changed.segments, changed.records = without(m.segments, gone), without(m.records, gone)
		changed.delta, changed.vectors = deltaWith(m, a.GetChanges()), vectorsWith(m, a.GetVectors())
		next.models[number] = &changed
	}
	return &next, nil
}

// without returns segments after rows are gone.
func without(segments []*segment, gone map[*segment][]layout.Range) []*segment {
	segments = slices.Clone(segments)
	for i, segment := range segments {
		if len(gone[segment]) > 0 {
			segments[i] = segment.without(gone[segment])
		}
	}
	return segments
}

// find adds the live rows of a record in a cell.
func find(segments []*segment, cell *scannerv1.Cell, ref *scannerv1.Ref, into map[*segment][]layout.Range) error {
	for _, segment := range segments {
		r, found, err := segment.find(cellOf(cell), refOf(ref))
		if err != nil {
			return inFile(segment.Name(), err)
		}
		if found && !segment.dead.Contains(uint32(r.From)) {
			into[segment] = append(into[segment], r)
		}
	}
	return nil
}

// find returns the rows of a record in a cell.
func (s *segment) find(cell layout.Cell, ref memory.Ref) (r layout.Range, found bool, err error) {
	err = layout.Guard(func() error {
		if err := s.Intact(); err != nil {
			return err
		}
		rows, err := s.CellRows(cell)
		if err != nil || rows.Len() == 0 {
			return err
		}
		table, err := s.Rows()
		if err != nil {
			return err
		}
		r, found = table.Find(rows, ref)
		return nil
	})
	return r, found, err
}

func cellOf(c *scannerv1.Cell) layout.Cell {
	return layout.Cell{Agent: c.GetAgent(), Project: c.GetProject(), Channel: c.GetChannel()}
}

func refOf(r *scannerv1.Ref) memory.Ref {
	return memory.Ref{Kind: memory.Kind(r.GetKind()), ID: r.GetId()}
}
