package memory

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on what one field may hold, in code points unless the name says bytes.
const (
	MaxName           = 200       // agent, project, channel, user id, client
	MaxMessageID      = 500       // the caller's own id
	MaxProfile        = 2_000     // RR-445
	MaxSource         = 8_000     // type, id and name together, RR-445
	MaxMetadata       = 8_000     // the JSON text, RR-445
	MaxQuery          = 200_000   // a recall's query
	MaxKeywords       = 64        // number of an episode's keywords
	DefaultMaxContent = 16_000    // DECISIONS 12; a setting
	CeilingMaxContent = 1_000_000 // the largest value of that setting
)

// Kinds of error that callers tell apart with [errors.Is].
var (
	ErrInvalid  = errors.New("invalid input")      // a FieldError
	ErrNotFound = errors.New("not found")          // unknown, deleted, or another agent's
	ErrLocked   = errors.New("record is locked")   // unlock it first
	ErrReadOnly = errors.New("store is read-only") // the file, the folder or the disk
	ErrFull     = errors.New("disk is full")       // reads go on
	ErrCorrupt  = errors.New("store is damaged")   // refused, never repaired silently
	ErrTooNew   = errors.New("store is too new")   // written by a newer schema
	ErrBusy     = errors.New("store is in use")    // another process holds the folder
	ErrPaused   = errors.New("writes are paused")  // of one agent, for a time
)

// FieldError refuses one input. It names the field, what is wrong with it, the
// limit and the next step, and never repeats more than a shape of the value.
type FieldError struct {
	Field   string
	Problem string
	Limit   string
	Next    string
}

// Error implements error.
func (e *FieldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Field, e.Problem)
	if e.Limit != "" {
		fmt.Fprintf(&b, " (limit: %s)", e.Limit)
	}
	if e.Next != "" {
		fmt.Fprintf(&b, "; %s", e.Next)
	}
	return b.String()
}

// Is makes every FieldError an [ErrInvalid].
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// CheckText refuses a text that is not valid UTF-8, contains NUL, or is longer
// than limit code points. It never cuts. Everything else is kept verbatim.
func CheckText(field, s string, limit int) error {
	if !utf8.ValidString(s) {
		return &FieldError{Field: field, Problem: fmt.Sprintf("is not valid UTF-8 at byte %d", invalidAt(s)), Limit: "UTF-8 without NUL", Next: "convert it to UTF-8"}
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		return &FieldError{Field: field, Problem: fmt.Sprintf("contains NUL at byte %d", i), Limit: "UTF-8 without NUL", Next: "remove it"}
	}
	if len(s) <= limit {
		return nil
	}
	if n := Len(s); n > limit {
		return &FieldError{Field: field, Problem: fmt.Sprintf("has %d code points", n), Limit: fmt.Sprintf("%d code points", limit), Next: "shorten it or split it"}
	}
	return nil
}

// CheckContent is [CheckText] for a text that must not be blank.
func CheckContent(field, s string, limit int) error {
	if strings.TrimSpace(s) == "" {
		return &FieldError{Field: field, Problem: "is empty", Limit: fmt.Sprintf("1 to %d code points", limit), Next: "give the text to remember"}
	}
	return CheckText(field, s, limit)
}

// CheckName is [CheckText] for agent, project, channel and other identifiers,
// which besides hold no control characters, no line breaks, and no
// bidirectional controls that would make two names look alike. It may be empty.
func CheckName(field, s string) error { return checkIdentifier(field, s, MaxName) }

// CheckMessageID is [CheckName] with the limit of a message id.
func CheckMessageID(s string) error { return checkIdentifier("message_id", s, MaxMessageID) }

func checkIdentifier(field, s string, limit int) error {
	if err := CheckText(field, s, limit); err != nil {
		return err
	}
	if strings.TrimSpace(s) != s {
		return &FieldError{Field: field, Problem: "begins or ends with a space", Limit: "no surrounding space", Next: "trim it"}
	}
	for i, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return &FieldError{Field: field, Problem: fmt.Sprintf("contains the control character U+%04X at byte %d", r, i), Limit: "no control characters", Next: "remove it"}
		}
	}
	return nil
}

// Shape describes a value in an error without repeating all of it: at most 40
// code points, quoted.
func Shape(s string) string {
	prefix, cut := Prefix(strings.ToValidUTF8(s, "\uFFFD"), 40)
	if cut {
		return fmt.Sprintf("%q… (%d bytes)", prefix, len(s))
	}
	return fmt.Sprintf("%q", prefix)
}

func invalidAt(s string) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(s)
}
