package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"recalld/coordinator/admission"
	"recalld/memory"
	"recalld/sqlite"
)

const (
	deepCheckRows  = 50_000 // records read at most, the newest
	deepCheckPage  = 500
	nearDuplicates = 1_000 // newest embedded records compared with one another
	nearDuplicate  = .985  // cosine from which two records say the same
	shortContent   = 12    // code points below which a record says little
	staleProfile   = 30 * 24 * time.Hour
)

// deepChecks are the checks in name order.
func deepChecks() []deepCheck {
	return []deepCheck{
		{"anonymous_source", "store with source.type, source.id and source.name, or update the record", (*survey).anonymous},
		{"calibration_staleness", "call calibrate_threshold, or `recalld calibrate`", (*survey).calibration},
		{"near_duplicate", "keep the better one of each pair, delete the other", (*survey).duplicates},
		{"short_content", "update it so that it stands alone, or delete it", (*survey).short},
		{"stale_profile", "read the newer records, then call update_profile", (*survey).profiles},
		{"undated", "update the record with the time when it happened", (*survey).undated},
	}
}

type deepCheck struct {
	name, fix string
	run       func(*survey) ([]string, error)
}

// DeepCheck looks at what an agent's records say. It reports and never repairs:
// each of its findings may be what the agent meant. At most the newest 50,000
// records are read, of which the newest 1,000 are compared with one another.
func (c *Coordinator) DeepCheck(ctx context.Context, r DeepCheckRequest) (*DeepCheckResponse, error) {
	if err := checkAgent(r.Agent); err != nil {
		return nil, err
	}
	checks := deepChecks()
	var names []string
	for _, check := range checks {
		names = append(names, check.name)
	}
	for i, name := range r.Checks {
		if !slices.Contains(names, name) {
			return nil, &memory.FieldError{Field: fmt.Sprintf("checks[%d]", i), Problem: memory.Shape(name) + " is unknown", Limit: strings.Join(names, ", "), Next: "use names of this list, or none for all"}
		}
	}
	view, err := c.store.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("deep check: %w", err)
	}
	defer view.Close()
	s := &survey{c: c, view: view, agent: r.Agent}
	if err := s.read(ctx); err != nil {
		return nil, fmt.Errorf("deep check: %w", err)
	}
	answer := &DeepCheckResponse{Agent: r.Agent, Scanned: int64(len(s.records)), Partial: s.partial, Checks: []CheckResult{}}
	for _, check := range checks {
		if len(r.Checks) > 0 && !slices.Contains(r.Checks, check.name) {
			continue
		}
		evidence, err := check.run(s)
		if err != nil {
			return nil, fmt.Errorf("deep check %s: %w", check.name, err)
		}
		result := CheckResult{Name: check.name, OK: len(evidence) == 0}
		if !result.OK {
			result.Severity, result.Fix = sqlite.SeverityWarning, check.fix
			result.Evidence = evidence
			if more := len(evidence) - maxEvidence; more > 0 {
				result.Evidence = append(evidence[:maxEvidence:maxEvidence], fmt.Sprintf("and %d more", more))
			}
		}
		answer.Checks = append(answer.Checks, result)
	}
	return answer, nil
}

// survey holds what the checks look at, all of one snapshot.
type survey struct {
	c       *Coordinator
	view    *sqlite.View
	agent   string
	records []surveyed // newest first: episodes, then memories
	partial bool
}

// surveyed is what is kept of a record.
type surveyed struct {
	ref       memory.Ref
	length    int
	anonymous bool
	when      memory.Time
}

func (s *survey) read(ctx context.Context) error {
	for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
		filter := sqlite.Filter{Kind: kind, Limit: deepCheckPage, NewestFirst: true}
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.partial = len(s.records) >= deepCheckRows; s.partial {
				return nil
			}
			page, err := s.view.List(memory.Scope{Agent: s.agent}, filter)
			if err != nil {
				return err
			}
			for _, r := range page {
				anonymous := kind == memory.KindMemory && r.Source == memory.Source{}
				s.records = append(s.records, surveyed{ref: r.Ref, length: memory.Len(strings.TrimSpace(r.Content)), anonymous: anonymous, when: r.Time})
				filter.After = r.Ref.ID
			}
			more = len(page) == filter.Limit
		}
	}
	return nil
}

// each lists the references of the records that fit.
func (s *survey) each(fits func(surveyed) bool) (refs []string, _ error) {
	for _, r := range s.records {
		if fits(r) {
			refs = append(refs, r.ref.String())
		}
	}
	return refs, nil
}

func (s *survey) anonymous() ([]string, error) {
	return s.each(func(r surveyed) bool { return r.anonymous })
}

func (s *survey) short() ([]string, error) {
	return s.each(func(r surveyed) bool { return r.length < shortContent })
}

func (s *survey) undated() ([]string, error) {
	return s.each(func(r surveyed) bool { return !r.when.Known })
}

// profiles names the profiles that are old beside what was stored since.
func (s *survey) profiles() ([]string, error) {
	profiles, err := s.view.Profiles(s.agent, nil, maxProfiles)
	if err != nil {
		return nil, err
	}
	var evidence []string
	for _, p := range profiles {
		age := s.c.clock().Sub(time.UnixMilli(p.Updated.Milli))
		newer := 0
		for _, r := range s.records {
			if r.when.Known && r.when.Milli > p.Updated.Milli {
				newer++
			}
		}
		if age >= staleProfile && newer > 0 {
			evidence = append(evidence, fmt.Sprintf("the profile of user %s is %d days old, %d records are newer", memory.Shape(p.UserID), int(age.Hours()/24), newer))
		}
	}
	return evidence, nil
}

func (s *survey) calibration() ([]string, error) {
	stored, err := s.view.Calibrations(s.agent)
	if err != nil {
		return nil, err
	}
	active, _, err := s.view.ActiveModel(s.agent)
	if err != nil {
		return nil, err
	}
	var evidence []string
	for _, x := range stored {
		if x.ScoringVersion != admission.ScoringVersion || x.Model != 0 && x.Model != active.ID {
			evidence = append(evidence, fmt.Sprintf("the threshold of %s was measured under another model or scoring version, and is not used", x.Signal))
		}
	}
	return evidence, nil
}

// duplicates compares the newest embedded records with one another. Vectors have
// unit length, so the product is the cosine.
func (s *survey) duplicates() ([]string, error) {
	active, known, err := s.view.ActiveModel(s.agent)
	if err != nil || !known {
		return nil, err
	}
	var refs []memory.Ref
	for _, r := range s.records[:min(len(s.records), nearDuplicates)] {
		refs = append(refs, r.ref)
	}
	vectors, err := s.view.VectorsOf(active.ID, refs)
	if err != nil {
		return nil, err
	}
	var pairs []string
	for i, a := range refs {
		for _, b := range refs[:i] {
			if x, y := vectors[a], vectors[b]; len(x) > 0 && len(y) > 0 && float64(memory.Dot(x, y)) >= nearDuplicate {
				pairs = append(pairs, a.String()+" and "+b.String())
			}
		}
	}
	return pairs, nil
}
