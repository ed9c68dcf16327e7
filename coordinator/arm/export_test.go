package arm

import (
	"testing"

	"recalld/shards"
	"recalld/sqlite"
)

// OpenCodes is openCodes for tests outside the package.
func OpenCodes(t testing.TB, store *sqlite.Store, folder string) *shards.Codes {
	return openCodes(t, store, folder)
}

// Within is a scanner that is asked again until it has an answer.
func Within(t testing.TB, codes *shards.Codes) Scanner { return within{t, codes} }
