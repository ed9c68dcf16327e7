// Package fusion turns the rankings of several arms into one.
//
// Invariants: every candidate of every arm comes out exactly once; the result
// depends on keys, ranks and weights alone, never on the order in which arms
// finished; equal scores are ordered by recency where an arm knows nothing but
// recency, then by the total order of package memory.
//
// It refuses to drop, gate or cut a candidate, and to know what an arm is.
package fusion
