// Package blocktest is the conformance suite of [arm.BlockIndex]: a store with
// block sets, questions, and the answers that every implementation gives (BR-029).
//
// Invariants: the same seed gives the same store and questions on every machine;
// the recorded answers are those of the rules alone, which the arm's own tests
// check against a plain count.
//
// It refuses to know how an index finds its answers, and is for tests only.
package blocktest
