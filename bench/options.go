package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"recalld/memory"
)

// Bounds of what is measured. They are far above what was ever of use, and keep a
// slip of the hand from filling a disk or a table of connections.
const (
	MaxLoadClients   = 4_096      // connections of one load
	MaxLadderRecords = 10_000_000 // records of one rung
	MaxRounds        = 1_000
	MaxSeconds       = 86_400
)

// between refuses a number of a flag that is outside its bounds.
func between(flag string, n, least, most int) error {
	if n < least || n > most {
		return &memory.FieldError{Field: flag, Problem: fmt.Sprintf("is %d", n), Limit: fmt.Sprintf("%d to %d", least, most), Next: "give a number inside the limit, or leave it out for the default"}
	}
	return nil
}

// Span makes a time of a flag's seconds. What no time can hold is too long, and no
// number is none, so that both are refused by name.
func Span(seconds float64) time.Duration {
	switch {
	case seconds > MaxSeconds:
		return (MaxSeconds + 1) * time.Second
	case seconds > 0:
		return time.Duration(seconds * float64(time.Second))
	}
	return 0
}

// checkSpan refuses a time that is none or too long.
func checkSpan(d time.Duration) error {
	problem := "are not above 0"
	switch {
	case d > MaxSeconds*time.Second:
		problem = "are too many"
	case d > 0:
		return nil
	}
	return &memory.FieldError{Field: "--seconds", Problem: problem, Limit: fmt.Sprintf("above 0, at most %d", MaxSeconds), Next: "give a number inside the limit, or leave it out for the default"}
}

// missing words the error of a file or folder that an argument names. One that is
// not there is a *[memory.FieldError] with what was looked for; wanted is what
// should be there.
func missing(field, wanted string, err error) error {
	var looked *fs.PathError
	if !errors.As(err, &looked) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return &memory.FieldError{Field: field, Problem: fmt.Sprintf("%q is not there", strings.ToValidUTF8(looked.Path, "\uFFFD")), Limit: wanted, Next: "look at the name and at the folder that it begins from"}
}
