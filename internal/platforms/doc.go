// Package platforms holds the promise that every supported processor gives the
// same bits (DECISIONS 6): one test, whose golden was written on amd64, walks
// the sample corpus through each stage that makes a score, from vectors to the
// answer of a recall. `make test-arm64` runs it, and the tests of the packages
// below, on emulated arm64.
//
// Invariants: every number of the golden is exact, as integer or hexadecimal
// float, or is a digest of exact numbers; the answers alone are as users see
// them.
//
// It refuses to say whether a score is good.
package platforms
