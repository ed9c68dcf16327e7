package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"recalld/coordinator"
	"recalld/memory"
)

// RebuildOptions of [Rebuild].
type RebuildOptions struct {
	Ladder LadderOptions // of one rung, which is built in its folder or taken up there
	For    time.Duration // of one round, quiet or beside rebuilds
	Rounds int           // of each
}

// KindRebuild is the kind of a RebuildReport.
const KindRebuild = "rebuild"

// RebuildReport says what recalls take while the derived codes are rebuilt again
// and again. Recalls come at a quarter of what the server answers when it is asked
// without a pause by as many clients as are asked here, whether or not the one before
// was answered; their times begin when they are due. Rounds, quiet and beside rebuilds,
// take turns.
type RebuildReport struct {
	Kind     string    `json:"kind"` // rebuild
	Shape    string    `json:"shape"`
	Records  int       `json:"records"`
	Capacity float64   `json:"capacity_per_s"`
	Rate     float64   `json:"rate_per_s"` // a quarter of it
	Recalls  [2]int    `json:"recalls"`    // quiet, and beside rebuilds
	Quiet    Latencies `json:"quiet_ms"`
	Beside   Latencies `json:"beside_ms"`
	P95Ratio float64   `json:"p95_ratio"`
	Rebuilds int       `json:"rebuilds"`
	RebuildS float64   `json:"rebuild_s"` // of one, on average, beside recalls
	AloneS   float64   `json:"alone_s"`   // of one, without recalls
	// CPU is the share of one processor that all processes used in quiet rounds, and
	// beside rebuilds.
	CPU     [2]float64 `json:"processors"`
	Load    [2]float64 `json:"load"` // of the machine, over a minute, before and after
	Machine Machine    `json:"machine"`
}

// rebuildClients is how many clients find out what the server answers at most.
const rebuildClients = 2

// Rebuild measures one rung. Its folder is of a bench: nothing is stored in it, but
// its derived files are made anew. Options that nothing can be measured with are a
// *[memory.FieldError].
func Rebuild(ctx context.Context, o RebuildOptions) (*RebuildReport, error) {
	if err := errors.Join(between("--rounds", o.Rounds, 1, MaxRounds), checkSpan(o.For)); err != nil {
		return nil, err
	}
	switch {
	case len(o.Ladder.Records) != 1:
		return nil, &memory.FieldError{Field: "--records", Problem: "are not of one rung", Limit: "one rung", Next: "name one number of records"}
	case o.Ladder.Shape == ShapeVectors:
		return nil, &memory.FieldError{Field: "shape", Problem: "has no store", Limit: "a shape with one", Next: "choose another one"}
	case o.Ladder.Scanner.Off || len(o.Ladder.Scanner.Command) == 0:
		return nil, &memory.FieldError{Field: "scanner", Problem: "is off", Limit: "auto", Next: "leave it on: without one there is nothing to rebuild"}
	}
	if err := o.Ladder.check(); err != nil {
		return nil, err
	}
	c, err := newCorpus(ladderSeed)
	if err != nil {
		return nil, err
	}
	t := newLadderTrial(ctx, o.Ladder.withDefaults(), c, o.Ladder.Records[0])
	if err := t.begin(); err != nil {
		return nil, err
	}
	if !t.state.Built {
		if err := t.build(); err != nil {
			return nil, err
		}
	}
	r := &RebuildReport{Kind: KindRebuild, Shape: t.o.Shape, Records: t.n}
	if err := t.with(nil, func() error { return t.rebuilds(r, o) }); err != nil {
		return nil, err
	}
	return r, nil
}

func (t *ladderTrial) rebuilds(r *RebuildReport, o RebuildOptions) error {
	if err := t.ready(); err != nil {
		return err
	}
	questions := t.plan.questions(t.o.Questions)
	if len(questions) == 0 {
		return errors.New("there is no question")
	}
	for _, q := range questions { // and their vectors are there from now on
		if _, err := t.service.Recall(t.ctx, q.request()); err != nil {
			return err
		}
	}
	r.Load[0] = loadAverage()
	once := func(ctx context.Context) error {
		_, err := t.service.ChangeIndex(ctx, coordinator.IndexRequest{Action: coordinator.IndexRebuild}, nil)
		return err
	}
	start := t.o.Clock()
	if err := once(t.ctx); err != nil {
		return err
	}
	r.AloneS = round(t.o.Clock().Sub(start).Seconds())
	if err := t.ready(); err != nil {
		return err
	}
	var err error
	if r.Capacity, err = t.capacity(questions, o.For); err != nil {
		return err
	}
	r.Rate = round(r.Capacity / 4)
	var times [2][]time.Duration
	var used, spent [2]float64
	for round := range 2 * o.Rounds {
		beside := round % 2
		begun, cpu := t.o.Clock(), sum(processorTime())
		took, err := t.round(questions, r.Rate, o.For, beside == 1, func(ctx context.Context) error {
			start := t.o.Clock()
			err := once(ctx)
			if err == nil {
				r.Rebuilds, r.RebuildS = r.Rebuilds+1, r.RebuildS+t.o.Clock().Sub(start).Seconds()
			}
			return err
		})
		if err != nil {
			return err
		}
		times[beside] = append(times[beside], took...)
		used[beside] += sum(processorTime()) - cpu
		spent[beside] += t.o.Clock().Sub(begun).Seconds()
		if err := t.ready(); err != nil {
			return err
		}
	}
	for i := range times {
		r.Recalls[i], r.CPU[i] = len(times[i]), round(used[i]/spent[i])
	}
	r.Quiet, r.Beside = latencies(times[0]), latencies(times[1])
	r.P95Ratio = round(r.Beside.P95 / r.Quiet.P95)
	r.RebuildS = round(r.RebuildS / float64(max(1, r.Rebuilds)))
	r.Load[1] = loadAverage()
	return nil
}

func sum(of map[string]float64) (all float64) {
	for _, name := range []string{"coordinator", "scanner"} {
		all += of[name]
	}
	return all
}

// capacity is how many recalls are answered in a second when each client asks the
// next one at once.
func (t *ladderTrial) capacity(questions []ladderQuestion, during time.Duration) (float64, error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	answered := 0
	start := t.o.Clock()
	for client := range rebuildClients {
		all.Go(func() {
			for i := client; t.o.Clock().Sub(start) < during; i += rebuildClients {
				_, err := t.service.Recall(t.ctx, questions[i%len(questions)].request())
				mu.Lock()
				answered, failed = answered+1, errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return round(float64(answered) / t.o.Clock().Sub(start).Seconds()), failed
}

// round asks at a rate, and rebuilds beside that until every recall is answered. What
// a rebuild that is ended then had made is not counted.
func (t *ladderTrial) round(questions []ladderQuestion, rate float64, during time.Duration, beside bool, rebuild func(context.Context) error) ([]time.Duration, error) {
	ctx, end := context.WithCancel(t.ctx)
	defer end()
	var rebuilding, asking sync.WaitGroup
	var rebuilt error
	if beside {
		rebuilding.Go(func() {
			for ctx.Err() == nil && rebuilt == nil {
				rebuilt = rebuild(ctx)
			}
		})
	}
	n := max(1, int(rate*during.Seconds()))
	took, failed := make([]time.Duration, n), make([]error, n)
	start := t.o.Clock()
	for i := range n {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		time.Sleep(due.Sub(t.o.Clock()))
		asking.Go(func() {
			_, failed[i] = t.service.Recall(t.ctx, questions[i%len(questions)].request())
			took[i] = t.o.Clock().Sub(due)
		})
	}
	asking.Wait()
	end()
	rebuilding.Wait()
	if errors.Is(rebuilt, context.Canceled) {
		rebuilt = nil
	}
	return took, errors.Join(append(failed, rebuilt)...)
}
