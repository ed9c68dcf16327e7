// Package static is the run time of static-e5-v2: a table of 80,000 token vectors
// that was distilled from multilingual-e5-small and is part of the binary. A text
// is segmented into pieces and its vector is the sum of theirs; nothing else is
// computed, which is why it makes tens of thousands of vectors a second.
//
// Invariants: all arithmetic is on integers, so that every platform gets the same
// sums; the order of words does not matter to the sum; a text with any character
// has a sum other than zero; the table is never written.
//
// It refuses to normalise vectors to length one (package embed does that), to cut
// texts, and to load any other table.
package static
