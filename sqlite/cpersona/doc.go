// Package cpersona reads the SQLite files of CPersona, the memory server whose
// records recalld can take over.
//
// Invariants: a file is opened for reading only and everything is read from one
// snapshot, so that it may be in use by its own server; rows come in the order of
// their ids; texts, times and JSON come as they stand in the file.
//
// It refuses a file of an older schema than [OldestSchema] or a newer one than
// [NewestSchema], because a column that it does not know would be lost without a
// word.
package cpersona
