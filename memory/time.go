package memory

import (
	"fmt"
	"strings"
	"time"
)

// Time is an instant in UTC milliseconds together with the offset in minutes
// that its writer used (DECISIONS 8). The zero value means "not known".
type Time struct {
	Milli  int64
	Offset int16
	Known  bool
}

// Times outside these bounds are refused.
var (
	minTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	maxTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// TimeOf converts a [time.Time], keeping its offset rounded to minutes.
func TimeOf(t time.Time) Time {
	_, seconds := t.Zone()
	return Time{Milli: t.UnixMilli(), Offset: int16(seconds / 60), Known: true}
}

// ParseTime reads an RFC 3339 time with a zone. The error names the field. An
// empty string is the zero Time.
func ParseTime(field, s string) (Time, error) {
	if s == "" {
		return Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	switch {
	case err == nil && !t.Before(minTime) && !t.After(maxTime):
		return TimeOf(t), nil
	case err == nil:
		return Time{}, &FieldError{Field: field, Problem: Shape(s) + " is out of range", Limit: "years 1 to 9999", Next: "leave the time out when it is not known"}
	case strings.Contains(s, ":60"):
		return Time{}, &FieldError{Field: field, Problem: Shape(s) + " is a leap second", Limit: "seconds 00 to 59", Next: "use the second before"}
	}
	return Time{}, &FieldError{Field: field, Problem: fmt.Sprintf("%s is not a time with a zone", Shape(s)), Limit: "RFC 3339, such as 2026-11-30T09:00:00+09:00 or 2026-11-30T00:00:00Z", Next: "add the zone, Z for UTC"}
}

// IsZero reports whether the time is not known.
func (t Time) IsZero() bool { return !t.Known }

// Std returns the instant in its own offset.
func (t Time) Std() time.Time {
	return time.UnixMilli(t.Milli).In(time.FixedZone("", int(t.Offset)*60))
}

// String returns RFC 3339 with the writer's offset, and milliseconds when there
// are any; "" when the time is not known.
func (t Time) String() string {
	if !t.Known {
		return ""
	}
	if t.Milli%1000 == 0 {
		return t.Std().Format(time.RFC3339)
	}
	return t.Std().Format("2006-01-02T15:04:05.000Z07:00")
}

// MarshalText implements [encoding.TextMarshaler].
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := ParseTime("time", string(text))
	if err == nil {
		*t = parsed
	}
	return err
}
