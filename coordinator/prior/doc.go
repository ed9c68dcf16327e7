// Package prior holds p(row), the one factor by which a fused score is
// multiplied before the single sort (DECISIONS 23). It speaks of age, never of
// position (DECISIONS 19).
//
// Invariants: 0 < p(row) ≤ 1; a scope without episodes has p(row) = 1 for all.
//
// It refuses to sort, to gate, and to erase a row.
package prior
