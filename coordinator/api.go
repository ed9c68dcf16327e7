package coordinator

import (
	"context"
	"encoding/json"

	"recalld/ingest"
	"recalld/memory"
)

// Service is what every entry point speaks: the command line, the socket, MCP
// and tests. [*Coordinator] answers in process; package front/api has a client
// that answers over a socket. Inputs are checked before anything is written;
// refusals are *[memory.FieldError] or wrap a sentinel of package memory.
// Another agent's references are answered exactly like unknown ones.
type Service interface {
	Store(ctx context.Context, r StoreRequest) (StoreResponse, error)
	Recall(ctx context.Context, r RecallRequest) (*RecallResponse, error)
	GetContents(ctx context.Context, r ContentsRequest) (*ContentsResponse, error)
	List(ctx context.Context, r ListRequest) (*ListResponse, error)
	Update(ctx context.Context, r UpdateRequest) (*Row, error)
	Delete(ctx context.Context, r DeleteRequest) (*DeleteResponse, error)
	Lock(ctx context.Context, r LockRequest) (*LockResponse, error)
	PutProfile(ctx context.Context, r ProfileRequest) (*memory.Profile, error)
	Profiles(ctx context.Context, agent string, userID *string) ([]memory.Profile, error)
	Merge(ctx context.Context, r MergeRequest) (*MergeResponse, error)
	Pause(ctx context.Context, r PauseRequest) (*PauseState, error)
	Paused(ctx context.Context, agent string) (*PauseState, error)
	Calibrate(ctx context.Context, r CalibrateRequest) (*CalibrateResponse, error)
	Calibrations(ctx context.Context, agent string) ([]Calibration, error)
	DeepCheck(ctx context.Context, r DeepCheckRequest) (*DeepCheckResponse, error)
	OperatingContext(ctx context.Context, section string) (*OperatingContext, error)
	Settings(ctx context.Context) ([]Setting, error)
	SetSetting(ctx context.Context, name, value string) (Setting, error)
	Models(ctx context.Context) ([]ModelState, error)
	ChangeModel(ctx context.Context, r ModelRequest) (*ModelState, error)
	Status(ctx context.Context) (*Status, error)
	Doctor(ctx context.Context, r DoctorRequest) (*DoctorResponse, error)
	Index(ctx context.Context, r IndexStateRequest) (*IndexState, error)
	// ChangeIndex, Backup, Vacuum and Export report progress through the callback, which may
	// be nil; done counts up to total, both in the operation's own unit.
	ChangeIndex(ctx context.Context, r IndexRequest, progress Progress) (*IndexReport, error)
	Backup(ctx context.Context, path string, progress Progress) error
	Vacuum(ctx context.Context, progress Progress) error
	Export(ctx context.Context, r ExportRequest, each func(line json.RawMessage) error) error
}

// Progress is told how far a long operation is.
type Progress func(done, total int64)

// StoreRequest stores up to [MaxStoreBatch] items of one agent. Items succeed
// or fail one by one; a malformed request as a whole is an error.
type StoreRequest struct {
	Agent string      `json:"agent"`
	Items []StoreItem `json:"items"`
	// DryRun answers what would become of the items, and stores nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// MemoriesAbove and EpisodesAbove are the last numbers that were given out
	// before an import began ([Status.LastMemory]): a number that an item brings
	// along and that is above is free unless it is in use.
	MemoriesAbove int64 `json:"memories_above,omitempty"`
	EpisodesAbove int64 `json:"episodes_above,omitempty"`
}

// StoreItem is one record, or a profile, as a caller writes it.
type StoreItem = ingest.Item

// StoreResponse has one result per item, in order.
type StoreResponse struct {
	Results  []StoreResult `json:"results"`
	Advisory *Advisory     `json:"advisory,omitempty"`
	// TextSeconds is what the model takes for one text, as a dry run measured it
	// on a few of those that it would embed; 0 when it measured none.
	TextSeconds float64 `json:"text_seconds,omitempty"`
}

// StoreResult says what became of one item (RR-444).
type StoreResult struct {
	Ref     string `json:"ref,omitempty"`   // the new record, or the one that made it a duplicate
	Outcome string `json:"outcome"`         // stored, versioned, skipped, rejected
	Embed   string `json:"embed,omitempty"` // done, queued, kept, off
	Error   string `json:"error,omitempty"` // rejected only
}

// RecallRequest asks one question inside one scope. The zero value of every
// optional field is the default.
type RecallRequest struct {
	Agent   string  `json:"agent"`
	Project *string `json:"project,omitempty"` // absent: all; "": global pool; X: X and the pool
	Channel *string `json:"channel,omitempty"` // absent or "": all; X: X and channel-less
	Query   string  `json:"query"`             // "" lists the newest (RR-403)
	// Count is how many rows come back, 0 for the default of 10, at most 100. It
	// never reaches an arm (RR-070, RR-071).
	Count       int      `json:"count,omitempty"`
	FullContent bool     `json:"full_content,omitempty"`     // whole rows under a budget (RR-437)
	Deep        bool     `json:"deep,omitempty"`             // RR-417, RR-422
	SourceID    string   `json:"source_id,omitempty"`        // prefix of source.id (RR-442)
	Exclude     []string `json:"exclude_contents,omitempty"` // RR-443
	UserID      *string  `json:"user_id,omitempty"`          // whose profile rows; absent: any
	Arms        []string `json:"arms,omitempty"`             // empty: the server's; all, vector, fts, fts_memory, fts_episode
	Fusion      string   `json:"fusion,omitempty"`           // empty: the server's; rsf, rrf
	Gate        string   `json:"gate,omitempty"`             // empty: on; off turns truncation layers off (RR-333, RR-451)
	Order       string   `json:"order,omitempty"`            // empty or best_first; best_last
	Explain     bool     `json:"explain,omitempty"`          // adds exclusions and per-arm ranks
	// Approximate lets int8 codes alone decide about vectors, where there is a
	// scanner; the setting recall.approximate does so for every recall.
	Approximate bool `json:"approximate,omitempty"`
}

// RecallResponse is one answer. Its JSON form is the default answer body: the
// same file, request, policy and clock give the same bytes (DECISIONS 5).
type RecallResponse struct {
	Rows     []Row            `json:"rows"`
	Order    string           `json:"order"` // best_first or best_last
	Profile  []memory.Profile `json:"profile,omitempty"`
	Coverage Coverage         `json:"coverage"`
	// Degraded names everything that could not be done as asked; empty when the
	// answer is what a whole server gives.
	Degraded          []Degradation `json:"degraded,omitempty"`
	Advisory          *Advisory     `json:"advisory,omitempty"`
	GateFallback      bool          `json:"gate_fallback,omitempty"`             // RR-425
	FullContentBudget int           `json:"full_content_budget_chars,omitempty"` // when it cut (RR-437)
	Explain           *Explanation  `json:"explain,omitempty"`
}

// Coverage says how much of the scope the arms could see.
type Coverage struct {
	Records  int64 `json:"records"`  // memories and episodes in scope
	Embedded int64 `json:"embedded"` // of them with a vector of the active model
	Pending  int64 `json:"pending"`  // waiting in the queue
	Full     bool  `json:"full"`     // every arm that ranks saw every record
	// Blocks is set when the block arm took part.
	Blocks *BlockCoverage `json:"blocks,omitempty"`
}

// BlockCoverage says how much of the scope the block arm could see.
type BlockCoverage struct {
	Scanned int64 `json:"scanned"` // blocks that took part; fewer than Blocks where a cap bites
	Blocks  int64 `json:"blocks"`  // of the records in scope that have a block set
	Records int64 `json:"records"` // those records
	Pending int64 `json:"pending"` // records in scope whose blocks are not built yet
}

// Degradation is one thing that an answer lacks, and why.
type Degradation struct {
	Arm    string `json:"arm,omitempty"` // the arm, or "" for the whole answer
	Reason string `json:"reason"`        // stable word: no_model, unavailable, not_embedded, fts_shared_statistics, query_truncated, …
	Detail string `json:"detail,omitempty"`
}

// Advisory tells an operator that the server is degraded (RR-448).
type Advisory struct {
	Severity string `json:"severity"` // hint, fault
	Reason   string `json:"reason"`
	Evidence string `json:"evidence,omitempty"`
	Runbook  string `json:"runbook,omitempty"`
}

// The orders of rows in an answer.
const (
	BestFirst = "best_first"
	BestLast  = "best_last"
)

// Row is one record in an answer.
type Row struct {
	Ref              string          `json:"ref"`
	Content          string          `json:"content"`
	ContentTruncated bool            `json:"content_truncated,omitempty"` // Content is a prefix (RR-434)
	ContentLen       int             `json:"content_len,omitempty"`       // full length in code points, when cut
	Score            *float64        `json:"score"`                       // the ranking signal; null when unscored
	Time             string          `json:"time,omitempty"`
	End              string          `json:"end,omitempty"` // episodes
	Project          string          `json:"project,omitempty"`
	Channel          string          `json:"channel,omitempty"`
	MessageID        string          `json:"message_id,omitempty"`
	Version          int             `json:"version,omitempty"` // when above 1
	SupersededBy     string          `json:"superseded_by,omitempty"`
	Source           memory.Source   `json:"source,omitzero"`
	Metadata         json.RawMessage `json:"metadata,omitempty"`
	Keywords         []string        `json:"keywords,omitempty"`
	Resolved         bool            `json:"resolved,omitempty"`
	Locked           bool            `json:"locked,omitempty"`
	Revision         string          `json:"revision,omitempty"`  // SHA-256 of the whole text: get, list, update and cut rows
	Quote            *Quote          `json:"quote,omitempty"`     // of a cut row: the place that the query is about
	Admission        string          `json:"admission,omitempty"` // "reservation": added beyond count, past the gate (BR-061)
	MatchReason      *MatchReason    `json:"match_reason,omitempty"`
	Confidence       *Confidence     `json:"confidence,omitempty"`
	ErasePending     bool            `json:"erase_pending,omitempty"` // update: what it said before goes later, as in [DeleteResponse]
}

// MatchReason says why a row is here (RR-421): the signal that the gate read,
// its value, and what each arm contributed. A reserved row has the signal block
// and no value, because no gate read it: instead the order that its place comes
// from, and in how many bits its best block differs from the query (BR-055,
// BR-056).
type MatchReason struct {
	Signal   string    `json:"signal"`               // confidence, rsf, cosine, rrf, recency, block
	Score    *float64  `json:"score,omitempty"`      // absent in a reserved row
	Order    string    `json:"order,omitempty"`      // reserved rows: vector, hamming
	Distance *int      `json:"distance,omitempty"`   // reserved rows
	Arms     []ArmVote `json:"arms,omitempty"`       // in arm order
	Prior    *float64  `json:"prior,omitempty"`      // when not 1
	Terms    []string  `json:"terms,omitempty"`      // query words that the row has, lexical arms
	Near     []string  `json:"near_terms,omitempty"` // query words that its neighbours lent it
	Evidence *float64  `json:"evidence,omitempty"`   // part of their weight that the words have kept in this recall; when not 1
}

// Quote is a contiguous range of a cut row's text: the block that answers the
// query best and what limits it (BR-074). It is never cut: where the server's
// limit ends it too early, Complete is false and ReadRange says what to read
// instead (BR-081). Offsets are half-open code points of the text that the row's
// revision names.
type Quote struct {
	Start     int        `json:"start"`
	End       int        `json:"end"`
	Text      string     `json:"text"`
	Complete  bool       `json:"complete"`
	ReadRange *ReadRange `json:"read_range,omitempty"`
}

// ReadRange is a range to fetch with GetContents, as chars and rev of a ref. It is
// refused once the text is another one (BR-086, BR-087).
type ReadRange struct {
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Revision string `json:"revision"`
}

// ArmVote is one arm's part in a row.
type ArmVote struct {
	Arm   string  `json:"arm"`
	Rank  int     `json:"rank"`  // from 1
	Score float64 `json:"score"` // the arm's own key: cosine, BM25
}

// Confidence is reported when the scorer is on (RR-414). It never re-sorts.
type Confidence struct {
	Score      float64  `json:"score"`
	AgeHours   float64  `json:"age_hours"`
	Cosine     *float64 `json:"cosine,omitempty"`
	Resolved   bool     `json:"resolved,omitempty"`
	AgeUnknown bool     `json:"age_unknown,omitempty"`
}

// Explanation lists what was considered and why rows were dropped.
type Explanation struct {
	Depth  int         `json:"depth"`
	Fusion string      `json:"fusion"`
	Gate   GateReport  `json:"gate"`
	Arms   []ArmReport `json:"arms"`
	// Blocks is what the block arm found, when it took part.
	Blocks     *BlockReport `json:"blocks,omitempty"`
	Exclusions []Exclusion  `json:"exclusions,omitempty"`
}

// BlockReport is the block arm's ranking of records, best first.
type BlockReport struct {
	Order      string        `json:"order"` // vector, hamming
	Candidates []BlockRanked `json:"candidates"`
	Scanned    int64         `json:"scanned"` // blocks
}

// BlockRanked is one record and the block that stands for it.
type BlockRanked struct {
	Ref      string `json:"ref"`
	Block    int    `json:"block"` // index in the text, from 0
	Distance int    `json:"distance"`
}

// GateReport is the threshold that rows had to reach.
type GateReport struct {
	Signal    string  `json:"signal"`
	Threshold float64 `json:"threshold"`
	Source    string  `json:"source"` // calibrated, heuristic, uncalibrated, off
}

// ArmReport is one arm's ranking, best first, at most Depth long.
type ArmReport struct {
	Arm        string      `json:"arm"`
	Candidates []ArmRanked `json:"candidates"`
	Truncated  bool        `json:"truncated,omitempty"`
	Scanned    int64       `json:"scanned"` // rows, or postings touched
}

// ArmRanked is one candidate in an arm's ranking.
type ArmRanked struct {
	Ref   string  `json:"ref"`
	Score float64 `json:"score"`
}

// Exclusion is one candidate that is not in the answer.
type Exclusion struct {
	Ref    string `json:"ref"`
	Stage  string `json:"stage"` // gate, filter, autocut, count, hydrate
	Reason string `json:"reason"`
}

// ContentsRequest fetches whole rows or ranges of them (RR-236, RR-438). A ref
// is mem:7, mem:7#chars=100-240, mem:7#node=2 or mem:7#node=2-4, a range with
// &rev=SHA256 at will; ranges are half-open, of code points or of nodes from 0.
type ContentsRequest struct {
	Agent   string   `json:"agent"`
	Project *string  `json:"project,omitempty"`
	Channel *string  `json:"channel,omitempty"`
	Refs    []string `json:"refs"` // at most 20
}

// ContentsResponse has the rows in the order asked. What could not be given is
// named in exactly one of the lists.
type ContentsResponse struct {
	Rows       []Row    `json:"rows"`
	Missing    []string `json:"missing,omitempty"`      // unknown, malformed or foreign
	Unresolved []string `json:"unresolved,omitempty"`   // a range that cannot be given exactly
	Deferred   []string `json:"deferred,omitempty"`     // past the budget
	Budget     int      `json:"budget_chars,omitempty"` // when something was deferred
}

// ListRequest pages through a scope, newest first.
type ListRequest struct {
	Agent    string  `json:"agent"`
	Project  *string `json:"project,omitempty"`
	Channel  *string `json:"channel,omitempty"`
	Type     string  `json:"type,omitempty"` // memory (default), episode
	SourceID string  `json:"source_id,omitempty"`
	Limit    int     `json:"limit,omitempty"` // 0: 50; at most 500
	Cursor   string  `json:"cursor,omitempty"`
}

// ListResponse is one page; Cursor continues it and is empty on the last.
type ListResponse struct {
	Rows   []Row  `json:"rows"`
	Cursor string `json:"cursor,omitempty"`
}

// UpdateRequest edits one record in place; nil fields stay (DECISIONS 11).
type UpdateRequest struct {
	Agent    string          `json:"agent"`
	Ref      string          `json:"ref"`
	Content  *string         `json:"content,omitempty"` // an episode's summary
	Project  *string         `json:"project,omitempty"`
	Channel  *string         `json:"channel,omitempty"`
	Source   *memory.Source  `json:"source,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Time     *string         `json:"time,omitempty"` // an episode's start; "" removes it
	End      *string         `json:"end,omitempty"`  // an episode's; "" removes it
	Keywords []string        `json:"keywords,omitempty"`
	Resolved *bool           `json:"resolved,omitempty"`
}

// DeleteRequest deletes records, or with All everything the agent has. An empty
// request deletes nothing and is refused.
type DeleteRequest struct {
	Agent string   `json:"agent"`
	Refs  []string `json:"refs,omitempty"` // at most 1,000
	All   bool     `json:"all,omitempty"`
}

// DeleteResponse says what went. Deleted rows are gone from the file's bytes,
// unless ErasePending: then a snapshot that is still open, as of an export or a
// backup, holds their bytes in the log, and they go once it has closed.
type DeleteResponse struct {
	Deleted  []string `json:"deleted,omitempty"`
	Missing  []string `json:"missing,omitempty"`
	Locked   []string `json:"locked,omitempty"`
	Memories int64    `json:"memories"`
	Episodes int64    `json:"episodes"`
	Profiles int64    `json:"profiles,omitempty"`

	ErasePending bool `json:"erase_pending,omitempty"`
}

// LockRequest locks or unlocks records against update and delete.
type LockRequest struct {
	Agent  string   `json:"agent"`
	Refs   []string `json:"refs"`
	Locked bool     `json:"locked"`
}

// LockResponse names the refs that changed or already were so, and the others.
type LockResponse struct {
	Done    []string `json:"done"`
	Missing []string `json:"missing,omitempty"`
}

// ProfileRequest sets the profile text of one user of an agent; "" removes it.
type ProfileRequest struct {
	Agent   string `json:"agent"`
	UserID  string `json:"user_id"`
	Content string `json:"content"`
}

// MergeRequest stores one agent's records and profiles for another one too, or
// with mode move, for the other one instead. What the target has already is
// skipped, so that a repeated merge changes nothing.
type MergeRequest struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Mode   string `json:"mode,omitempty"` // copy (default), move
	DryRun bool   `json:"dry_run,omitempty"`
}

// MergeResponse counts what a merge did. A dry run counts what would be offered
// to the target, as merged.
type MergeResponse struct {
	Merged  MergeCounts `json:"merged"`
	Skipped MergeCounts `json:"skipped"` // the target had them
	// Rejected are source records that a move left where they are: the target could
	// not take them, has their message id with another text, or they were changed
	// meanwhile. A copy names the first alone.
	Rejected []string `json:"rejected,omitempty"`
	Moved    int64    `json:"moved,omitempty"`  // records deleted at the source
	Locked   []string `json:"locked,omitempty"` // locked at the source: copied, and left there
}

// MergeCounts counts by kind.
type MergeCounts struct {
	Memories int64 `json:"memories"`
	Episodes int64 `json:"episodes"`
	Profiles int64 `json:"profiles"`
}

// PauseRequest makes every write of an agent's memory a refusal for a time.
type PauseRequest struct {
	Agent   string `json:"agent"`
	Seconds int    `json:"seconds"` // 1 to 86,400; 0 ends the pause
}

// PauseState says whether an agent's writes are paused. A pause outlives the
// server that it was asked of.
type PauseState struct {
	Paused    bool   `json:"paused"`
	Until     string `json:"until,omitempty"` // RFC 3339, UTC
	Seconds   int    `json:"seconds_left,omitempty"`
	WasPaused bool   `json:"was_paused,omitempty"` // before this request
}

// DeepCheckRequest looks at what an agent's records say instead of how they are
// stored. It changes nothing.
type DeepCheckRequest struct {
	Agent  string   `json:"agent"`
	Checks []string `json:"checks,omitempty"` // empty: all
}

// DeepCheckResponse has every check's result in name order.
type DeepCheckResponse struct {
	Agent   string        `json:"agent"`
	Scanned int64         `json:"scanned"` // records read
	Partial bool          `json:"partial,omitempty"`
	Checks  []CheckResult `json:"checks"`
}

// OperatingContext is what the operator tells every client: the file
// operating-context.md beside the store, never anything that a client wrote.
type OperatingContext struct {
	Enabled  bool     `json:"enabled"`            // false: there is no such file
	Revision string   `json:"revision,omitempty"` // of the file's bytes
	Summary  string   `json:"summary,omitempty"`  // what stands before the first heading
	Sections []string `json:"sections,omitempty"`
	Section  string   `json:"section,omitempty"` // the one asked for
	Body     string   `json:"body,omitempty"`
}

// CalibrateRequest measures thresholds from the agent's own rows (RR-427 to
// RR-433).
type CalibrateRequest struct {
	Agent     string  `json:"agent"`
	Method    string  `json:"method,omitempty"`    // separation (default), percentile, zscore
	Precision string  `json:"precision,omitempty"` // strict, balanced, lenient; empty: the agent's last one, else balanced
	Parameter float64 `json:"parameter,omitempty"` // the quantile or z; 0 for the method's default
	DryRun    bool    `json:"dry_run,omitempty"`
}

// CalibrateResponse has what was measured and what was stored.
type CalibrateResponse struct {
	Agent   string        `json:"agent"`
	Results []Calibration `json:"results"`
	Skipped []Degradation `json:"skipped,omitempty"` // signals without enough samples
}

// Calibration is one stored threshold.
type Calibration struct {
	Agent     string  `json:"agent"`
	Signal    string  `json:"signal"` // cosine (vector admission), rsf, rrf
	Method    string  `json:"method"`
	Precision string  `json:"precision"`
	Threshold float64 `json:"threshold"`
	Model     string  `json:"model"`
	Dims      int     `json:"dims"`
	Scoring   int     `json:"scoring_version"`
	Positives int     `json:"positives"`
	Negatives int     `json:"negatives"`
	Measured  string  `json:"measured"` // time
}

// Setting is one server setting; Value is what is in force.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
	Range   string `json:"range"`
	Stored  bool   `json:"stored"` // false: the default
}

// ModelRequest is an operator's word about an embedding model (DECISIONS 10).
type ModelRequest struct {
	Action string `json:"action"` // accept, rebuild, retire
	Model  string `json:"model,omitempty"`
	Agent  string `json:"agent,omitempty"` // empty: every agent
}

// ModelState is one known model.
type ModelState struct {
	ID       int64   `json:"id"`
	Backend  string  `json:"backend"`
	Name     string  `json:"name"`
	Dims     int     `json:"dims"`
	Prompts  string  `json:"prompt_policy,omitempty"`
	State    string  `json:"state"` // active, building, kept, drifted
	Embedded int64   `json:"embedded"`
	Records  int64   `json:"records"`
	Drift    float64 `json:"lowest_probe_cosine,omitempty"`
}

// Status is a server's view of itself.
type Status struct {
	Version  string     `json:"version"`
	TruthID  string     `json:"truth_id"`
	Schema   int        `json:"schema"`
	Path     string     `json:"path"`
	Ready    bool       `json:"ready"`
	Memories int64      `json:"memories"`
	Episodes int64      `json:"episodes"`
	Agents   int64      `json:"agents"`
	Queue    QueueState `json:"queue"`
	Blocks   BlockState `json:"blocks"`
	Model    ModelState `json:"model"`
	WALBytes int64      `json:"wal_bytes"`
	// OldestReaderSeconds is the age of the oldest open snapshot, which keeps the
	// log from being reset; 0 when none is as old as a second.
	OldestReaderSeconds int64     `json:"oldest_reader_seconds,omitempty"`
	Advisory            *Advisory `json:"advisory,omitempty"`
	// ErasePending: deleted bytes are still in the log, for as long as a snapshot
	// from before their deletion is open.
	ErasePending bool `json:"erase_pending,omitempty"`
	// LastMemory and LastEpisode are the highest numbers given out so far.
	LastMemory  int64 `json:"last_memory,omitempty"`
	LastEpisode int64 `json:"last_episode,omitempty"`
}

// QueueState counts embedding work.
type QueueState struct {
	Pending      int64  `json:"pending"`
	Failed       int64  `json:"failed"`       // waiting for a retry
	Unembeddable int64  `json:"unembeddable"` // terminal
	LastError    string `json:"last_error,omitempty"`
}

// BlockState is how far the building of blocks came.
type BlockState struct {
	Build        bool   `json:"build"`           // the setting blocks.build
	Nodes        string `json:"nodes,omitempty"` // window, or window_unknown: records have no nodes
	Records      int64  `json:"records"`         // with blocks
	Blocks       int64  `json:"blocks"`          // theirs
	Unembeddable int64  `json:"unembeddable"`    // of these; terminal
	Waiting      int64  `json:"waiting"`         // records to look at, at most
	Failed       int64  `json:"failed"`          // of these, to be tried again
	LastError    string `json:"last_error,omitempty"`
}

// IndexStateRequest says what is measured beside the state.
type IndexStateRequest struct {
	// ApproximateRecall is how many stored vectors are asked approximately and
	// exactly, 0 for none, at most [MaxRecallQueries].
	ApproximateRecall int `json:"approximate_recall,omitempty"`
}

// ApproximateRecall is how much of exact answers of the vector arm approximate
// ones have. Each question is a stored vector of the active model, asked of all of
// its agent's records and with the record itself left out of both answers.
type ApproximateRecall struct {
	// Queries counts the questions; 0 when nothing could be measured: there is no
	// scanner, or no record with another beside it.
	Queries int `json:"queries"`
	// At10 is the share, 0 to 1, of the ten nearest others of all questions
	// together; absent when there was no question.
	At10 *float64 `json:"at_10,omitempty"`
}

// IndexState is the derived side: files that follow from the store, and what the
// scanner's process holds of them. Changes are numbers of the store's log.
type IndexState struct {
	LastChange int64     `json:"last_change"` // of the store
	Words      WordState `json:"words"`
	Codes      CodeState `json:"codes"`
	// ApproximateRecall is set when the request asked for it.
	ApproximateRecall *ApproximateRecall `json:"approximate_recall,omitempty"`
}

// WordState is the files of postings.
type WordState struct {
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
	Rows     int64  `json:"rows"`    // in files
	Recent   int64  `json:"recent"`  // rows that wait in memory
	Applied  int64  `json:"applied"` // change up to which everything is searched
	Sealed   int64  `json:"sealed"`  // change up to which files hold everything
	Building bool   `json:"building,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
}

// CodeState is the files of block codes and record vectors, and the process that
// compares them with queries. Rows are blocks and record vectors together.
type CodeState struct {
	Scanner     string `json:"scanner"` // auto; off: there is no process and there are no files
	Generation  int64  `json:"generation"`
	Sequence    int64  `json:"sequence"` // change up to which files hold everything
	Applied     int64  `json:"applied"`  // change up to which the process holds everything
	Lag         int64  `json:"lag"`      // changes of the store after that
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	ValueBytes  int64  `json:"value_bytes"` // of these, vectors: int8 of blocks, float32 of records
	Rows        int64  `json:"rows"`        // in files
	Dead        int64  `json:"dead"`        // of these, replaced or deleted
	DeltaRows   int64  `json:"delta_rows"`  // beside the files
	DeltaBytes  int64  `json:"delta_bytes"`
	Built       int64  `json:"built_cells"` // cells that the process answers for
	Total       int64  `json:"cells"`
	Building    bool   `json:"building,omitempty"`
	Quarantined int64  `json:"quarantined"` // files set aside as damaged
	Restarts    int64  `json:"restarts"`    // processes after the first
	Trouble     string `json:"trouble,omitempty"`
	// Process is the one that runs; absent when there is none.
	Process *ScannerState `json:"process,omitempty"`
	// Rebuild is the one under way whose files are made beside those in use; absent
	// when there is none. With nothing built a rebuild is a build, which Building and
	// Built tell of.
	Rebuild *RebuildState `json:"rebuild,omitempty"`
}

// RebuildState is how far a rebuild is. What is stored meanwhile is taken over at
// its end, and is not counted.
type RebuildState struct {
	Rows  int64  `json:"rows_read"` // blocks and record vectors, at most Total
	Total int64  `json:"rows"`      // that the store had when it began
	Since string `json:"since"`     // when it began, RFC 3339 in UTC
}

// ScannerState is what the scanner's process has counted since it came up.
type ScannerState struct {
	Process     int64   `json:"process"` // its number
	Scans       int64   `json:"scans"`   // requests for blocks
	Ranks       int64   `json:"ranks"`   // requests for records
	Blocks      int64   `json:"blocks_scanned"`
	Records     int64   `json:"records_scanned"`
	Bytes       int64   `json:"bytes_scanned"` // of codes
	Passes      int64   `json:"passes"`
	Coalesced   int64   `json:"coalesced_queries"` // that shared a pass with another request's
	Seconds     float64 `json:"pass_seconds"`
	Waited      float64 `json:"wait_seconds"` // of passes, for their turn
	Mapped      int64   `json:"mapped_bytes"`
	Locked      int64   `json:"locked_bytes"`
	LockProblem string  `json:"lock_problem,omitempty"` // why not all codes are locked that should be
	Anonymous   int64   `json:"anonymous_bytes"`        // memory of its own
}

// IndexRequest is an operator's word about derived files.
type IndexRequest struct {
	Action string `json:"action"`           // rebuild, verify, compact
	Repair bool   `json:"repair,omitempty"` // verify: set damaged files aside and build their rows again
}

// IndexReport says what was done and how the derived side is since.
type IndexReport struct {
	Damaged       []string   `json:"damaged"` // verify: names of files
	FilesBefore   int64      `json:"files_before,omitempty"`
	FilesAfter    int64      `json:"files_after,omitempty"`
	DeadRows      int64      `json:"dead_rows,omitempty"`     // compact: left out
	CodeBytes     int64      `json:"code_bytes,omitempty"`    // compact: of codes written
	ValueBytes    int64      `json:"value_bytes,omitempty"`   // compact: of vectors copied out of files of which most was of no use
	Amplification float64    `json:"amplification,omitempty"` // bytes of codes written since the first build, for each byte written first
	Index         IndexState `json:"index"`
}

// DoctorRequest runs named checks; Fix repairs what a check can repair.
type DoctorRequest struct {
	Checks []string `json:"checks,omitempty"` // empty: all
	Fix    bool     `json:"fix,omitempty"`
}

// DoctorResponse has every check's result in name order.
type DoctorResponse struct {
	OK     bool          `json:"ok"`
	Checks []CheckResult `json:"checks"`
}

// CheckResult is one check: what it saw and what to do.
type CheckResult struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	Severity string   `json:"severity,omitempty"` // warning, error
	Evidence []string `json:"evidence,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	Fixed    int64    `json:"fixed,omitempty"`
}

// ExportRequest writes an agent's records as jsonl lines in a stable order.
type ExportRequest struct {
	Agent   string  `json:"agent"`
	Project *string `json:"project,omitempty"`
	Channel *string `json:"channel,omitempty"`
	// Kept adds what an import can keep: numbers, times, recalls and vectors.
	Kept bool `json:"kept,omitempty"`
}

// Limits of requests.
const (
	MaxStoreBatch  = 1_000
	DefaultCount   = 10
	MaxCount       = 100
	MaxContentRefs = 20
	MaxDeleteRefs  = 1_000
	MaxExclude     = 200
	// MaxExcludeChars bounds exclude_contents together, in code points.
	MaxExcludeChars = 4_000_000
	DefaultList     = 50
	MaxList         = 500
	// MaxPause is the longest pause of an agent's writes, in seconds.
	MaxPause = 86_400
)
