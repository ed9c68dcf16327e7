package admission

import (
	"strings"
	"unicode"

	"recalld/memory"
)

// ExactBelow is the length, in code points after normalising, below which an
// excluded text must be equal instead of a prefix (RR-443).
const ExactBelow = 32

// Exclusion drops rows that the caller already holds.
type Exclusion struct {
	texts []excluded
}

// excluded is one text, normalised once for all rows.
type excluded struct {
	text  string
	exact bool // short: must be equal
}

// NewExclusion takes the caller's texts; blank ones are ignored.
func NewExclusion(texts []string) Exclusion {
	var e Exclusion
	for _, t := range texts {
		if n := normalise(t); n != "" {
			e.texts = append(e.texts, excluded{text: n, exact: short(n)})
		}
	}
	return e
}

// Excludes reports whether a row's content is one of the texts: a prefix either
// way, or equal when either is short. A caller that holds only the preview of a
// row excludes the whole row with it.
func (e Exclusion) Excludes(content string) bool {
	if len(e.texts) == 0 {
		return false
	}
	n := normalise(content)
	exact := short(n)
	for _, t := range e.texts {
		if t.text == n {
			return true
		}
		if exact || t.exact {
			continue
		}
		if strings.HasPrefix(n, t.text) || strings.HasPrefix(t.text, n) {
			return true
		}
	}
	return false
}

// short reports whether a normalised text must be equal; it reads no more of it
// than that takes.
func short(text string) bool {
	_, longer := memory.Prefix(text, ExactBelow-1)
	return !longer
}

// normalise lowers case and folds runs of white space.
func normalise(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), unicode.IsSpace), " ")
}
