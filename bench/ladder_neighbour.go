package bench

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
)

const (
	// turnRounds is how often each question is asked of each side against the clock.
	turnRounds = 3
	// turnResamples and turnSeed are of the interval around a ratio.
	turnResamples = 2_000
	turnSeed      = 1
)

// inTurns measures the small agent beside its neighbour and in a file of its own.
// What else the machine does falls on both: they are asked the same question one
// after the other, and take turns in who is first.
func (t *ladderTrial) inTurns() (n *LadderNeighbour, err error) {
	alone := t.alone()
	if err := alone.prepare(); err != nil {
		return nil, fmt.Errorf("the small agent alone: %w", err)
	}
	a, b := newTurnSide(alone), newTurnSide(t)
	for _, s := range []*turnSide{a, b} {
		if err := s.trial.open(nil); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.trial.close()) }()
		if err := s.trial.ready(); err != nil {
			return nil, err
		}
	}
	if err := t.takeTurns(a, b); err != nil {
		return nil, err
	}
	n = &LadderNeighbour{Records: t.plan.small, Alone: a.side(), Beside: b.side(), Ratios: map[string]LadderRatio{}}
	n.Same = n.Alone.Digest == n.Beside.Digest
	for name, q := range map[string]float64{"p50": .5, "p95": .95} {
		n.Ratios[name] = pairedRatio(n.Beside.Samples, n.Alone.Samples, quantileOf(q))
	}
	return n, nil
}

// takeTurns asks both sides every question, first for what it reads and answers.
func (t *ladderTrial) takeTurns(a, b *turnSide) error {
	progress, done := t.o.Phase("alone and beside")
	defer done()
	questions := t.plan.questions(t.o.Questions)
	asked := 0
	for round := range 1 + turnRounds {
		for i, q := range questions {
			turn := []*turnSide{a, b}
			if (round+i)%2 == 1 {
				turn = []*turnSide{b, a}
			}
			for _, s := range turn {
				ask := s.time
				if round == 0 {
					ask = s.read
				}
				if err := ask(q); err != nil {
					return err
				}
			}
			asked++
			progress(int64(asked), int64((1+turnRounds)*len(questions)))
		}
	}
	return nil
}

// turnSide is one of two files that are asked in turns.
type turnSide struct {
	trial   *ladderTrial
	count   *ladderCount
	times   ladderTimes
	digest  hash.Hash
	seconds float64 // of the processor
}

func newTurnSide(t *ladderTrial) *turnSide {
	return &turnSide{trial: t, count: newLadderCount(), times: ladderTimes{}, digest: sha256.New()}
}

// read counts what a question reads, and takes the answer into the digest.
func (s *turnSide) read(q ladderQuestion) error {
	r := q.request()
	r.Explain = true
	answer, err := s.trial.service.Recall(s.trial.ctx, r)
	if err != nil {
		return err
	}
	s.count.scanned(answer)
	s.count.total++
	answer.Explain = nil
	return json.NewEncoder(s.digest).Encode(answer)
}

func (s *turnSide) time(q ladderQuestion) error {
	before := allProcessorTime()
	_, err := s.trial.time(s.times, recallAll, q.request())
	s.seconds += allProcessorTime() - before
	return err
}

// allProcessorTime is what all processes of the run have computed so far, in
// seconds. It is counted in hundredths, which add up over many recalls.
func allProcessorTime() (sum float64) {
	for _, seconds := range processorTime() {
		sum += seconds
	}
	return sum
}

func (s *turnSide) side() LadderSide {
	times := s.times[recallAll]
	side := LadderSide{RecallMS: latencies(times), Digest: fmt.Sprintf("%x", s.digest.Sum(nil)), CPU: round(s.seconds * 1000 / float64(max(len(times), 1)))}
	side.RowsScanned, side.Postings = s.count.reads()
	for _, d := range times {
		side.Samples = append(side.Samples, milliseconds(d))
	}
	return side
}

// pairedRatio is the ratio of a figure of two samples of equal length, which are
// drawn together.
func pairedRatio(over, under []float64, of func([]float64) float64) LadderRatio {
	random := rand.New(rand.NewPCG(turnSeed, 0))
	up, down := make([]float64, len(over)), make([]float64, len(over))
	ratios := make([]float64, turnResamples)
	for n := range ratios {
		for i := range up {
			at := random.IntN(len(over))
			up[i], down[i] = over[at], under[at]
		}
		ratios[n] = ratio(of(up), of(down))
	}
	return LadderRatio{Ratio: round(ratio(of(over), of(under))), Low: round(quantileOf(.025)(ratios)), High: round(quantileOf(.975)(ratios))}
}
