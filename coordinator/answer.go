package coordinator

import (
	"slices"

	"recalld/coordinator/admission"
	"recalld/memory"
)

// compose turns the rows that are left into the answer, best first, and counts
// them as recalled.
func (t *turn) compose(hits []hit) (*RecallResponse, error) {
	a := &RecallResponse{Rows: make([]Row, 0, len(hits)), Order: BestFirst, GateFallback: t.fellBack}
	var err error
	if a.Profile, err = t.profile(); err != nil {
		return nil, err
	}
	if a.Coverage, err = t.coverage(); err != nil {
		return nil, err
	}
	a.Coverage.Full = t.noteDamage() && a.Coverage.Full
	a.Degraded = t.degraded
	a.Advisory = t.c.models.notice(t.question.Scope.Agent)

	for _, h := range hits {
		a.Rows = append(a.Rows, t.row(h))
	}
	a.FullContentBudget = t.shorten(a.Rows)
	if err := t.quotes(a.Rows, hits); err != nil {
		return nil, err
	}
	if t.bestLast {
		a.Order = BestLast
		slices.Reverse(a.Rows)
	}
	if t.explain {
		a.Explain = t.explanation()
	}
	t.remember(hits)
	return a, nil
}

// row is one ranked record with its reason.
func (t *turn) row(h hit) Row {
	row := rowOf(h.record)
	if h.block != nil {
		row.Admission, row.MatchReason = AdmissionReservation, t.reservation(h)
		return row
	}
	row.Confidence = h.confidence
	signal, value, scored := h.signals.First()
	row.MatchReason = &MatchReason{Signal: string(signal), Score: roundedPointer(value)}
	if scored {
		row.Score = roundedPointer(h.Score)
	}
	for _, v := range h.Votes {
		row.MatchReason.Arms = append(row.MatchReason.Arms, ArmVote{Arm: v.Arm, Rank: v.Rank, Score: significant(v.Key)})
	}
	row.MatchReason.Terms, row.MatchReason.Near = t.terms(h.Ref)
	if t.evidence != 1 {
		row.MatchReason.Evidence = roundedPointer(t.evidence)
	}
	if h.prior != 1 {
		row.MatchReason.Prior = roundedPointer(h.prior)
	}
	return row
}

// terms are the words of the query that the row has, and those that its
// neighbours lent it.
func (t *turn) terms(ref memory.Ref) (own, near []string) {
	for _, r := range t.results {
		if own, near := r.Terms[ref], r.Near[ref]; own != nil || near != nil {
			return own, near
		}
	}
	return nil, nil
}

// shorten cuts rows to previews (RR-434). With full content it spends a budget
// from the strongest row on; from the first row that does not fit, the rest are
// previews, and the budget is returned (RR-437).
func (t *turn) shorten(rows []Row) (cutAt int) {
	left := t.policy.FullBudget
	for i := range rows {
		if t.full && cutAt == 0 {
			if left -= memory.Len(rows[i].Content); left >= 0 {
				continue
			}
			cutAt = t.policy.FullBudget
		}
		rows[i].preview(t.policy.PreviewChars)
	}
	return cutAt
}

// profile are the facts about the user, newest first, in an array of their own
// (RR-447).
func (t *turn) profile() ([]memory.Profile, error) {
	if t.pool() < int64(t.policy.ProfilePool) || t.policy.ProfileRows == 0 {
		return nil, nil
	}
	return t.view.Profiles(t.question.Scope.Agent, t.userID, t.policy.ProfileRows)
}

func (t *turn) explanation() *Explanation {
	e := &Explanation{
		Depth:      t.question.Depth,
		Fusion:     string(t.mode),
		Gate:       GateReport{Signal: string(t.gate.Signal), Threshold: rounded(t.gate.Threshold), Source: t.gate.Source},
		Arms:       []ArmReport{},
		Exclusions: t.exclusions,
	}
	if t.listing() {
		e.Gate.Source = admission.SourceOff
	}
	for _, r := range t.results {
		report := ArmReport{Arm: r.Arm, Candidates: []ArmRanked{}, Truncated: r.Truncated, Scanned: r.Scanned}
		for _, c := range r.Candidates {
			ranked := ArmRanked{Ref: c.Ref.String(), Score: significant(c.Key)}
			if r.Unscored {
				ranked.Score = 0
			}
			report.Candidates = append(report.Candidates, ranked)
		}
		e.Arms = append(e.Arms, report)
	}
	e.Blocks = t.blockReport()
	return e
}

// remember notes which memories were recalled, for the confidence score alone:
// not when it is off, when counting is paused, when decay was switched off, or
// when the rows were rescued (RR-420). Reserved rows are not counted: the counts
// feed a score that gates, and the block arm moves no gate (BR-064, BR-143).
func (t *turn) remember(hits []hit) {
	if !t.policy.ConfidenceOn || !t.policy.CountRecalls || t.deep || t.fellBack || t.listing() {
		return
	}
	var refs []memory.Ref
	for _, h := range hits {
		if h.Ref.Kind == memory.KindMemory && h.block == nil {
			refs = append(refs, h.Ref)
		}
	}
	t.c.counters.add(refs, t.now)
}
