package sqlite

import (
	"context"
	"fmt"
	"math"

	"recalld/memory"
)

// Calibration is one threshold measured on an agent's own records (RR-427 to
// RR-433). An agent has one for each model and signal.
type Calibration struct {
	Agent          string
	Model          int64 // 0 for signals without a model
	Dims           int
	Signal         string // cosine, rsf, rrf
	Method         string // separation, percentile, zscore
	Precision      string // strict, balanced, lenient
	Threshold      float64
	ScoringVersion int
	Positives      int
	Negatives      int
	Created        memory.Time
}

// PutCalibration stores a threshold in the place of an older one; Created is
// set by the store.
func (s *Store) PutCalibration(ctx context.Context, c Calibration) error {
	if err := (memory.Scope{Agent: c.Agent}).Check(); err != nil {
		return err
	}
	if math.IsNaN(c.Threshold) || math.IsInf(c.Threshold, 0) {
		return &memory.FieldError{Field: "threshold", Problem: "is not a finite number", Next: "calibrate again with more records"}
	}
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			now := t.w.store.stamp()
			_, _, err := t.exec(`INSERT OR REPLACE INTO calibration (agent, model, signal, dims, method, precision, threshold,
				scoring_version, positives, negatives, created, created_offset) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				c.Agent, c.Model, c.Signal, c.Dims, c.Method, c.Precision, c.Threshold, c.ScoringVersion, c.Positives, c.Negatives, now.Milli, now.Offset)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("store the calibration: %w", err)
	}
	return nil
}

// Calibrations returns an agent's thresholds by model and signal.
func (v *View) Calibrations(agent string) ([]Calibration, error) {
	var all []Calibration
	err := v.query(`SELECT agent, model, signal, dims, method, precision, threshold, scoring_version, positives, negatives, created, created_offset
		FROM calibration WHERE agent = ? ORDER BY model, signal`, []any{agent}, func(r row) error {
		all = append(all, Calibration{
			Agent: r.text(0), Model: r.int(1), Signal: r.text(2), Dims: int(r.int(3)), Method: r.text(4), Precision: r.text(5),
			Threshold: r.float(6), ScoringVersion: int(r.int(7)), Positives: int(r.int(8)), Negatives: int(r.int(9)), Created: timeAt(r, 10),
		})
		return nil
	})
	return all, err
}

// CalibratedAgents returns the agents that have thresholds, in name order. It
// serves operators, never a request.
func (v *View) CalibratedAgents() ([]string, error) {
	var agents []string
	err := v.query("SELECT DISTINCT agent FROM calibration ORDER BY agent", nil, func(r row) error {
		agents = append(agents, r.text(0))
		return nil
	})
	return agents, err
}

// Calibrations returns an agent's thresholds by model and signal.
func (s *Store) Calibrations(ctx context.Context, agent string) ([]Calibration, error) {
	return read(ctx, s, func(v *View) ([]Calibration, error) { return v.Calibrations(agent) })
}
