package bench

import (
	"maps"
	"slices"
	"strconv"

	"recalld/coordinator/arm"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// defaultDepth is the arm's re-rank depth, in rows.
const defaultDepth = 200

// reachDepths is the grid of re-rank depths, in rows; 0 is all.
func reachDepths() []int { return []int{50, 100, defaultDepth, 0} }

// reachCaps is the grid of caps on a record's blocks, with the one in force; 0 is
// none.
func reachCaps(inForce int) []int {
	caps := []int{64, 256, 0}
	if !slices.Contains(caps, inForce) {
		caps = append(caps, inForce)
	}
	return caps
}

// named is a cap or a depth as a key of the report.
func named(n int, none string) string {
	if n == 0 {
		return none
	}
	return strconv.Itoa(n)
}

// reachSweep asks the block index for all blocks of the scope and orders them at
// every depth of the grid, from vectors that it has read once.
type reachSweep struct {
	t        *reachTrial
	view     *sqlite.View
	index    arm.BlockIndex
	model    int64
	settings ReachSettings
	values   map[memory.Ref][][]byte
}

// reachCache holds the codes of some millions of blocks.
const reachCache = 1 << 30

func (t *reachTrial) newSweep(settings ReachSettings) (*reachSweep, error) {
	model, err := t.activeModel()
	if err != nil {
		return nil, err
	}
	view, err := t.store.ViewRecords(t.ctx)
	if err != nil {
		return nil, err
	}
	s := &reachSweep{
		t: t, view: view, index: arm.NewCodes(arm.NewMatrices(reachCache)), model: model.ID, settings: settings,
		values: map[memory.Ref][][]byte{},
	}
	return s, nil
}

// sweptQuestion is what the sweep says of one question.
type sweptQuestion struct {
	hamming, rerank map[string]map[string]ReachCount
	scanned         bool // a block of the statement took part under the cap in force
	pooled          bool // the record is in the ranking that recalls have
	lost            bool // codes reach it and vectors do not, at the cap in force
}

// question ranks all blocks of the scope under every cap of the grid. rows are the
// answer before, which reserved rows do not repeat.
func (s *reachSweep) question(q reachQuestion, rows []reachRow) (out sweptQuestion, err error) {
	out = sweptQuestion{hamming: map[string]map[string]ReachCount{}, rerank: map[string]map[string]ReachCount{}}
	ref, err := memory.ParseRef(q.ref)
	if err != nil {
		return out, err
	}
	vectors, err := s.t.model.Embed(s.t.ctx, embed.Query, []string{q.text})
	if err != nil {
		return out, err
	}
	vector := vectors[0]
	answer, err := s.index.Nearest(s.t.ctx, s.view, arm.BlockQuery{
		Model: s.model, Scope: memory.Scope{Agent: q.agent}, Dims: len(vector), Code: memory.Signs(vector), Rows: int(s.settings.Blocks),
	})
	if err != nil {
		return out, err
	}
	all, err := s.scores(vector, answer.Rows)
	if err != nil {
		return out, err
	}
	for _, limit := range reachCaps(s.settings.ParentCap) {
		scored := all
		if limit > 0 {
			scored = slices.DeleteFunc(slices.Clone(all), func(b scoredBlock) bool { return b.Index >= limit })
		}
		hamming, rerank := map[string]ReachCount{}, map[string]ReachCount{}
		for _, depth := range reachDepths() {
			n := len(scored)
			if depth > 0 {
				n = min(n, depth)
			}
			key := named(depth, "all")
			hamming[key] = reachCount(fold(scored[:n], byCode), ref, rows, s.settings.Reserved)
			rerank[key] = reachCount(fold(scored[:n], byVector), ref, rows, s.settings.Reserved)
			if limit == s.settings.ParentCap && depth == defaultDepth {
				out.pooled = rerank[key].Pool > 0
				out.lost = hamming[key].Reached > rerank[key].Reached
			}
		}
		out.hamming[named(limit, "none")], out.rerank[named(limit, "none")] = hamming, rerank
	}
	out.scanned, err = s.scanned(ref, q.target)
	return out, err
}

// scoredBlock is a block with the cosine of its stored vector.
type scoredBlock struct {
	arm.BlockHit
	cosine float64
}

// scores gives every row its cosine with the query, quantised like the rows, in
// the order of rows.
func (s *reachSweep) scores(vector []float32, rows []arm.BlockHit) ([]scoredBlock, error) {
	query, _ := memory.Int8(vector)
	scored := make([]scoredBlock, len(rows))
	for i, h := range rows {
		values, err := s.valuesOf(h.Ref)
		if err != nil {
			return nil, err
		}
		cosine, _ := arm.Cosine8(query, values[h.Index])
		scored[i] = scoredBlock{h, cosine}
	}
	return scored, nil
}

// valuesOf reads a record's vectors once.
func (s *reachSweep) valuesOf(ref memory.Ref) ([][]byte, error) {
	if held, ok := s.values[ref]; ok {
		return held, nil
	}
	spans, _, err := s.view.BlockSpans(s.model, ref)
	if err != nil {
		return nil, err
	}
	rows := make([]sqlite.BlockRow, len(spans))
	for i := range rows {
		rows[i] = sqlite.BlockRow{Ref: ref, Index: i}
	}
	values, err := s.view.BlockValues(s.model, rows)
	s.values[ref] = values
	return values, err
}

func byCode(a, b scoredBlock) int { return arm.CompareHits(a.BlockHit, b.BlockHit) }

func byVector(a, b scoredBlock) int {
	return memory.Compare(memory.Candidate{Ref: a.Ref, Block: int32(a.Index), Key: a.cosine}, memory.Candidate{Ref: b.Ref, Block: int32(b.Index), Key: b.cosine})
}

// fold keeps each record once, by its best block, best first.
func fold(rows []scoredBlock, compare func(a, b scoredBlock) int) (ranking []memory.Ref) {
	best := map[memory.Ref]scoredBlock{}
	for _, row := range rows {
		if held, ok := best[row.Ref]; !ok || compare(row, held) < 0 {
			best[row.Ref] = row
		}
	}
	for _, row := range slices.SortedFunc(maps.Values(best), compare) {
		ranking = append(ranking, row.Ref)
	}
	return ranking
}

// reachCount says whether the rows and the first reserved other records hold the
// target, and whether the ranking does.
func reachCount(ranking []memory.Ref, target memory.Ref, rows []reachRow, reserved int) (c ReachCount) {
	count(&c.Pool, slices.Contains(ranking, target))
	if place(rows, target.String()) >= 0 {
		c.Reached = 1
		return c
	}
	for _, ref := range ranking {
		if reserved == 0 {
			break
		}
		if place(rows, ref.String()) >= 0 {
			continue
		}
		reserved--
		count(&c.Reached, ref == target)
	}
	return c
}

// scanned reports whether a block that holds a part of the statement is among the
// record's first ones.
func (s *reachSweep) scanned(ref memory.Ref, target memory.Span) (bool, error) {
	spans, _, err := s.view.BlockSpans(s.model, ref)
	for i, b := range spans {
		inside := b.Start < target.End && target.Start < b.End && !b.Unembeddable
		if inside && (s.settings.ParentCap == 0 || i < s.settings.ParentCap) {
			return true, err
		}
	}
	return false, err
}

// cause is why the statement was not reached, or not shown; "" when it was.
func (q sweptQuestion) cause(reached, shown bool) string {
	switch {
	case shown:
		return ""
	case !q.scanned:
		return missNotScanned
	case reached:
		return missQuotationCut
	case !q.pooled:
		return missBelowDepth
	}
	return missLostReserving
}

// addTo adds the question's cells to its family's.
func (q sweptQuestion) addTo(f *ReachFamily) {
	add := func(to, from map[string]map[string]ReachCount) {
		for limit, cells := range from {
			if to[limit] == nil {
				to[limit] = map[string]ReachCount{}
			}
			for depth, c := range cells {
				sum := to[limit][depth]
				to[limit][depth] = ReachCount{Reached: sum.Reached + c.Reached, Pool: sum.Pool + c.Pool}
			}
		}
	}
	add(f.Hamming, q.hamming)
	add(f.Rerank, q.rerank)
}
