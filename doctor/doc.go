// Package doctor runs named checks over an instance and mends what can be
// mended.
//
// Invariants: checks run side by side, a few at a time, none stops another;
// results come in name order; a check that cannot run is a finding, never a
// silence.
//
// It refuses to rewrite records, and to mend anything it was not asked to.
package doctor
