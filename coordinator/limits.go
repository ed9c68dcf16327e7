package coordinator

import "recalld/coordinator/arm"

// The limits of blocks in a recall. Together with the settings blocks.parent_cap,
// blocks.scan_cap and blocks.reserved, and with [blocks.QuoteLimit] and
// [blocks.MaxLen], they are the server's policy: fixed before anything is
// measured, and never taken from a request (BR-136, BR-141).
const (
	rerankRows = 200 // nearest blocks that are ordered by their vectors (BR-044)
	// maxReserved bounds blocks.reserved (BR-061, DECISIONS 24).
	maxReserved = 10
	// mostInProcess bounds a scan that is neither the scanner's nor bounded by the
	// setting blocks.scan_cap (DECISIONS 19).
	mostInProcess = 250_000
)

func (p Policy) blockLimits() arm.BlockLimits {
	return arm.BlockLimits{PerParent: p.BlockParentCap, Scan: p.BlockScanCap, Rerank: rerankRows}
}
