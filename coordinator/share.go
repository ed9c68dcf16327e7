package coordinator

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"recalld/coordinator/admission"
	"recalld/coordinator/arm"
	"recalld/coordinator/fusion"
	"recalld/coordinator/portable"
	"recalld/lexical"
	"recalld/memory"
	"recalld/sqlite"
)

// vectorShare is the signal under which the share of the vector arm beside the
// lexical arms is stored: 0 is words alone, 1 is vectors alone. It is a
// property of a model and an agent's records (DECISIONS 18).
const vectorShare admission.Signal = "vector_share"

// methodNeighbours says how the share was measured: rows ask for the rows beside
// them in their session.
const methodNeighbours admission.Method = "neighbours"

// How the share is measured.
const (
	shareSample   = 3_000 // memories drawn, by whole sessions
	shareQueries  = 400   // of them that ask
	shareLeast    = 100   // queries below which nothing is measured
	shareReach    = 2     // rows on either side that are the answer
	shareDepth    = 100   // candidates of each arm
	shareAnswers  = 10    // rank down to which an answer counts
	shareSteps    = 20    // steps from 0 to 1
	shareSmallest = 20    // memories below which a cell asks nothing
)

// shareMost is the largest share that a measurement may give. Neighbouring turns
// are alike in subject more than a question and its answer are, which flatters
// models: measured by them, all-MiniLM-L6-v2 gets .525 on LoCoMo and loses 3.2
// points against words alone, where .2 to .3 win .8.
const shareMost = .35

// priorShare is the share of a model that was not measured. On LoCoMo .3 is as
// good as any for the built-in model and for all-MiniLM-L6-v2, and .15 for hashed
// n-grams, where half costs four points.
func priorShare(backend string) float64 {
	if backend == "hash" {
		return .15
	}
	return .3
}

// share is the vector arm's in this recall: measured for the agent under the
// model that is searched, else the model's prior.
func (t *turn) share() (float64, error) {
	if t.fixedShare != nil || len(t.vectors) == 0 {
		return valueOr(t.fixedShare, 0), nil
	}
	measured, err := t.calibrated(vectorShare)
	if err != nil || measured != nil {
		return valueOr(measured, 0), err
	}
	stored, err := t.view.Models()
	if err != nil {
		return 0, err
	}
	for _, m := range stored {
		if m.ID == t.vectors[0].Model {
			return priorShare(m.Backend), nil
		}
	}
	return priorShare(""), nil
}

func valueOr(p *float64, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// weights are the arms' shares in the fusion of this recall. Settings are factors
// on the measured share, and so is what the words say (DECISIONS 18); beside the compatibility arms, and in the compatibility
// mode, they stand alone.
func (t *turn) weights() (func(arm string) float64, error) {
	words := slices.Contains(t.arms, arm.LexicalMemoryName) || slices.Contains(t.arms, arm.LexicalEpisodeName)
	if !words || t.mode != fusion.Convex || len(t.vectors) == 0 {
		return t.policy.weight, nil
	}
	share, err := t.share()
	t.evidence = t.wordsEvidence()
	for _, r := range t.results {
		if r.Arm == arm.LexicalMemoryName {
			// A vector knows nothing of a record's time.
			share = float64(share * (1 - r.Dated))
		}
	}
	return func(name string) float64 {
		switch name {
		case arm.VectorName:
			return float64(t.policy.weight(name) * share)
		case arm.LexicalMemoryName, arm.LexicalEpisodeName:
			return float64(t.policy.weight(name) * float64((1-share)*t.evidence))
		case arm.KeywordName: // stands in for the memory arm
			return float64(t.policy.weight(arm.LexicalMemoryName) * (1 - share))
		}
		return t.policy.weight(name)
	}, err
}

// wordsEvidence is the part of their weight that the lexical arms keep, 0 to 1:
// what the better of their best rows says, over what is enough. Scaled scores
// have a best row of 1 in every recall; that it shares a word or two with the
// question by chance, as when the question is asked in other words than the
// answer's, must not outvote the vectors.
func (t *turn) wordsEvidence() float64 {
	most, found := 0.0, false
	for _, r := range t.results {
		if scale(r.Arm) != "" && len(r.Candidates) > 0 {
			most, found = max(most, r.Evidence), true
		}
	}
	if !found || t.policy.Evidence == 0 {
		return 1
	}
	return min(1, most/t.policy.Evidence)
}

// vectorShare measures the share without labels: a memory's text, and its vector,
// ask for the memories beside it in its session. Both arms read each memory
// alone, without what neighbours lend it, or the answer would be given away; the
// asking memory is no answer. The share is the mean of those that rank the
// answers best on either half of the queries.
func (k *calibration) vectorShare() (*sqlite.Calibration, error) {
	if k.model.ID == 0 {
		k.skip(vectorShare, reasonTooFewRecords, "there is no model")
		return nil, nil
	}
	pools, total, err := k.pools()
	if err != nil {
		return nil, err
	}
	var gains [2][shareSteps + 1]float64
	asked := 0
	for _, p := range pools {
		queries := max(1, shareQueries*len(p.docs)/max(1, total))
		n, err := p.ask(k.ctx, k.draw(len(p.docs), queries), asked, &gains)
		if err != nil {
			return nil, err
		}
		asked += n
	}
	if asked < shareLeast {
		k.skip(vectorShare, reasonTooFewPositives, fmt.Sprintf("%d embedded memories with others in their session, at least %d are needed", asked, shareLeast))
		return nil, nil
	}
	share := min(shareMost, float64(best(gains[0][:])+best(gains[1][:]))/(2*shareSteps))
	return &sqlite.Calibration{
		Agent: k.scope.Agent, Model: k.model.ID, Dims: k.model.Dims, Signal: string(vectorShare), Method: string(methodNeighbours), Precision: string(k.precision),
		Threshold: share, ScoringVersion: admission.ScoringVersion, Positives: asked, Negatives: total,
	}, nil
}

// best is the lowest step with the highest gain.
func best(gains []float64) int {
	at := 0
	for i, g := range gains {
		if g > gains[at] {
			at = i
		}
	}
	return at
}

// pool is the sampled memories of one cell, in the order of their sessions.
type pool struct {
	docs    []lexical.Doc
	vectors map[memory.Ref][]float32
}

// pools draws whole sessions evenly over all of the agent's cells.
func (k *calibration) pools() (pools []pool, total int, err error) {
	cells, err := k.view.Cells(k.scope)
	if err != nil {
		return nil, 0, err
	}
	var memories int64
	for _, c := range cells {
		memories += c.Memories
	}
	keep := uint64(math.MaxUint64)
	if memories > shareSample {
		keep = uint64(float64(math.MaxUint64) * (float64(shareSample) / float64(memories)))
	}
	for _, c := range cells {
		if c.Memories < shareSmallest {
			continue
		}
		var p pool
		var refs []memory.Ref
		err := k.view.Texts([]int64{c.ID}, func(t sqlite.Text) error {
			if t.Ref.Kind != memory.KindMemory || t.SourceID == "" || drawn(k.c.seed, c.Cell, t.SourceID) > keep || total+len(p.docs) >= 2*shareSample {
				return nil
			}
			p.docs = append(p.docs, lexical.Doc{Cell: 1, Ref: t.Ref, Session: t.SourceID, Text: t.Content})
			refs = append(refs, t.Ref)
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		if len(p.docs) < shareSmallest {
			continue
		}
		if p.vectors, err = k.view.VectorsOf(k.model.ID, refs); err != nil {
			return nil, 0, err
		}
		pools, total = append(pools, p), total+len(p.docs)
	}
	return pools, total, nil
}

// drawn is a number that decides whether a session is in the sample.
func drawn(seed uint64, cell memory.Cell, session string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s\x00%s", seed, cell.Project, cell.Channel, session) // never fails
	x := h.Sum64()
	x ^= x >> 31 // the high bits of FNV follow the last letters too closely
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// ask puts the chosen memories as queries and adds the gain of every share to
// the half that the query falls into. It returns how many could ask.
func (p pool) ask(ctx context.Context, chosen []int, before int, gains *[2][shareSteps + 1]float64) (asked int, err error) {
	index := lexical.NewIndex()
	alone := slices.Clone(p.docs)
	for i := range alone {
		alone[i].Session = ""
	}
	if err := index.Put(alone...); err != nil {
		return 0, err
	}
	for _, at := range chosen {
		if err := ctx.Err(); err != nil {
			return asked, err
		}
		query := p.docs[at]
		vector := p.vectors[query.Ref]
		answers := p.beside(at)
		if vector == nil || len(answers) == 0 {
			continue
		}
		found, err := index.Search(ctx, lexical.Query{Text: query.Text, Cells: []lexical.Cell{1}, Kind: memory.KindMemory, K: shareDepth,
			Keep: func(ref memory.Ref) bool { return ref != query.Ref }})
		if err != nil {
			return asked, err
		}
		words := fusion.Ranking{Arm: arm.LexicalMemoryName}
		for _, h := range found.Hits {
			words.Candidates = append(words.Candidates, memory.Candidate{Ref: h.Ref, Key: h.Bits()})
		}
		vectors := fusion.Ranking{Arm: arm.VectorName, Candidates: p.nearest(query.Ref, vector)}
		half := (before + asked) % 2
		for step := range shareSteps + 1 {
			var rankings []fusion.Ranking
			if vectors.Weight = float64(step) / shareSteps; step > 0 {
				rankings = append(rankings, vectors)
			}
			if words.Weight = 1 - vectors.Weight; step < shareSteps {
				rankings = append(rankings, words)
			}
			gains[half][step] += gain(fusion.Fuse(fusion.Convex, fusion.DefaultK, rankings), answers)
		}
		asked++
	}
	return asked, nil
}

// beside are the memories next to one in its session.
func (p pool) beside(at int) map[memory.Ref]bool {
	answers := make(map[memory.Ref]bool)
	for i := max(0, at-shareReach); i <= min(len(p.docs)-1, at+shareReach); i++ {
		if i != at && p.docs[i].Session == p.docs[at].Session {
			answers[p.docs[i].Ref] = true
		}
	}
	return answers
}

// nearest ranks the others by cosine.
func (p pool) nearest(except memory.Ref, vector []float32) []memory.Candidate {
	var all []memory.Candidate
	for _, d := range p.docs {
		if v := p.vectors[d.Ref]; len(v) == len(vector) && d.Ref != except {
			all = append(all, memory.Candidate{Ref: d.Ref, Key: float64(memory.Dot(vector, v))})
		}
	}
	slices.SortFunc(all, memory.Compare)
	return all[:min(shareDepth, len(all))]
}

// gain is the normalised discounted cumulative gain of a ranking's first rows.
// The base of the logarithm cancels out.
func gain(rows []fusion.Row, answers map[memory.Ref]bool) float64 {
	var got, ideal float64
	for i := range min(shareAnswers, len(rows)) {
		if answers[rows[i].Ref] {
			got += 1 / portable.Log(float64(i+2))
		}
	}
	for i := range min(shareAnswers, len(answers)) {
		ideal += 1 / portable.Log(float64(i+2))
	}
	return got / ideal
}
