// Package admission decides which fused rows may be in an answer: the quality
// gate, confidence as a gate key, autocut, the caller's exclusions, and the
// calibration of thresholds from an agent's own rows.
//
// Invariants: nothing here changes the order of rows; a threshold is used only
// on the signal, model and scoring version that it was measured for; no
// threshold comes from another agent's rows (DECISIONS 1).
//
// It refuses to read the store, a clock or a random source: samples, times and
// seeds are given.
package admission
