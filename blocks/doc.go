// Package blocks divides a text, and grows quotations from its parts: nodes that
// fit an embedding window, clause-sized blocks inside them, and the contiguous
// context that a block is quoted with.
//
// Invariants: nodes and blocks cover the text without gap or overlap, in order,
// and no block crosses a node (BR-140); no block is longer than [MaxLen]; the same
// text, nodes and [PolicyVersion] give the same spans (BR-139); a quotation either
// holds the context that limits it or says that it does not (BR-145). Offsets are
// code points, half-open. [Check] says whether spans keep the first of these.
//
// It refuses to do I/O, to ask a model (the counter that [Nodes] is given is the
// caller's), to read a clock, to cut at a comma, and to guess: a boundary that the
// lists of cues.go cannot decide is no boundary while the larger unit fits.
package blocks
