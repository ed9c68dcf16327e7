package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"recalld/coordinator"
	"recalld/memory"
)

// ReachOptions of [Reach].
type ReachOptions struct {
	Folder  string // an empty folder
	Path    string // holds LoCoMo's turns.jsonl and questions.jsonl; "" leaves that family out
	Records int    // distractors beside the written records
	Limit   int    // targets of each family at most, 0 for all
	// Overrides are settings, such as those of the embedding model. The bench sets
	// blocks.retrieve itself.
	Overrides map[string]string
	Progress  coordinator.Progress // counts questions; may be nil
	Clock     func() time.Time
}

// ReachReport is one measurement of what the block arm reaches, by the procedure
// that docs/benchmarks/reach.md registers.
type ReachReport struct {
	Families map[string]*ReachFamily `json:"families"`
	Settings ReachSettings           `json:"settings"`
	Machine  Machine                 `json:"machine"`
}

// ReachSettings are what the figures depend on.
type ReachSettings struct {
	Model       string `json:"model"`
	Dims        int    `json:"dims"`
	Seed        uint64 `json:"seed"`
	Records     int64  `json:"records"`           // of all families
	Distractors int    `json:"distractors"`       // of them
	Sets        int64  `json:"records_in_blocks"` // records that have blocks
	Blocks      int64  `json:"blocks"`
	Rows        int    `json:"rows"`
	Reserved    int    `json:"reserved"`
	ParentCap   int    `json:"parent_cap"`
	ScanCap     int    `json:"scan_cap"`
	Rerank      int    `json:"rerank_rows"`
}

// ReachFamily is what became of one family's targets. A target is reached when
// its record is among the rows.
type ReachFamily struct {
	Targets int         `json:"targets"`
	Before  ReachBefore `json:"before"`
	After   ReachAfter  `json:"after"`
	// Hamming and Rerank count targets by per-record cap and depth: what the rows
	// before and the reserved rows reach in the order of codes, and in that of the
	// re-ranked vectors.
	Hamming map[string]map[string]ReachCount `json:"hamming"`
	Rerank  map[string]map[string]ReachCount `json:"rerank"`
	// LostByRerank are the targets that codes reach at the cap in force and the
	// arm's depth, and the re-rank does not.
	LostByRerank []string       `json:"lost_by_rerank"`
	Misses       map[string]int `json:"misses"` // of the recalls with blocks, each target under one cause
	AllArms      ReachArms      `json:"all_arms"`
	// Moved counts rows of the answers before that are not at the same place with
	// the same score after. There may be none.
	Moved      int                         `json:"rows_moved"`
	ByLanguage map[string]*ReachByLanguage `json:"by_language,omitempty"`
}

// ReachBefore is the vector path without blocks.
type ReachBefore struct {
	Rows int `json:"rows"` // targets among as many rows as are asked for
	More int `json:"rows_and_reserved"`
	Pool int `json:"pool"` // targets among the vector arm's candidates
}

// ReachAfter is the vector path with blocks, as a caller gets it.
type ReachAfter struct {
	Rows         int `json:"rows"`           // targets among all rows
	Shown        int `json:"shown"`          // of them, those whose statement the row shows whole
	Gained       int `json:"gained"`         // reached after, not among the more rows before
	Lost         int `json:"lost"`           // the opposite
	Reserved     int `json:"reserved_rows"`  // rows that the arm added, over all questions
	ReservedHeld int `json:"reserved_right"` // of them, records of the target
}

// ReachCount is one cell of a sweep.
type ReachCount struct {
	Reached int `json:"reached"`
	Pool    int `json:"pool"` // targets anywhere in the block arm's ranking
}

// ReachArms is what a caller gets from the default arms.
type ReachArms struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

// ReachByLanguage is a family's part in one language.
type ReachByLanguage struct {
	Targets int `json:"targets"`
	Before  int `json:"before"` // as ReachBefore.More
	After   int `json:"after"`  // as ReachAfter.Rows
	Shown   int `json:"shown"`
}

// The causes of a miss, in the order in which they are looked for.
const (
	missNotScanned    = "not_scanned"
	missQuotationCut  = "quotation_cut"
	missBelowDepth    = "below_depth"
	missLostReserving = "lost_reservation"
)

// reachRows is how many rows a question asks for.
const reachRows = coordinator.DefaultCount

// reachQuestion is one question and where its answer stands.
type reachQuestion struct {
	family, language string
	agent            string
	text             string
	ref              string      // the record that holds the target
	target           memory.Span // in it
	statement        string
}

// Reach stores the written slice and its distractors, and with a path LoCoMo's
// sessions, waits for their blocks and asks every question without and with the
// block arm. Numbers that nothing can be measured with are a
// *[memory.FieldError].
func Reach(ctx context.Context, o ReachOptions) (*ReachReport, error) {
	if err := atLeastOne("records", o.Records); err != nil {
		return nil, err
	}
	if o.Limit < 0 {
		return nil, &memory.FieldError{Field: "limit", Problem: fmt.Sprintf("is %d", o.Limit), Limit: "0 or more", Next: "leave it out for all targets"}
	}
	t := &reachTrial{ctx: ctx, o: o}
	if err := t.open(); err != nil {
		return nil, err
	}
	report, err := t.measure()
	return report, errors.Join(err, t.close())
}

func (t *reachTrial) measure() (*ReachReport, error) {
	questions, err := t.fill()
	if err != nil {
		return nil, err
	}
	report := &ReachReport{Families: map[string]*ReachFamily{}}
	if report.Settings, err = t.settings(); err != nil {
		return nil, err
	}
	before, err := t.askAll(questions, false)
	if err != nil {
		return nil, err
	}
	after, err := t.askAll(questions, true)
	if err != nil {
		return nil, err
	}
	sweep, err := t.newSweep(report.Settings)
	if err != nil {
		return nil, err
	}
	defer sweep.view.Close()
	for i, q := range questions {
		f := report.Families[q.family]
		if f == nil {
			f = newReachFamily()
			report.Families[q.family] = f
		}
		if err := f.add(q, before[i], after[i], sweep); err != nil {
			return nil, fmt.Errorf("question %d: %w", i+1, err)
		}
		t.step(questions)
	}
	return report, nil
}

func newReachFamily() *ReachFamily {
	return &ReachFamily{
		Hamming: map[string]map[string]ReachCount{}, Rerank: map[string]map[string]ReachCount{}, LostByRerank: []string{},
		Misses:     map[string]int{missNotScanned: 0, missQuotationCut: 0, missBelowDepth: 0, missLostReserving: 0},
		ByLanguage: map[string]*ReachByLanguage{},
	}
}

// add counts one question.
func (f *ReachFamily) add(q reachQuestion, before, after reachAnswer, s *reachSweep) error {
	asked := before.vector[:min(reachRows, len(before.vector))]
	swept, err := s.question(q, asked)
	if err != nil {
		return err
	}
	f.Targets++
	early := place(before.vector, q.ref)
	more := early >= 0
	reached := place(after.vector, q.ref)
	shown := reached >= 0 && after.vector[reached].shown
	count(&f.Before.Rows, more && early < reachRows)
	count(&f.Before.More, more)
	count(&f.Before.Pool, before.pooled)
	count(&f.After.Rows, reached >= 0)
	count(&f.After.Shown, shown)
	count(&f.After.Gained, reached >= 0 && !more)
	count(&f.After.Lost, reached < 0 && more)
	count(&f.AllArms.Before, place(before.all, q.ref) >= 0)
	count(&f.AllArms.After, place(after.all, q.ref) >= 0)
	for _, row := range after.vector {
		count(&f.After.Reserved, row.reserved)
		count(&f.After.ReservedHeld, row.reserved && row.ref == q.ref)
	}
	f.Moved += moved(asked, after.vector) + moved(before.all, after.all)
	swept.addTo(f)
	if swept.lost {
		f.LostByRerank = append(f.LostByRerank, q.statement)
	}
	if cause := swept.cause(reached >= 0, shown); cause != "" {
		f.Misses[cause]++
	}
	l := f.ByLanguage[q.language]
	if l == nil {
		l = &ReachByLanguage{}
		f.ByLanguage[q.language] = l
	}
	l.Targets++
	count(&l.Before, more)
	count(&l.After, reached >= 0)
	count(&l.Shown, shown)
	return nil
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

// place is where a record stands among rows, or -1.
func place(rows []reachRow, ref string) int {
	return slices.IndexFunc(rows, func(r reachRow) bool { return r.ref == ref })
}

// Names returns the families of a report in order.
func (r *ReachReport) Names() []string { return slices.Sorted(maps.Keys(r.Families)) }
