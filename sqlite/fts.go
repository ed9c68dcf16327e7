package sqlite

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"recalld/memory"
)

// Bounds of a full-text query.
const (
	maxFTSTerms = 64  // distinct terms (DECISIONS 16)
	maxFTSTerm  = 256 // code points of one term
	minFTSTerm  = 3   // the trigram index holds nothing shorter
)

// FTSQuery is a query of the compatibility arm.
type FTSQuery struct {
	Match     string // an FTS5 expression, "" when no term is long enough
	Terms     int
	Truncated bool // terms were left out or shortened
}

// BuildFTSQuery makes the reference's query of a text (RR-401): runs of Chinese,
// Japanese and Korean become overlapping terms of three characters, other words
// of three or more stay whole, inner punctuation included; all joined by OR.
// Punctuation at the edges of a word is trimmed. Any text is valid; operators
// and quotes in it are ordinary characters.
func BuildFTSQuery(text string) FTSQuery {
	var q FTSQuery
	seen := make(map[string]bool)
	var b strings.Builder
	add := func(term []rune) {
		if len(term) < minFTSTerm {
			return
		}
		if len(term) > maxFTSTerm {
			term = term[:maxFTSTerm]
			q.Truncated = true
		}
		key := strings.ToLower(string(term))
		if seen[key] {
			return
		}
		if len(seen) == maxFTSTerms {
			q.Truncated = true
			return
		}
		seen[key] = true
		if b.Len() > 0 {
			b.WriteString(" OR ")
		}
		b.WriteByte('"')
		b.WriteString(strings.ReplaceAll(string(term), `"`, `""`))
		b.WriteByte('"')
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == 0 }) {
		eachRun([]rune(word), func(run []rune, cjk bool) {
			if !cjk {
				add(trimEdges(run))
				return
			}
			for i := 0; i+minFTSTerm <= len(run); i++ {
				add(run[i : i+minFTSTerm])
			}
		})
	}
	q.Match, q.Terms = b.String(), len(seen)
	return q
}

// eachRun splits a word where it passes between CJK and other characters.
func eachRun(word []rune, each func(run []rune, cjk bool)) {
	for start := 0; start < len(word); {
		cjk := isCJK(word[start])
		end := start + 1
		for end < len(word) && isCJK(word[end]) == cjk {
			end++
		}
		each(word[start:end], cjk)
		start = end
	}
}

func isCJK(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r == 'ー' || r == '々'
}

func trimEdges(word []rune) []rune {
	edge := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !unicode.Is(unicode.So, r)
	}
	for len(word) > 0 && edge(word[0]) {
		word = word[1:]
	}
	for len(word) > 0 && edge(word[len(word)-1]) {
		word = word[:len(word)-1]
	}
	return word
}

// MatchFTS ranks the records of one kind in a scope by FTS5's bm25, best first,
// at most depth of them; Key is minus bm25. truncated says that more matched.
// The statistics behind bm25 are those of the whole file: this arm is excepted
// from non-interference and says so (DECISIONS 1, 16).
func (v *View) MatchFTS(scope memory.Scope, kind memory.Kind, q FTSQuery, depth int, sourceIDPrefix string) (found []memory.Candidate, truncated bool, err error) {
	if q.Match == "" || depth <= 0 || kind == memory.KindEpisode && sourceIDPrefix != "" {
		return nil, false, nil
	}
	fts, table := "memory_fts", "memory"
	if kind == memory.KindEpisode {
		fts, table = "episode_fts", "episode"
	}
	where, args := predicate("m.cell", scope)
	args = append([]any{q.Match}, args...)
	if sourceIDPrefix != "" {
		where += " AND substr(m.source_id, 1, length(?)) = ?"
		args = append(args, sourceIDPrefix, sourceIDPrefix)
	}
	err = v.query("SELECT m.id, bm25("+fts+") AS score FROM "+fts+" CROSS JOIN "+table+" m ON m.id = "+fts+".rowid WHERE "+
		fts+" MATCH ? AND "+where+" ORDER BY score, m.id LIMIT ?", append(args, depth+1), func(r row) error {
		if len(found) == depth {
			truncated = true
			return errStop
		}
		found = append(found, memory.Candidate{Ref: memory.Ref{Kind: kind, ID: r.int(0)}, Key: -r.float(1)})
		return nil
	})
	return found, truncated, err
}

// Unindexed counts the records that the full-text index does not hold yet; 0 in
// a view of [Store.View], unless the file cannot be written.
func (v *View) Unindexed() (n int64, err error) {
	err = v.query(unindexedSQL, nil, func(r row) error {
		n = r.int(0)
		return nil
	})
	return n, err
}

// scannedRows is how many memories of a scope are read for a substring. In a larger
// one the trigram index names those that can hold it. That costs what all agents'
// texts make it cost, which a small scope shall not (DECISIONS 1).
const scannedRows int64 = 5_000

// Substring finds the memories that contain a text literally, newest first, at
// most depth of them; ASCII letters match in either case (RR-402). Key falls
// with age and means nothing else.
func (v *View) Substring(scope memory.Scope, text string, depth int, sourceIDPrefix string) (found []memory.Candidate, truncated bool, err error) {
	if text == "" || depth <= 0 {
		return nil, false, nil
	}
	where, args := predicate("m.cell", scope)
	if sourceIDPrefix != "" {
		where += " AND substr(m.source_id, 1, length(?)) = ?"
		args = append(args, sourceIDPrefix, sourceIDPrefix)
	}
	where += " AND instr(lower(m.content), lower(?)) > 0 ORDER BY m.id DESC LIMIT ?"
	args = append(args, text, depth+1)
	search := func(sql string, args []any) error {
		found, truncated = nil, false
		return v.query(sql, args, func(r row) error {
			if len(found) == depth {
				truncated = true
				return errStop
			}
			found = append(found, memory.Candidate{Ref: memory.Ref{Kind: memory.KindMemory, ID: r.int(0)}, Key: float64(r.int(0))})
			return nil
		})
	}
	indexed := utf8.RuneCountInString(text) >= minFTSTerm && !strings.ContainsRune(text, 0)
	if indexed {
		stats, err := v.Stats(scope)
		if err != nil {
			return nil, false, err
		}
		indexed = stats.Memories > v.store.scannedRows
	}
	if indexed {
		err := search(`SELECT m.id FROM (SELECT rowid AS id FROM memory_fts WHERE memory_fts MATCH ?
			UNION ALL SELECT id FROM memory WHERE id > (SELECT upto FROM fts_mark WHERE kind = 2)) f CROSS JOIN memory m ON m.id = f.id WHERE `+where,
			append([]any{`"` + strings.ReplaceAll(text, `"`, `""`) + `"`}, args...))
		if !errors.Is(err, memory.ErrCorrupt) { // an index that is damaged is no reason not to answer
			return found, truncated, err
		}
	}
	err = search("SELECT m.id FROM memory m INDEXED BY memory_cell WHERE "+where, args)
	return found, truncated, err
}
