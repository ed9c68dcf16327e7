// Package cpersonatest makes files of the shape of CPersona's for tests: the
// tables that an import reads, with the columns, types and defaults of the real
// ones. A test that is tagged extended reads what the real package wrote.
//
// Invariants: a file has the tables of the schema that was asked for and no rows.
//
// It refuses nothing: tests also make files that are wrong.
package cpersonatest
