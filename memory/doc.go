// Package memory holds the words that every other package uses: scopes and
// cells, references, records, spans, candidates and the one total order.
//
// Invariants: a value that leaves a constructor of this package is valid; the
// order of [Compare] is total over distinct rows; nothing here depends on the
// machine, the clock or the locale.
//
// It refuses to do I/O, to read a clock, and to import anything but the
// standard library.
package memory
