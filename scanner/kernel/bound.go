package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"recalld/memory"
)

// BoundJob says what [BoundScans] reads. Row and query stand for unit vectors v
// and w of which int8 keeps x and y: v = s·x + d and w = t·y + e, where s and t are
// the Scale of each, and the lengths of d and e at most its Error. The cosine of v
// and w is then
//
//	s · t · (x·y)   ±   |d| + |e| + |d| · |e|
//
// Error must cover the rounding of the cosines that decide in the end as well.
type BoundJob struct {
	Values   Values
	From, To int // rows
	Live     Live
	Scale    []float32
	Error    []float32 // 0 or more; as Scale, one for each row of Values
	Path     Path
	Queries  []BoundQuery // 1 to [MaxQueries]
}

// BoundQuery is one question of a [BoundJob].
type BoundQuery struct {
	Code  []byte // int8, as long as a row
	K     int    // how many of the best rows will be wanted, 1 or more
	Scale float64
	Error float64 // 0 or more
	Floor *Floor  // of all rows, when a range is only a part of them; nil otherwise
}

// Candidate is a row that could be one of the best.
type Candidate struct {
	Row         uint32
	Dot         int32   // of the int8 rows
	Least, Most float64 // between which the cosine lies
}

// BoundScans returns for each query, in ascending order of rows, every live row of a
// range whose cosine could be one of the K highest: those whose Most is not below the
// K-th highest Least (DECISIONS 20). Rows that are all alike are all returned. The
// rows are read once for all queries. It works with so many goroutines and waits for
// them; the context is looked at between tiles. Where a query has a Floor, rows that
// do not reach it are missing, as others are known to be better. What does not fit is
// a *[memory.FieldError].
func BoundScans(ctx context.Context, job BoundJob, threads int) ([][]Candidate, error) {
	if err := job.check(); err != nil {
		return nil, err
	}
	return boundScans(ctx, &job, threads, TileRows)
}

func (j *BoundJob) check() error {
	if err := errors.Join(j.Values.check(), checkPath(j.Path)); err != nil {
		return err
	}
	rows := j.Values.Rows()
	if err := errors.Join(checkRange(j.From, j.To, rows), j.Live.check(rows)); err != nil {
		return err
	}
	if len(j.Queries) < 1 || len(j.Queries) > MaxQueries {
		return &memory.FieldError{Field: "queries", Problem: fmt.Sprintf("are %d", len(j.Queries)), Limit: fmt.Sprintf("1 to %d", MaxQueries),
			Next: "make several passes"}
	}
	for _, q := range j.Queries {
		if err := j.Values.checkQuery(q.Code); err != nil {
			return err
		}
		if q.K < 1 {
			return &memory.FieldError{Field: "k", Problem: fmt.Sprintf("is %d", q.K), Limit: "1 or more", Next: "say how many rows are wanted"}
		}
	}
	if len(j.Scale) != rows || len(j.Error) != rows {
		return &memory.FieldError{Field: "scale, error", Problem: fmt.Sprintf("are known of %d and %d rows", len(j.Scale), len(j.Error)),
			Limit: fmt.Sprintf("the %d rows of the values", rows), Next: "rebuild the file that holds them"}
	}
	return nil
}

func boundScans(ctx context.Context, job *BoundJob, threads, tileRows int) ([][]Candidate, error) {
	var next atomic.Int64
	codes := make([]byte, 0, len(job.Queries)*job.Values.Dims)
	floors := make([]*Floor, len(job.Queries))
	for i, q := range job.Queries {
		codes = append(codes, q.Code...)
		if floors[i] = q.Floor; q.Floor == nil {
			floors[i] = NewFloor()
		}
	}
	tiles := (job.To - job.From + tileRows - 1) / tileRows
	n := max(1, min(threads, tiles))
	workers, errs := make([]*boundWorker, n), make([]error, n)
	var wait sync.WaitGroup
	for i := range workers {
		w := newBoundWorker(job, codes, floors)
		workers[i] = w
		wait.Go(func() {
			for tile := int(next.Add(1)) - 1; tile < tiles; tile = int(next.Add(1)) - 1 {
				if errs[i] = ctx.Err(); errs[i] != nil {
					return
				}
				from := job.From + tile*tileRows
				w.scan(from, min(from+tileRows, job.To))
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := make([][]Candidate, len(job.Queries))
	for i := range all {
		all[i] = candidatesOf(workers, i)
	}
	return all, nil
}

// candidatesOf merges what the workers have found for one query.
func candidatesOf(workers []*boundWorker, query int) (candidates []Candidate) {
	all := lows{k: workers[0].targets[query].query.K}
	for _, w := range workers {
		candidates = append(candidates, w.targets[query].candidates...)
	}
	for _, c := range candidates {
		all.push(c.Least)
	}
	floor := max(all.kth(), workers[0].targets[query].shared.load())
	candidates = slices.DeleteFunc(candidates, func(c Candidate) bool { return c.Most < floor })
	slices.SortFunc(candidates, func(a, b Candidate) int { return cmp.Compare(a.Row, b.Row) })
	return candidates
}

type boundWorker struct {
	job     *BoundJob
	codes   []byte // of all queries, one behind the other
	targets []boundTarget
	dots    []int32 // boundRows for each query
}

// boundTarget is where the candidates of one query go.
type boundTarget struct {
	query      BoundQuery
	shared     *Floor
	lows       lows
	candidates []Candidate
	compactAt  int // this many candidates
}

// boundRows is how many rows are multiplied before any bound is looked at.
const boundRows = 1024

func newBoundWorker(job *BoundJob, codes []byte, floors []*Floor) *boundWorker {
	w := &boundWorker{job: job, codes: codes, targets: make([]boundTarget, len(job.Queries)), dots: make([]int32, len(job.Queries)*boundRows)}
	for i, q := range job.Queries {
		w.targets[i] = boundTarget{query: q, shared: floors[i], lows: lows{k: q.K}}
	}
	return w
}

func (w *boundWorker) scan(from, to int) {
	for ; from < to; from += boundRows {
		n := min(boundRows, to-from)
		dots := w.dots[:len(w.targets)*n]
		w.job.Values.dotsTogether(w.job.Path, from, w.codes, dots)
		scale, e := w.job.highest(from, from+n)
		for i := range w.targets {
			w.targets[i].take(w.job, from, dots[i*n:(i+1)*n], scale, e)
		}
	}
	for i := range w.targets {
		w.targets[i].shared.Lift(w.targets[i].lows.kth())
	}
}

// highest returns the highest Scale and Error of some rows, or what is not a
// number when one of them is not, or is a negative Scale.
func (j *BoundJob) highest(from, to int) (scale, e float32) {
	errs := j.Error[from:to]
	for i, one := range j.Scale[from:to] {
		if !(one >= 0) || math.IsNaN(float64(errs[i])) {
			return float32(math.NaN()), 0
		}
		if one > scale {
			scale = one
		}
		if errs[i] > e {
			e = errs[i]
		}
	}
	return scale, e
}

// cosine returns the middle and half the width of the range in which the cosine of
// a row lies.
func (q *BoundQuery) cosine(dot int32, scale, e float32) (estimate, width float64) {
	estimate = float64(float64(float64(dot)*float64(scale)) * q.Scale)
	return estimate, float64(e) + q.Error + float64(float64(e)*q.Error)
}

// leastDot returns a dot product below which no row can reach the floor, given the
// highest scale and error that it can have. What is added and multiplied grows
// with each of the three, and so does what it is rounded to.
func (q *BoundQuery) leastDot(scale, e float32, floor float64) int32 {
	_, width := q.cosine(0, scale, e)
	least := (floor - width) / float64(float64(scale)*q.Scale)
	if !(least >= 1 && least <= math.MaxInt32 && q.Error >= 0) {
		return math.MinInt32
	}
	if below, _ := q.cosine(int32(least)-1, scale, e); !(below+width < floor) {
		return math.MinInt32
	}
	return int32(least)
}

// take keeps the rows whose Most reaches the floor. Of most of them the dot product
// alone says that it does not.
func (t *boundTarget) take(j *BoundJob, from int, dots []int32, scale, e float32) {
	floor := max(t.lows.kth(), t.shared.load())
	least := t.query.leastDot(scale, e, floor)
	for i, dot := range dots {
		if dot < least {
			continue
		}
		row := from + i
		estimate, width := t.query.cosine(dot, j.Scale[row], j.Error[row])
		if estimate+width < floor || !j.Live.Has(row) {
			continue
		}
		t.candidates = append(t.candidates, Candidate{Row: uint32(row), Dot: dot, Least: estimate - width, Most: estimate + width})
		t.lows.push(estimate - width)
		floor = max(floor, t.lows.kth())
		if len(t.candidates) >= t.compactAt {
			t.candidates = slices.DeleteFunc(t.candidates, func(c Candidate) bool { return c.Most < floor })
			t.compactAt = max(4096, 2*len(t.candidates))
		}
	}
}

// lows keeps the k highest of the numbers pushed: a heap with the least on top.
type lows struct {
	k    int
	heap []float64
}

// kth is the k-th highest number, minus infinity while there are fewer.
func (l *lows) kth() float64 {
	if len(l.heap) < l.k {
		return math.Inf(-1)
	}
	return l.heap[0]
}

// push adds a number. What is not one tells nothing.
func (l *lows) push(x float64) {
	if math.IsNaN(x) {
		x = math.Inf(-1)
	}
	switch {
	case len(l.heap) < l.k:
		l.heap = append(l.heap, x)
		for i := len(l.heap) - 1; i > 0 && l.heap[i] < l.heap[(i-1)/2]; i = (i - 1) / 2 {
			l.heap[i], l.heap[(i-1)/2] = l.heap[(i-1)/2], l.heap[i]
		}
	case x > l.heap[0]:
		l.heap[0] = x
		l.sink()
	}
}

func (l *lows) sink() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l.heap); child++ {
			if l.heap[child] < l.heap[least] {
				least = child
			}
		}
		if least == i {
			return
		}
		l.heap[i], l.heap[least] = l.heap[least], l.heap[i]
		i = least
	}
}

// Floor is the highest number that any worker knows the K-th highest Least to reach,
// or whoever else has looked at rows of the same query.
type Floor struct{ bits atomic.Uint64 }

// NewFloor returns one that every row reaches.
func NewFloor() *Floor {
	f := new(Floor)
	f.bits.Store(math.Float64bits(math.Inf(-1)))
	return f
}

func (f *Floor) load() float64 { return math.Float64frombits(f.bits.Load()) }

// Lift raises a floor to a number, if it is lower. It may be called concurrently.
func (f *Floor) Lift(to float64) {
	for {
		now := f.bits.Load()
		if math.Float64frombits(now) >= to || f.bits.CompareAndSwap(now, math.Float64bits(to)) {
			return
		}
	}
}
