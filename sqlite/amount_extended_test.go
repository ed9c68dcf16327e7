//go:build extended

package sqlite_test

// How much the random tests do in an extended run.
const (
	kills       = 200
	cuts        = 2000
	rapidChecks = 300
)
