// Package coordinator plans and answers: it turns a request into arms over one
// snapshot of the truth, fuses their rankings into one signal, gates it, reads
// the rows again under the isolation predicate, and says what it could not do.
//
// Invariants: the number of rows asked for never reaches an arm (RR-071); one
// ranking signal, sorted once; a row of another agent is never seen, and asking
// for one looks like asking for nothing; the same file, request, policy and
// clock give the same bytes.
//
// It refuses to call a generative model, to re-sort after the gate, and to
// answer less than asked without saying so.
package coordinator
