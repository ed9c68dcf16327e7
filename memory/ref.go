package memory

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says which of the two independent id spaces a reference is in (RR-435).
// The numeric order is the byte order of the names, "ep" before "mem".
type Kind uint8

// The two kinds of record.
const (
	KindEpisode Kind = 1
	KindMemory  Kind = 2
)

// String returns "ep" or "mem".
func (k Kind) String() string {
	if k == KindEpisode {
		return "ep"
	}
	return "mem"
}

// Ref names one stored record. IDs start at 1 and are never used again.
type Ref struct {
	Kind Kind
	ID   int64
}

// String returns the handle that clients see, such as "mem:12" or "ep:7".
func (r Ref) String() string {
	return r.Kind.String() + ":" + strconv.FormatInt(r.ID, 10)
}

// MarshalText implements [encoding.TextMarshaler].
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Ref) UnmarshalText(text []byte) error {
	parsed, err := ParseRef(string(text))
	if err == nil {
		*r = parsed
	}
	return err
}

// ParseRef reads a handle written by [Ref.String]. Only the canonical form is
// accepted: no sign, no leading zero, no space.
func ParseRef(s string) (Ref, error) {
	kind, digits, ok := strings.Cut(s, ":")
	var k Kind
	switch kind {
	case "ep":
		k = KindEpisode
	case "mem":
		k = KindMemory
	default:
		ok = false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || id < 1 || strconv.FormatInt(id, 10) != digits {
		return Ref{}, &FieldError{Field: "ref", Problem: fmt.Sprintf("%s is not a reference", Shape(s)), Limit: "mem:<id> or ep:<id>", Next: "take refs from an answer as they are"}
	}
	return Ref{Kind: k, ID: id}, nil
}
