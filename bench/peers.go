package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"recalld/coordinator"
	"recalld/memory"
	"recalld/scanner/kernel"
)

// The tasks of [Peers].
const (
	TaskSigns   = "signs"   // the k nearest sign codes by Hamming distance
	TaskRecords = "records" // the k highest inner products of unit vectors of float32
	TaskRecall  = "recall"  // a whole recall, beside the reference server
)

// PeersOptions of [Peers] and of [PeersRecall].
type PeersOptions struct {
	Task    string // signs or records
	Rows    int
	Dims    int // bits of a code, a multiple of 64, or components of a vector, a multiple of 4
	K       int
	Queries int // different ones, 8 or more; they take turns
	Repeat  int // rounds, of which the quantiles are taken
	Names   []string
	Python  string // with the peers' libraries; "": none, all peers are skipped
	Scripts string // folder of the scripts
	Folder  string // empty, for files and sockets; of a short path
	Scanner []string
	// Progress counts rounds; may be nil.
	Progress coordinator.Progress
	Clock    func() time.Time
}

// PeersReport is one run: rows of all tasks that were asked for.
type PeersReport struct {
	Kind    string        `json:"kind"` // peers
	Machine Machine       `json:"machine"`
	Date    string        `json:"date"`
	Commit  string        `json:"commit"`
	Command string        `json:"command"`
	Load    []string      `json:"load"` // of the machine, before and after: /proc/loadavg
	Rows    []PeerRow     `json:"rows"`
	Skipped []PeerSkipped `json:"skipped,omitempty"`
}

// PeerRow is what one contestant took for one call: a query alone or several
// asked together.
type PeerRow struct {
	Name     string  `json:"name"`
	Version  string  `json:"version,omitempty"`
	Task     string  `json:"task"`
	N        int     `json:"n"`
	Dims     int     `json:"dims"`
	K        int     `json:"k"`
	Threads  int     `json:"threads"`
	Together int     `json:"together"` // queries of a call
	P50      float64 `json:"ms_p50"`   // of a call
	P95      float64 `json:"ms_p95"`
	Best     float64 `json:"ms_best"` // what a busy machine disturbs least
	// Ratio is P50 to that of the first contestant in the same rounds.
	Ratio float64 `json:"ratio"`
	// Recall is the share of the rows found that are among the true k nearest; a
	// row that ties with the k-th is. In recall it is hit@10.
	Recall float64 `json:"recall"`
	// Equal says that all distances of all answers are the true ones; absent in
	// recall.
	Equal  *bool              `json:"distances_equal,omitempty"`
	ByKind map[string]float64 `json:"hit_at_10,omitempty"` // in recall, by kind of question
	RSS    float64            `json:"rss_mb,omitempty"`    // of a process of its own
	Build  float64            `json:"build_s,omitempty"`
	Calls  int                `json:"calls"`
}

// PeerSkipped is a contestant that could not take part, and why.
type PeerSkipped struct {
	Name   string `json:"name"`
	Task   string `json:"task"`
	Reason string `json:"reason"`
}

// peerThreads and peerTogether are what every contestant is measured with.
func peerThreads() []int  { return []int{1, 2} }
func peerTogether() []int { return []int{1, kernel.MaxQueries} }

// ownNames are the contestants that are ours.
const (
	nameKernel  = "recalld-kernel"
	namePlugin  = "recalld-plugin"
	nameRecalld = "recalld"
)

// PeerNames are all contestants of a task, in the order of reports.
func PeerNames(task string) []string {
	switch task {
	case TaskSigns:
		return []string{nameKernel, namePlugin, "numpy", "numpy-words", "faiss", "faiss-counting", "usearch", "sqlite-vec"}
	case TaskRecords:
		return []string{nameKernel, namePlugin, "numpy", "faiss", "usearch", "sqlite-vec", "faiss-hnsw", "usearch-hnsw"}
	}
	return []string{nameRecalld, "cpersona", "cpersona-whole"}
}

// contestant answers the queries of a run.
type contestant interface {
	version() string
	// can reports whether so many threads have a use for a call of so many queries.
	can(threads, together int) bool
	// search answers queries from..from+count-1 asked together.
	search(ctx context.Context, from, count, threads int) (took time.Duration, answers []peerAnswer, err error)
	// memory is the resident size of its process in MB, 0 where that is the bench's.
	memory(ctx context.Context) (float64, error)
	built() time.Duration
	close() error
}

// peerAnswer is what one query found, best first. Distances are Hamming
// distances, or negated inner products.
type peerAnswer struct {
	ids       []int64
	distances []float64
}

// Peers lets contestants search the same rows for the same queries, call by call
// in turns, and compares every answer with one that is computed apart. A peer that
// is not there is skipped and named. Options that nothing can be measured with are
// a *[memory.FieldError].
func Peers(ctx context.Context, o PeersOptions) (rows []PeerRow, skipped []PeerSkipped, err error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	set, err := newPeerSet(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer set.free()
	var all []entrant
	defer func() {
		for _, e := range all {
			err = errors.Join(err, e.close())
		}
	}()
	for _, name := range o.Names {
		c, err := o.enter(ctx, name, set)
		var missing *missingPeer
		if errors.As(err, &missing) {
			skipped = append(skipped, PeerSkipped{Name: name, Task: o.Task, Reason: missing.reason})
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("peer %s: %w", name, err)
		}
		all = append(all, entrant{contestant: c, name: name})
	}
	rows, err = o.compete(ctx, set, all)
	return rows, skipped, err
}

func (o *PeersOptions) check() error {
	err := errors.Join(atLeastOne("rows", o.Rows), atLeastOne("k", o.K), atLeastOne("repeat", o.Repeat))
	if err != nil {
		return err
	}
	if o.Task != TaskSigns && o.Task != TaskRecords {
		return &memory.FieldError{Field: "task", Problem: memory.Shape(o.Task) + " is not known", Limit: "signs, records", Next: "choose one of them"}
	}
	if o.K > o.Rows {
		return &memory.FieldError{Field: "k", Problem: fmt.Sprintf("is %d", o.K), Limit: fmt.Sprintf("the %d rows", o.Rows), Next: "ask for fewer"}
	}
	if o.Queries < kernel.MaxQueries {
		return &memory.FieldError{Field: "queries", Problem: fmt.Sprintf("are %d", o.Queries), Limit: fmt.Sprintf("%d or more, which are asked together", kernel.MaxQueries), Next: "leave it out for the default"}
	}
	unit, most := 64, kernel.MaxBits
	if o.Task == TaskRecords {
		unit, most = 4, kernel.MaxDims
	}
	if o.Dims < unit || o.Dims%unit != 0 || o.Dims > most {
		return &memory.FieldError{Field: "dims", Problem: fmt.Sprintf("is %d", o.Dims), Limit: fmt.Sprintf("a multiple of %d up to %d", unit, most), Next: "take one of 256, 384, 768, 1024"}
	}
	for _, name := range o.Names {
		if !slices.Contains(PeerNames(o.Task), name) {
			return &memory.FieldError{Field: "peers", Problem: memory.Shape(name) + " is not known for " + o.Task, Limit: fmt.Sprint(PeerNames(o.Task)), Next: "choose among them"}
		}
	}
	return nil
}

// enter starts a contestant, whole: the next one starts after it.
func (o *PeersOptions) enter(ctx context.Context, name string, set *peerSet) (contestant, error) {
	switch name {
	case nameKernel:
		return newKernelPeer(set, o.Clock)
	case namePlugin:
		return newPluginPeer(ctx, o, set)
	}
	return newPythonPeer(ctx, o, name, set)
}

// entrant is a contestant and what it did so far.
type entrant struct {
	contestant
	name  string
	tries map[peerCell]*peerTries
}

// peerCell is one way of asking.
type peerCell struct{ threads, together int }

type peerTries struct {
	times         []time.Duration
	found, wanted int
	unequal       bool
}

// compete lets everybody answer in turns, another one first in each round. The
// first round warms up and is checked, not timed.
func (o *PeersOptions) compete(ctx context.Context, set *peerSet, all []entrant) (rows []PeerRow, err error) {
	for i := range all {
		all[i].tries = map[peerCell]*peerTries{}
	}
	for round := range o.Repeat + 1 {
		for _, threads := range peerThreads() {
			for _, together := range peerTogether() {
				from := min(round*together%o.Queries, o.Queries-together)
				for i := range all {
					e := &all[(i+round)%len(all)]
					if !e.can(threads, together) {
						continue
					}
					took, answers, err := e.search(ctx, from, together, threads)
					if err != nil {
						return nil, fmt.Errorf("peer %s: %w", e.name, err)
					}
					e.note(peerCell{threads, together}, took, round > 0, set, from, answers)
				}
			}
		}
		if o.Progress != nil {
			o.Progress(int64(round+1), int64(o.Repeat+1))
		}
	}
	for _, threads := range peerThreads() {
		for _, together := range peerTogether() {
			first := 0.
			for i := range all {
				row, err := all[i].row(ctx, o, peerCell{threads, together})
				if err != nil {
					return nil, err
				}
				if row.Calls == 0 {
					continue
				}
				if first == 0 {
					first = row.P50
				}
				row.Ratio = ratio(row.P50, first)
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func (e *entrant) note(cell peerCell, took time.Duration, counts bool, set *peerSet, from int, answers []peerAnswer) {
	t := e.tries[cell]
	if t == nil {
		t = &peerTries{}
		e.tries[cell] = t
	}
	if counts {
		t.times = append(t.times, took)
	}
	for i, a := range answers {
		found, equal := set.judge(from+i, a)
		t.found, t.wanted, t.unequal = t.found+found, t.wanted+set.k, t.unequal || !equal
	}
	if len(answers) != cell.together {
		t.unequal = true
	}
}

func (e *entrant) row(ctx context.Context, o *PeersOptions, cell peerCell) (PeerRow, error) {
	t := e.tries[cell]
	if t == nil {
		return PeerRow{}, nil
	}
	rss, err := e.memory(ctx)
	if err != nil {
		return PeerRow{}, fmt.Errorf("peer %s: %w", e.name, err)
	}
	equal := !t.unequal
	return PeerRow{Name: e.name, Version: e.version(), Task: o.Task, N: o.Rows, Dims: o.Dims, K: o.K, Threads: cell.threads, Together: cell.together,
		P50: Quantile(t.times, .5), P95: Quantile(t.times, .95), Best: Quantile(t.times, 0), Recall: share(t.found, t.wanted), Equal: &equal,
		RSS: rss, Build: round(e.built().Seconds()), Calls: len(t.times)}, nil
}

// share keeps four places, so that one row missed in a thousand shows.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(int(float64(part)/float64(whole)*10_000)) / 10_000
}

// LoadAverage is what the system says of its load, "" where it does not.
func LoadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return string(raw[:max(0, len(raw)-1)])
}

// file is the path of a file of the run.
func (o *PeersOptions) file(name string) string { return filepath.Join(o.Folder, name) }
