package coordinator

import (
	"context"
	"fmt"

	"recalld/coordinator/admission"
	"recalld/doctor"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// Doctor runs named checks; package doctor says how.
func (c *Coordinator) Doctor(ctx context.Context, r DoctorRequest) (*DoctorResponse, error) {
	results, err := doctor.Run(ctx, append(c.store.Checks(), c.checks()...), r.Checks, r.Fix)
	if err != nil {
		return nil, err
	}
	answer := &DoctorResponse{OK: doctor.OK(results)}
	for _, result := range results {
		check := CheckResult{Name: result.Name, OK: result.Finding.OK, Evidence: result.Finding.Evidence, Fixed: result.Fixed}
		if !check.OK {
			check.Severity, check.Fix = result.Finding.Severity, result.Finding.Fix
		}
		answer.Checks = append(answer.Checks, check)
	}
	return answer, nil
}

// checks are those that need more than the file.
func (c *Coordinator) checks() []sqlite.Check {
	return []sqlite.Check{
		{Name: "calibration", Doc: "stored thresholds fit the active model and the scoring version (RR-433)", Run: c.checkCalibration},
		{Name: "embedding-model", Doc: "the configured model answers and is the stored vectors' own (DECISIONS 10)", Run: c.checkModel},
		{Name: "lexical-index", Doc: "files of postings are whole and every cell is built (ARCHITECTURE 6)", Run: c.checkWords, Fix: c.repairWords},
		{Name: "codes-index", Doc: "files of codes are whole, every cell is built, and the scanner runs (ARCHITECTURE 6)", Run: c.checkCodes, Fix: c.repairCodes},
		{Name: "missing_blocks", Doc: "every record that needs blocks has a current set or waits for it (BR-119)", Run: c.checkBlocks, Fix: c.repairBlocks},
		{Name: "embedding-queue", Doc: "no record waits after a failure, none is unembeddable", Run: c.checkQueue},
	}
}

func (c *Coordinator) checkWords(ctx context.Context) (sqlite.Finding, error) {
	damaged, err := c.words.Verify(ctx, false)
	switch state := c.words.State(); {
	case err != nil:
		return sqlite.Finding{}, err
	case len(damaged) > 0:
		return sqlite.Finding{Severity: sqlite.SeverityError, Evidence: damaged[:min(len(damaged), maxEvidence)], Fix: "run `recalld doctor --fix`: the files are set aside and built again"}, nil
	case state.Trouble != "":
		return sqlite.Finding{Severity: sqlite.SeverityWarning, Evidence: []string{state.Trouble}, Fix: "make the folder derived beside the file writable, with room on its disk, or delete it, and start again; answers do not depend on it"}, nil
	case state.Building:
		return sqlite.Finding{Severity: sqlite.SeverityWarning, Evidence: []string{"some cells are still being built; answers that lack them say so"}, Fix: "wait until the server has built them"}, nil
	}
	return sqlite.Finding{OK: true}, nil
}

func (c *Coordinator) repairWords(ctx context.Context) (int64, error) {
	damaged, err := c.words.Verify(ctx, true)
	return int64(len(damaged)), err
}

// checkCodes has nothing to say where there is no scanner.
func (c *Coordinator) checkCodes(ctx context.Context) (sqlite.Finding, error) {
	if c.codes == nil {
		return sqlite.Finding{OK: true}, nil
	}
	damaged, err := c.codes.Verify(ctx, false, nil)
	switch state := c.codes.State(ctx); {
	case err != nil:
		return sqlite.Finding{}, err
	case len(damaged) > 0:
		return sqlite.Finding{Severity: sqlite.SeverityError, Evidence: damaged[:min(len(damaged), maxEvidence)], Fix: "run `recalld doctor --fix`: the files are set aside and built again"}, nil
	case state.Trouble != "":
		return sqlite.Finding{Severity: sqlite.SeverityWarning, Evidence: []string{state.Trouble}, Fix: "make the folder derived beside the file writable, with room on its disk, and see that the scanner's program can be started; answers do not depend on it"}, nil
	case state.Built < state.Total:
		return sqlite.Finding{Severity: sqlite.SeverityWarning, Evidence: []string{fmt.Sprintf("%d of %d cells are built; the others are searched in the server's own process, with the same answers", state.Built, state.Total)}, Fix: "wait until the server has built them; `recalld index status` says how far it is"}, nil
	}
	return sqlite.Finding{OK: true}, nil
}

func (c *Coordinator) repairCodes(ctx context.Context) (int64, error) {
	if c.codes == nil {
		return 0, nil
	}
	damaged, err := c.codes.Verify(ctx, true, nil)
	return int64(len(damaged)), err
}

func (c *Coordinator) checkModel(ctx context.Context) (sqlite.Finding, error) {
	k, err := c.models.identify(ctx, c.models.writer)
	if err != nil {
		reason, detail := reasonOf(err)
		severity := sqlite.SeverityError
		if reason == reasonNoModel {
			severity = sqlite.SeverityWarning
		}
		return sqlite.Finding{Severity: severity, Evidence: []string{reason + ": " + detail}, Fix: "start the embedding server or correct the settings embedding.*"}, nil
	}
	model, _, _ := c.models.writer.now()
	verdict, err := embed.Recheck(ctx, model)
	if err != nil {
		return sqlite.Finding{Severity: sqlite.SeverityError, Evidence: []string{err.Error()}, Fix: "start the embedding server or correct the settings embedding.*"}, nil
	}
	verdict = max(verdict, k.verdict)
	if verdict != embed.Same {
		return sqlite.Finding{Severity: sqlite.SeverityWarning, Evidence: []string{fmt.Sprintf("the model answers its probes %s (lowest cosine %.4f)", verdict, k.lowest)},
			Fix: "run `recalld model accept` when it is the same model after all, else `recalld model rebuild`"}, nil
	}
	return sqlite.Finding{OK: true}, nil
}

func (c *Coordinator) checkQueue(ctx context.Context) (sqlite.Finding, error) {
	q, err := c.store.QueueStats(ctx)
	if err != nil || q.Failed == 0 && q.Unembeddable == 0 {
		return sqlite.Finding{OK: err == nil}, err
	}
	return sqlite.Finding{
		Severity: sqlite.SeverityWarning,
		Evidence: []string{fmt.Sprintf("%d wait after a failure, %d are unembeddable; last error: %s", q.Failed, q.Unembeddable, q.LastError)},
		Fix:      "look at the embedding server; records that it cannot embed are found by words alone",
	}, nil
}

func (c *Coordinator) checkCalibration(ctx context.Context) (sqlite.Finding, error) {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return sqlite.Finding{}, err
	}
	defer view.Close()
	agents, err := view.CalibratedAgents()
	if err != nil {
		return sqlite.Finding{}, err
	}
	finding := sqlite.Finding{OK: true, Severity: sqlite.SeverityWarning, Fix: "run `recalld calibrate` for the agent"}
	for _, agent := range agents {
		stored, err := view.Calibrations(agent)
		if err != nil {
			return sqlite.Finding{}, err
		}
		active, _, err := view.ActiveModel(agent)
		if err != nil {
			return sqlite.Finding{}, err
		}
		for _, s := range stored {
			if s.ScoringVersion == admission.ScoringVersion && (s.Model == 0 || s.Model == active.ID) {
				continue
			}
			finding.OK = false
			if len(finding.Evidence) < maxEvidence {
				finding.Evidence = append(finding.Evidence, fmt.Sprintf("agent %s: the threshold of %s was measured under model %d, scoring version %d, and is not used", memory.Shape(agent), s.Signal, s.Model, s.ScoringVersion))
			}
		}
	}
	return finding, nil
}

// maxEvidence is how many lines of evidence one check shows.
const maxEvidence = 20
