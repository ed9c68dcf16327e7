package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"recalld/memory"
)

const (
	// MaxQueries is how many queries one pass over the rows serves. Four cost
	// hardly more than one.
	MaxQueries = 8
	// TileRows is how many rows a worker takes at a time.
	TileRows = 1 << 16
)

// Query is one question of a [Scan].
type Query struct {
	Code    []byte // as wide as a row
	Rows    int    // how many of the best rows are wanted; 0 or more
	Parents int    // how many of the parents with the best rows are wanted; 0 or more
	// Limit is the distance from which on rows are of no use; 0 is no limit. When k
	// rows with distances up to d are known from elsewhere, it may be d+1 and no
	// less: rows that tie with the k-th may precede it.
	Limit int
}

// Answer is what one [Query] found: at most as many hits as were wanted, in
// ascending order of distance, then ordinal or [Job.Precedes]. A hit of Parents is
// a parent's best row.
type Answer struct {
	Rows    []Hit
	Parents []Hit
}

// Job says what a [Scan] reads.
type Job struct {
	Matrix   Matrix
	From, To int // rows; whole parents where parents are wanted
	Queries  []Query
	Live     Live // nil: all rows
	Parents  Runs // needed where parents are wanted
	// Precedes says which of two rows comes first when their distances are equal.
	// nil means by ordinal, which is right, and fastest, inside one cell: its rows
	// are sorted. It must be a total order over the rows of the range, in which
	// the rows of one parent keep the order of their ordinals.
	Precedes func(a, b uint32) bool
	Path     Path
}

// Scan is one pass over a range of rows. Make workers, let each take tiles until
// none is left, then read the answers; or let [Scan.Run] do all that.
type Scan struct {
	job      Job
	queries  []byte // all codes, one behind the other
	next     atomic.Int64
	nearest  []atomic.Uint32 // per query and target: the least known distance of a k-th best, of any worker
	mu       sync.Mutex
	workers  []*Worker
	tileRows int
}

// New prepares a pass. What does not fit is a *[memory.FieldError].
func New(job Job) (*Scan, error) {
	if err := job.check(); err != nil {
		return nil, err
	}
	s := &Scan{job: job, nearest: make([]atomic.Uint32, 2*len(job.Queries)), tileRows: TileRows}
	for i, q := range job.Queries {
		s.queries = append(s.queries, q.Code...)
		s.nearest[2*i].Store(uint32(job.Matrix.Bits) + 1)
		s.nearest[2*i+1].Store(uint32(job.Matrix.Bits) + 1)
	}
	return s, nil
}

func (j *Job) check() error {
	if err := j.Matrix.check(); err != nil {
		return err
	}
	rows := j.Matrix.Rows()
	if err := errors.Join(checkRange(j.From, j.To, rows), j.Live.check(rows), checkPath(j.Path)); err != nil {
		return err
	}
	if len(j.Queries) < 1 || len(j.Queries) > MaxQueries {
		return &memory.FieldError{Field: "queries", Problem: fmt.Sprintf("are %d", len(j.Queries)), Limit: fmt.Sprintf("1 to %d", MaxQueries),
			Next: "make several passes"}
	}
	for i, q := range j.Queries {
		field := fmt.Sprintf("queries[%d]", i)
		switch {
		case len(q.Code) != j.Matrix.Bits/8:
			return &memory.FieldError{Field: field, Problem: fmt.Sprintf("has %d bytes", len(q.Code)), Limit: fmt.Sprintf("the %d of a row", j.Matrix.Bits/8),
				Next: "make the code with the model of the matrix"}
		case q.Rows < 0 || q.Parents < 0 || q.Limit < 0:
			return &memory.FieldError{Field: field, Problem: "asks for a negative number", Limit: "0 or more", Next: "leave it out for none"}
		case q.Parents > 0 && j.Parents == nil:
			return &memory.FieldError{Field: field, Problem: "asks for parents of unknown rows", Limit: "rows whose parents are given",
				Next: "give the runs of the parents"}
		}
	}
	return nil
}

func checkPath(p Path) error {
	if p != Go && !compiled(p) {
		return &memory.FieldError{Field: "path", Problem: p.String() + " cannot run here", Limit: "one of Paths", Next: "take Best"}
	}
	return nil
}

// Run scans with so many goroutines, at least one, and waits for them. It ends
// early, between tiles, with the context's error.
func (s *Scan) Run(ctx context.Context, threads int) error {
	tiles := (s.job.To - s.job.From + s.tileRows - 1) / s.tileRows
	errs := make([]error, max(1, min(threads, tiles)))
	var wait sync.WaitGroup
	for i := range errs[1:] {
		wait.Go(func() { errs[i+1] = s.Worker().Run(ctx) })
	}
	errs[0] = s.Worker().Run(ctx)
	wait.Wait()
	return errors.Join(errs...)
}

// Answers returns what was found, one answer a query. All workers must have
// ended; when one ended early, the answers are those of the rows that were read.
func (s *Scan) Answers() []Answer {
	answers := make([]Answer, len(s.job.Queries))
	for i := range answers {
		var rows, parents []*selection
		for _, w := range s.workers {
			if t := w.targets[i]; t.rows != nil {
				rows = append(rows, t.rows)
			}
			if t := w.targets[i]; t.parents != nil {
				parents = append(parents, t.parents)
			}
		}
		answers[i] = Answer{Rows: best(rows), Parents: best(parents)}
	}
	return answers
}

// tile returns the rows of tile i. Where parents are wanted, it is cut where one
// ends, so that one worker sees all rows of a parent. Tiles may be empty.
func (s *Scan) tile(i int64) (from, to int) {
	return s.cut(s.job.From + int(i)*s.tileRows), s.cut(s.job.From + int(i+1)*s.tileRows)
}

func (s *Scan) cut(row int) int {
	if row >= s.job.To {
		return s.job.To
	}
	if s.job.Parents == nil || row == s.job.From {
		return row
	}
	first, end := s.job.Parents.Run(row)
	if first == row {
		return row
	}
	return min(end, s.job.To)
}
