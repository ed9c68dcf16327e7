package ingest

import (
	"math"
	"strings"
	"time"

	"recalld/memory"
)

// What other programs write for a time, besides RFC 3339. One without a zone is
// taken for UTC.
var layouts = [...]string{
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999Z0700",
	"2006-01-02 15:04:05.999999999 Z07:00",
	"2006-01-02 15:04:05.999999999 Z0700",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04",
	"2006-01-02 15:04",
	"2006-01-02",
	"2006/01/02 15:04:05",
	"2006/01/02",
}

// readTime reads a time as another program wrote it, as RFC 3339; "" and true for
// none, false for what is no time.
func readTime(s string) (string, bool) {
	if s = strings.TrimSpace(s); s == "" {
		return "", true
	}
	if t, err := memory.ParseTime("time", s); err == nil {
		return t.String(), true
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return memory.TimeOf(t).String(), true
		}
	}
	return "", false
}

// unixTime is a number of seconds since 1970 as RFC 3339 in UTC, "" for none.
func unixTime(seconds float64) string {
	if seconds == 0 || math.IsNaN(seconds) || math.Abs(seconds) > 1e11 {
		return ""
	}
	whole, part := math.Modf(seconds)
	return memory.TimeOf(time.Unix(int64(whole), int64(part*1e9)).UTC()).String()
}
