package coordinator

import (
	"fmt"
	"strings"

	"recalld/coordinator/admission"
	"recalld/coordinator/arm"
	"recalld/coordinator/fusion"
	"recalld/memory"
)

// plan is one recall after its request was checked: the policy in force, what
// the arms are asked, and what is done with their rankings. The number of rows
// wanted stands beside the question, never in it (RR-071).
type plan struct {
	policy    Policy
	question  arm.Query
	arms      []string
	mode      fusion.Mode
	count     int
	gateOff   bool
	deep      bool
	bestLast  bool
	exclusion admission.Exclusion
	userID    *string
	full      bool
	explain   bool
	now       int64 // UTC milliseconds
	// fixedShare stands in for the stored share of the vector arm while one is
	// being measured.
	fixedShare *float64
}

// plan checks a request and fixes everything that does not need the store.
func (c *Coordinator) plan(r RecallRequest) (plan, error) {
	p := plan{policy: c.policy(), deep: r.Deep, full: r.FullContent, explain: r.Explain, userID: r.UserID, now: c.clock().UnixMilli()}
	p.question = arm.Query{Scope: memory.Scope{Agent: r.Agent, Project: r.Project, Channel: r.Channel}, Text: r.Query, SourceID: r.SourceID}
	p.question.Depth, p.question.Approximate = p.policy.Depth, r.Approximate || p.policy.Approximate
	if err := p.question.Scope.Check(); err != nil {
		return plan{}, err
	}
	if err := memory.CheckText("query", r.Query, memory.MaxQuery); err != nil {
		return plan{}, err
	}
	if err := memory.CheckText("source_id", r.SourceID, memory.MaxSource); err != nil {
		return plan{}, err
	}
	if r.UserID != nil {
		if err := memory.CheckName("user_id", *r.UserID); err != nil {
			return plan{}, err
		}
	}
	if err := checkCount("count", r.Count, 0, MaxCount); err != nil {
		return plan{}, err
	}
	if p.count = r.Count; p.count == 0 {
		p.count = DefaultCount
	}
	if err := checkCount("exclude_contents", len(r.Exclude), 0, MaxExclude); err != nil {
		return plan{}, err
	}
	total := 0
	for i, text := range r.Exclude {
		if err := memory.CheckText(fmt.Sprintf("exclude_contents[%d]", i), text, memory.CeilingMaxContent); err != nil {
			return plan{}, err
		}
		total += memory.Len(text)
	}
	if total > MaxExcludeChars {
		return plan{}, &memory.FieldError{Field: "exclude_contents", Problem: fmt.Sprintf("is %d code points long together", total), Limit: fmt.Sprintf("%d code points", MaxExcludeChars), Next: "give the beginning of each text; it excludes the whole row"}
	}
	p.exclusion = admission.NewExclusion(r.Exclude)
	return p, p.words(r)
}

// words checks the fields that are one of a few words.
func (p *plan) words(r RecallRequest) error {
	names := r.Arms
	if len(names) == 0 {
		names = p.policy.Arms
	}
	var unknown string
	var ok bool
	if p.arms, unknown, ok = arm.Expand(names); !ok {
		return &memory.FieldError{Field: "arms", Problem: memory.Shape(unknown) + " is not an arm", Limit: strings.Join(arm.Names(), ", "), Next: "leave it out for the server's arms"}
	}
	if p.mode = p.policy.Fusion; r.Fusion != "" {
		mode, err := checkWord("fusion", r.Fusion, string(fusion.Convex), string(fusion.ReciprocalRank))
		if err != nil {
			return err
		}
		p.mode = fusion.Mode(mode)
	}
	gate, err := checkWord("gate", r.Gate, "on", "off")
	if err != nil {
		return err
	}
	p.gateOff = gate == "off"
	order, err := checkWord("order", r.Order, BestFirst, BestLast)
	p.bestLast = order == BestLast
	return err
}

// listing reports whether the query is empty, which lists the newest rows
// (RR-403).
func (p plan) listing() bool { return strings.TrimSpace(p.question.Text) == "" }

// weight is an arm's share in the fusion.
func (p Policy) weight(name string) float64 {
	switch name {
	case arm.VectorName:
		return p.WeightVec
	case arm.LexicalMemoryName, arm.LexicalEpisodeName:
		return p.WeightLex
	}
	return p.WeightFTS
}
