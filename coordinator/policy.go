package coordinator

import (
	"recalld/coordinator/admission"
	"recalld/coordinator/fusion"
	"recalld/embed"
)

// Policy is every server policy value in force. It is read once per request, so
// that one answer is made under one policy.
type Policy struct {
	Depth      int         // candidates per arm (RR-066)
	Arms       []string    // arms of a recall that names none
	Fusion     fusion.Mode // RR-404
	RRFK       float64     // RR-405
	WeightVec  float64     // RR-085
	WeightLex  float64
	WeightFTS  float64
	Evidence   float64 // what words must say to keep their weight, as a factor on what is enough; 0 is off
	VectorMin  float64 // RR-400: admission cosine without a calibrated one
	VectorPart float64 // RR-400: factor on it in fusion modes

	Approximate  bool // every recall compares vectors by int8 alone (DECISIONS 20)
	GateFused    bool // RR-424
	GateRelative bool // RR-422 on fused scores
	Autocut      bool // RR-426
	AutocutRatio float64

	ConfidenceOn bool // RR-413
	CountRecalls bool // RR-420; off pauses the counters
	Confidence   admission.Scorer

	// SupersededPrior is the factor on a memory that a newer version follows, so
	// that of two versions that match alike the newer comes first.
	SupersededPrior float64

	EpisodePrior bool // RR-412
	EpisodeRate  float64
	EpisodeFloor float64

	PreviewChars   int // RR-434; 0 is off
	FullBudget     int // RR-437
	ContentsBudget int // RR-438
	MaxContent     int // DECISIONS 12

	BlockBuild     bool // BR-128
	BlockRetrieve  bool // BR-130
	BlockReserved  int  // BR-061
	BlockParentCap int  // BR-037; 0 is off
	BlockScanCap   int  // BR-039; 0: all through the scanner, [mostInProcess] without

	ProfileRows int // RR-447
	ProfilePool int

	Scanner     string // ScannerAuto or ScannerOff
	ScannerLean bool   // DECISIONS 30
	ScannerLock bool

	DegradedAdvisory bool // RR-448
	VectorCacheMiB   int

	Embedding embed.Config // the model that new vectors are made with
	Previous  embed.Config // the model being replaced, while both are queried
}
