package coordinator

import (
	"fmt"
	"slices"

	"recalld/coordinator/arm"
	"recalld/coordinator/fusion"
	"recalld/memory"
)

// reserve adds what only the block arm can reach: up to blocks.reserved records
// in the order of that arm, behind the rows that the gate let through and
// without a word of the gate (BR-061 to BR-070). It takes no row away, moves
// none, and repeats none. Fewer records found are fewer rows; places that the
// gate left empty stay empty.
func (t *turn) reserve(kept []hit) ([]hit, error) {
	if t.noteBlocks(); t.blocks == nil {
		return kept, nil
	}
	taken := make(map[memory.Ref]bool, len(kept))
	for _, h := range kept {
		taken[h.Ref] = true
	}
	candidates := make([]hit, 0, len(t.blocks.Candidates))
	for _, c := range t.blocks.Candidates {
		if !taken[c.Ref] {
			candidates = append(candidates, hit{Row: fusion.Row{Ref: c.Ref}, prior: 1, block: &c})
		}
	}
	rows := records{view: t.view, scope: t.question.Scope, held: t.records.held, wanted: t.policy.BlockReserved}
	for i, h := range candidates {
		if t.reserved == t.policy.BlockReserved {
			break
		}
		record, ok, err := rows.get(candidates, i)
		if err != nil {
			return nil, err
		}
		switch {
		case !ok:
			t.exclude(h.Ref, stageHydrate, "not in the scope of this snapshot")
		case t.exclusion.Excludes(record.Content):
			t.exclude(h.Ref, stageFilter, "matches exclude_contents")
		default:
			h.record = record
			kept = append(kept, h)
			t.reserved++
			t.exclusions = slices.DeleteFunc(t.exclusions, func(e Exclusion) bool { return e.Ref == h.Ref.String() })
		}
	}
	return kept, nil
}

// wantsBlocks reports whether the block arm takes part: the policy has one, and the
// recall has the vectors that the vector arm ranks with (BR-073, BR-131).
func (t *turn) wantsBlocks() bool { return t.reservesBlocks() && len(t.vectors) > 0 }

func (t *turn) reservesBlocks() bool {
	return t.policy.BlockRetrieve && t.policy.BlockReserved > 0 && slices.Contains(t.arms, arm.VectorName)
}

// searchBlocks asks the block arm. How many rows are wanted does not reach it.
func (t *turn) searchBlocks() error {
	ranking, err := t.c.blocks.Search(t.ctx, t.view, arm.BlockSearch{
		Scope: t.question.Scope, Vectors: t.vectors, SourceID: t.question.SourceID, Limits: t.policy.blockLimits(), Patient: t.question.Patient,
	})
	t.blocks = &ranking
	return err
}

// noteBlocks says what the block arm could not do.
func (t *turn) noteBlocks() {
	if t.blocks == nil {
		if t.reservesBlocks() && t.asked.reason != "" {
			t.degrade(arm.BlockName, t.asked.reason, "no reserved rows: "+t.asked.detail)
		}
		return
	}
	for _, d := range t.blocks.Degraded {
		t.degrade(arm.BlockName, d.Reason, d.Detail)
	}
	if t.blocks.Cut {
		by := "the setting blocks.scan_cap says how many"
		if t.policy.BlockScanCap == 0 {
			by = "all are, through the scanner"
		}
		t.degrade(arm.BlockName, arm.ReasonScanCap, fmt.Sprintf("only the first %d blocks in scope were compared; %s", t.blocks.Scanned, by))
	}
}

// reservation is the reason of a reserved row.
func (t *turn) reservation(h hit) *MatchReason {
	distance := h.block.Distance
	return &MatchReason{Signal: signalBlock, Order: t.blocks.Order, Distance: &distance}
}

// blockReport is the block arm's part of an explanation.
func (t *turn) blockReport() *BlockReport {
	if t.blocks == nil {
		return nil
	}
	report := &BlockReport{Order: t.blocks.Order, Candidates: []BlockRanked{}, Scanned: t.blocks.Scanned}
	for _, c := range t.blocks.Candidates {
		report.Candidates = append(report.Candidates, BlockRanked{Ref: c.Ref.String(), Block: c.Index, Distance: c.Distance})
	}
	return report
}

// The words of a row that came by the reservation.
const (
	AdmissionReservation = "reservation"
	signalBlock          = "block"
)
