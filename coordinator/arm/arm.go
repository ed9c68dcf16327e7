package arm

import (
	"context"

	"recalld/memory"
	"recalld/sqlite"
)

// Arm is one retriever.
type Arm interface {
	// Name is the arm's name in answers.
	Name() string
	// Search ranks the rows of q.Scope as the snapshot has them. It answers for
	// everything up to the snapshot's change sequence.
	Search(ctx context.Context, view *sqlite.View, q Query) (Result, error)
}

// Query is what an arm is asked. The number of rows that the caller wants is
// not in it (RR-071).
type Query struct {
	Scope memory.Scope
	Text  string
	// Vectors are the query under each model that is searched, in the order of
	// model ids; none when the query could not be embedded.
	Vectors []ModelVector
	Depth   int     // most candidates to return
	Floor   float64 // lowest cosine to admit (RR-400)
	// SourceID keeps rows whose source id begins with it; "" keeps all. Episodes
	// have no source: they are dropped then, unless the scope names a channel
	// (RR-442).
	SourceID string
	// Patient lets an index that has moved past the snapshot read the snapshot
	// itself, however long that takes, instead of failing with [shards.ErrPassed].
	Patient bool
	// Approximate lets a scanner's int8 codes alone decide about vectors. The answer
	// says so where they did; without a scanner it is exact.
	Approximate bool
	// Batch is maintenance: the scanner serves everybody else first.
	Batch bool
}

// ModelVector is a query's unit vector under one model.
type ModelVector struct {
	Model  int64
	Vector []float32
}

// Result is one arm's ranking and what it could not do.
type Result struct {
	// Arm is the name under which the candidates stand in answers: the arm's own
	// or, where another retriever stood in, that one's.
	Arm        string
	Candidates []memory.Candidate // best first in the total order, at most Depth
	Unscored   bool               // keys order rows but measure no similarity
	Truncated  bool               // more rows qualified than Depth
	Partial    bool               // rows in scope may not have been seen
	// Terms are the words of the query that each candidate has, and Near those
	// that only its neighbours have and lent it, the one that weighs most first;
	// lexical arms alone fill them in.
	Terms, Near map[memory.Ref][]string
	// Dated is the part of the best candidates' keys, 0 to 1, that comes from their
	// times and not from their texts; lexical arms alone fill it in.
	Dated float64
	// Evidence is how far the best candidate's words say what was asked: from 1 on
	// they can be believed, near 0 they are there by chance; above 0 wherever there
	// is a candidate. Lexical arms alone fill it in.
	Evidence float64
	Scanned  int64 // rows read
	Degraded []Degradation
}

// Degradation is one thing that the arm did not do as asked. Reason is a stable
// word.
type Degradation struct {
	Reason, Detail string
}

// The reasons that arms give.
const (
	ReasonSharedStatistics = "fts_shared_statistics" // bm25() counted other agents' rows
	ReasonNotIndexed       = "not_indexed"           // the newest rows wait for the full-text index
	ReasonNotBuilt         = "not_built"             // the words of rows in scope are still being indexed
	ReasonNotEmbedded      = "not_embedded"          // rows in scope have no vector yet
	ReasonQueryTruncated   = "query_truncated"       // terms of a long query were left out
	ReasonTwoModels        = "two_models"            // ranks of two models were merged
	ReasonScanCap          = "scan_cap"              // more blocks in scope than are scanned
	ReasonApproximate      = "approximate"           // vectors were compared by their int8 codes alone
	ReasonScanner          = "scanner_unavailable"   // answered in this process, with the same rows
)

// excludesEpisodes is the rule of RR-442.
func (q Query) excludesEpisodes() bool {
	return q.SourceID != "" && (q.Scope.Channel == nil || *q.Scope.Channel == "")
}
