package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"recalld/coordinator"
	"recalld/memory"
)

// ladderSeed makes the records and the needles of every rung.
const ladderSeed = 1

// The shapes of a ladder.
const (
	ShapeOne       = "one"       // every record in one cell
	ShapeZipf      = "zipf"      // a thousand agents; sizes fall as one over the rank
	ShapeTiny      = "tiny"      // every record in a cell of its own, ten cells an agent
	ShapeNeighbour = "neighbour" // an agent of a thousand records, beside one of all others
	ShapeVectors   = "vectors"   // random codes alone, without a store
)

// LadderShapes lists the shapes.
func LadderShapes() []string {
	return []string{ShapeOne, ShapeZipf, ShapeTiny, ShapeNeighbour, ShapeVectors}
}

// LadderOptions of [Ladder].
type LadderOptions struct {
	Folder    string // of the rungs; what is finished there is not built again
	Records   []int  // of each rung
	Shape     string // one of [LadderShapes]
	Questions int    // of each kind at most, 0 for all
	// Overrides are settings. The bench sets blocks.build and blocks.retrieve itself.
	Overrides map[string]string
	Scanner   coordinator.Scanner // compares vectors; without a command the coordinator does
	// Phase is told what begins and returns where its progress goes and what to call
	// at its end; may be nil.
	Phase func(title string) (coordinator.Progress, func())
	Clock func() time.Time

	small int // records of the small agent of the shape neighbour; 0: smallAgentRecords
}

// smallAgentRecords is how many records stand beside the neighbour's.
const smallAgentRecords = 1_000

// LadderReport is one run of a ladder. Kind tells report files apart.
type LadderReport struct {
	Kind    string       `json:"kind"` // ladder
	Rungs   []LadderRung `json:"rungs"`
	Machine Machine      `json:"machine"`
}

// KindLadder is the kind of a LadderReport.
const KindLadder = "ladder"

// LadderRung is what one size gave. Times are milliseconds of the second of two
// equal recalls, so that embedding is not in them; MB are a million bytes.
type LadderRung struct {
	Shape   string `json:"shape"`
	Records int    `json:"records"`
	Blocks  int64  `json:"blocks"`
	Sets    int64  `json:"records_in_blocks,omitempty"`
	Agents  int    `json:"agents,omitempty"`
	Cells   int    `json:"cells,omitempty"`
	Model   string `json:"model,omitempty"`
	Dims    int    `json:"dims"`
	Path    string `json:"path,omitempty"`    // instructions of the shape vectors
	Scanner string `json:"scanner,omitempty"` // auto, or off: the coordinator compared by itself

	RecallMS Latencies `json:"recall_ms"`
	// ArmMS are recalls of parts: lexical; vector without blocks; vector_and_block;
	// block, the difference of the two, question by question; answer, a listing of
	// the newest rows, which asks no arm.
	ArmMS map[string]Latencies `json:"arm_ms"`
	// CPU is the processor time of one recall on average, embedding included, by
	// process, in milliseconds.
	CPU     map[string]float64 `json:"cpu_ms,omitempty"`
	EmbedMS *Latencies         `json:"embed_ms,omitempty"` // of one question
	OpenMS  float64            `json:"open_ms,omitempty"`  // of file and coordinator, derived files being there
	ReadyMS float64            `json:"ready_ms,omitempty"` // until all of it is answered from them
	FirstMS float64            `json:"first_ms,omitempty"` // of the first recall after that

	Questions map[string]int     `json:"questions"` // by kind
	HitAt1    map[string]float64 `json:"hit_at_1"`
	HitAt10   map[string]float64 `json:"hit_at_10"`
	// HitInAnswer counts the reserved rows behind the ten as well.
	HitInAnswer map[string]float64 `json:"hit_in_answer,omitempty"`

	PayloadChars float64         `json:"payload_chars,omitempty"` // code points of an answer's texts, on average
	PayloadBytes float64         `json:"payload_bytes,omitempty"` // of the answer as JSON
	Payload      []LadderPayload `json:"payload,omitempty"`

	// RowsScanned are rows that an arm read for a question, on average; of the
	// lexical arms, postings.
	RowsScanned map[string]float64 `json:"rows_scanned"`
	Postings    float64            `json:"postings_touched"`
	// PostingBytes is what one posting takes in its list, on average over the rung.
	PostingBytes float64 `json:"posting_bytes,omitempty"`

	RSS      map[string]float64 `json:"rss_mb"`  // peaks of processes: coordinator, scanner; coordinator_build while building
	Files    map[string]float64 `json:"file_mb"` // truth, derived
	PerFile  map[string]float64 `json:"bytes_per_record,omitempty"`
	Build    float64            `json:"build_s"` // of all that follows
	Store    float64            `json:"store_s,omitempty"`
	Block    float64            `json:"blocks_s,omitempty"`
	Derive   float64            `json:"derived_s,omitempty"`
	Stores   float64            `json:"stores_per_s,omitempty"` // records
	BlockPer float64            `json:"blocks_per_s,omitempty"`
	Resumed  bool               `json:"resumed,omitempty"` // times of a build that was interrupted lack what was lost

	Degraded  map[string]int    `json:"degraded,omitempty"` // answers by reason
	Settings  map[string]string `json:"settings,omitempty"`
	Neighbour *LadderNeighbour  `json:"neighbour,omitempty"`
	Samples   LadderSamples     `json:"samples"`
	Load      [2]float64        `json:"load"` // of the machine, over a minute, before and after
}

// Latencies are quantiles in milliseconds.
type Latencies struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

func latencies(d []time.Duration) Latencies {
	return Latencies{P50: Quantile(d, .5), P95: Quantile(d, .95), P99: Quantile(d, .99)}
}

// LadderPayload says how much text an answer of so many rows is, and in which
// share of a third of the questions it holds the needle.
type LadderPayload struct {
	Count int     `json:"count"`
	Chars float64 `json:"chars"`
	Hit   float64 `json:"hit"`
}

// LadderNeighbour compares the small agent in a file of its own and beside its
// neighbour. Both files are open at once and asked in turns, question by question.
type LadderNeighbour struct {
	Records int        `json:"records"` // of the small agent
	Alone   LadderSide `json:"alone"`
	Beside  LadderSide `json:"beside"`
	Same    bool       `json:"same_answers"` // to the byte
	// Ratios are beside to alone by quantile: p50, p95.
	Ratios map[string]LadderRatio `json:"ratios"`
}

// LadderSide is the small agent's part on one side.
type LadderSide struct {
	RecallMS    Latencies          `json:"recall_ms"`
	CPU         float64            `json:"cpu_ms"` // of a recall on average, all processes; 0 where the system does not tell
	RowsScanned map[string]float64 `json:"rows_scanned"`
	Postings    float64            `json:"postings_touched"`
	Digest      string             `json:"answers_sha256"`
	Samples     []float64          `json:"samples"` // milliseconds, in the order of asking, which is that of the other side
}

// LadderRatio is a ratio and what holds 95 % of those of bootstrap samples, in
// which the two times of one turn stay together.
type LadderRatio struct {
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// LadderSamples are what intervals are made from, in the order of questions.
type LadderSamples struct {
	RecallMS []float64         `json:"recall_ms"`
	HitAt10  map[string]string `json:"hit_at_10,omitempty"` // by kind, 1 or 0 a question
}

// Ladder builds every rung in its folder, or takes it up where it was left, and
// measures it. Options that nothing can be measured with are a
// *[memory.FieldError].
func Ladder(ctx context.Context, o LadderOptions) (*LadderReport, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c, err := newCorpus(ladderSeed)
	if err != nil {
		return nil, err
	}
	report := &LadderReport{Kind: KindLadder}
	for _, n := range o.Records {
		var rung LadderRung
		if o.Shape == ShapeVectors {
			rung, err = vectorRung(ctx, o, n)
		} else {
			rung, err = newLadderTrial(ctx, o, c, n).run()
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %d records: %w", o.Shape, n, err)
		}
		report.Rungs = append(report.Rungs, rung)
	}
	return report, nil
}

func (o LadderOptions) withDefaults() LadderOptions {
	if o.Phase == nil {
		o.Phase = func(string) (coordinator.Progress, func()) { return func(int64, int64) {}, func() {} }
	}
	if o.small == 0 {
		o.small = smallAgentRecords
	}
	return o
}

// minLadderRecords is how many a rung has at least.
const minLadderRecords = 20

func (o LadderOptions) check() error {
	if !slices.Contains(LadderShapes(), o.Shape) {
		return &memory.FieldError{Field: "shape", Problem: memory.Shape(o.Shape) + " is not a shape", Limit: strings.Join(LadderShapes(), ", "), Next: "choose one of them"}
	}
	var err error
	if len(o.Records) == 0 {
		err = between("--records", 0, minLadderRecords, MaxLadderRecords)
	}
	for _, n := range o.Records {
		err = errors.Join(err, between("--records", n, minLadderRecords, MaxLadderRecords))
	}
	if o.Questions < 0 {
		err = errors.Join(err, &memory.FieldError{Field: "questions", Problem: fmt.Sprintf("is %d", o.Questions), Limit: "0 or more", Next: "leave it out for all questions"})
	}
	return err
}

// ladderFolder names a rung's folder.
func ladderFolder(folder, shape string, n int) string {
	return filepath.Join(folder, fmt.Sprintf("%s-%d", shape, n))
}
