//go:build !extended

package sqlite_test

// How much the random tests do in every run.
const (
	kills       = 20
	cuts        = 100
	rapidChecks = 20
)
