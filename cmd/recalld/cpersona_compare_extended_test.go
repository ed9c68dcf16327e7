//go:build extended

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"recalld/coordinator"
	"recalld/sqlite"
)

// scaleTrace is what the package says of one recall of its own. References are
// the same on both sides: the import kept the numbers.
type scaleTrace struct {
	Shown   []string            `json:"shown"`
	Fused   []string            `json:"fused"`  // best first, before its gate
	Scores  []float64           `json:"scores"` // of Fused
	Refused []string            `json:"refused"`
	Arms    map[string][]string `json:"arms"`
	Window  int                 `json:"window"`
	Phrases []string            `json:"phrases"` // what its full-text arm looks for
}

// scaleStep is one pair of answers to every question. A step differs from the one
// before it in one thing, so what is no difference any more from it on was that
// thing's doing.
type scaleStep struct {
	name         string
	theirs, ours [][]string
}

// compare puts the questions to both sides, takes one difference between them away
// after the other, and logs how many rows each of them explains. Rows that blocks
// add behind ours are left out.
func (s scaleService) compare(t *testing.T, c *cpersonaPackage, queries []scaleQuery) {
	t.Helper()
	texts := make([]string, len(queries))
	for i, q := range queries {
		texts[i] = q.text
	}
	trace := func(window int, texts []string, terms [][]string) (all []scaleTrace) {
		began := time.Now()
		c.more = []string{fmt.Sprint("CPERSONA_MAX_MEMORIES=", window)}
		c.do("trace", map[string]any{"agent": "scale", "queries": texts, "terms": terms, "limit": scaleCount}, &all)
		if len(all) != len(texts) {
			t.Fatalf("%d answers to %d questions", len(all), len(texts))
		}
		if all[0].Window != window {
			t.Fatalf("a window of %d, not %d", all[0].Window, window)
		}
		t.Logf("%d answers of the package in %.1f s with a window of %d", len(all), time.Since(began).Seconds(), window)
		return all
	}
	var answers []*coordinator.RecallResponse
	ours := func(request coordinator.RecallRequest) (all [][]string) {
		answers = nil
		began := time.Now()
		for _, text := range texts {
			request.Query = text
			answer := s.ask(t, request)
			var refs []string
			for _, row := range answer.Rows {
				if row.Admission == "" {
					refs = append(refs, row.Ref)
				}
			}
			answers, all = append(answers, answer), append(all, refs)
		}
		t.Logf("%d answers of ours in %.1f s", len(all), time.Since(began).Seconds())
		return all
	}
	shown, fused := func(x scaleTrace) []string { return x.Shown }, func(x scaleTrace) []string { return x.Fused[:min(scaleCount, len(x.Fused))] }
	of := func(all []scaleTrace, part func(scaleTrace) []string) (lists [][]string) {
		for _, x := range all {
			lists = append(lists, part(x))
		}
		return lists
	}

	asItComes, whole := trace(scaleWindow, texts, nil), trace(scaleRows, texts, nil)
	sameCut := slices.Clone(whole)
	for i, x := range whole {
		if terms := lacking(texts[i], x.Phrases); len(terms) > 0 {
			t.Logf("%q: it does not look for %q", texts[i], terms)
			sameCut[i] = trace(scaleRows, texts[i:i+1], [][]string{terms})[0]
		}
	}
	plain := ours(coordinator.RecallRequest{})
	told := direct(queries, asItComes, whole, answers)
	ranks := ours(coordinator.RecallRequest{Fusion: "rrf"})
	both := coordinator.RecallRequest{Fusion: "rrf", Arms: []string{"vector", "fts"}}
	pieces := ours(both)
	if _, err := s.SetSetting(t.Context(), "recall.depth", strconv.Itoa(scaleCount)); err != nil {
		t.Fatal(err)
	}
	short := ours(both)
	steps := []scaleStep{
		{"as they come", of(asItComes, shown), plain},
		{"its gate", of(asItComes, fused), plain},
		{"its window", of(whole, fused), plain},
		{"fusion", of(whole, fused), ranks},
		{"words against three-letter pieces", of(whole, fused), pieces},
		{"depth", of(whole, fused), short},
		{"how the question is cut", of(sameCut, fused), short},
	}
	for _, step := range steps {
		same, together, theirs, mine, hitTheirs, hitOurs := 0, 0, 0, 0, 0, 0
		for i := range queries {
			common := len(step.theirs[i]) - len(without(step.theirs[i], step.ours[i]))
			together, theirs, mine = together+common, theirs+len(step.theirs[i]), mine+len(step.ours[i])
			if common == len(step.theirs[i]) && common == len(step.ours[i]) {
				same++
			}
			target := scaleRef(queries[i].target)
			hitTheirs += has(step.theirs[i], target)
			hitOurs += has(step.ours[i], target)
		}
		if step.name == steps[0].name && hitOurs != len(queries) {
			t.Errorf("%d of %d targets are in our answers", hitOurs, len(queries))
		}
		t.Logf("%-34s %2d of %d top tens are equal as sets, %3d of its %d rows are in our %d; the target is in %d of its and in %d of ours", step.name+":", same, len(queries), together, theirs, mine, hitTheirs, hitOurs)
	}
	explain(t, steps, func(question int, ref string) string {
		return rest(sameCut[question], steps[len(steps)-1].ours[question], ref)
	})
	t.Log(told)
}

// explain counts the rows that only one side shows by the first step from which on
// they are no difference; rest names what explains those that the last step leaves.
func explain(t *testing.T, steps []scaleStep, rest func(question int, ref string) string) {
	t.Helper()
	only := func(step scaleStep, question, side int) []string {
		if side == 0 {
			return without(step.theirs[question], step.ours[question])
		}
		return without(step.ours[question], step.theirs[question])
	}
	var names []string
	for _, step := range steps[1:] {
		names = append(names, step.name)
	}
	names = append(names, restTie, restNone)
	counts := make(map[string][2]int)
	for question := range steps[0].theirs {
		for side := range 2 {
			for _, ref := range only(steps[0], question, side) {
				gone := len(steps)
				for gone > 0 && has(only(steps[gone-1], question, 0), ref)+has(only(steps[gone-1], question, 1), ref) == 0 {
					gone--
				}
				var name string
				if gone < len(steps) {
					name = steps[gone].name
				} else if name = rest(question, ref); name == restNone {
					t.Logf("not explained: question %d, %s", question, ref)
				}
				count := counts[name]
				count[side]++
				counts[name] = count
			}
		}
	}
	for _, name := range names {
		t.Logf("explained by %-34s %3d rows that only it shows, %3d that only we show", name+":", counts[name][0], counts[name][1])
	}
}

const (
	restTie  = "equal scores at the tenth place"
	restNone = "nothing of these"
)

// lacking are the pieces that our full-text arm looks for and the package does not.
func lacking(question string, phrases []string) (terms []string) {
	for piece := range strings.SplitSeq(sqlite.BuildFTSQuery(question).Match, " OR ") {
		if piece = strings.Trim(piece, `"`); has(phrases, piece) == 0 && piece != "" {
			terms = append(terms, piece)
		}
	}
	return terms
}

// rest explains a row that only one side shows though both do the same: it has the
// score of the tenth there, and we show those of the equals with the lower numbers.
func rest(theirs scaleTrace, ours []string, ref string) string {
	at := slices.Index(theirs.Fused, ref)
	if at < 0 || len(theirs.Fused) < scaleCount || theirs.Scores[at] != theirs.Scores[scaleCount-1] {
		return restNone
	}
	for other, score := range theirs.Scores {
		if score == theirs.Scores[at] && has(ours, theirs.Fused[other]) != has(ours, ref) && (number(theirs.Fused[other]) < number(ref)) != (has(ours, ref) == 0) {
			return restNone
		}
	}
	return restTie
}

// scaleDirect is what the package's own traces say of the differences, whatever
// the order in which they are taken away.
type scaleDirect struct {
	theirs, filler             int // rows that only it shows; not among the ten nearest of all, only of its window
	ours, refused, cut         int // rows that only we show; those that it had fused
	old, lost, twoLetters      int // older than its window: among the ten nearest of all, or else without any piece that it looks for
	deep                       int // in reach of an arm of its that had ten others
	missed, missedOut, missTwo int // targets that it does not show; those out of reach of every arm; of these with a two-letter word
}

func (d scaleDirect) String() string {
	return fmt.Sprintf("%d rows that only it shows: %d are among the ten nearest of its window and not of all.\n"+
		"%d rows that only we show: it refused %d and cut %d at ten; %d are among the ten nearest of all and older than its window; %d more are older and have none of its pieces (%d of them a two-letter word of the question); %d were in reach of an arm that had ten others.\n"+
		"%d targets that it does not show: %d are older than its window and have none of its pieces, %d of them a two-letter word of the question",
		d.theirs, d.filler, d.ours, d.refused, d.cut, d.old, d.lost, d.twoLetters, d.deep, d.missed, d.missedOut, d.missTwo)
}

const nearArm = "vector_near" // the package's name for the arm of its window

func direct(queries []scaleQuery, theirs, whole []scaleTrace, ours []*coordinator.RecallResponse) (d scaleDirect) {
	for i, answer := range ours {
		x := theirs[i]
		outside := func(row coordinator.Row) (out, two bool) {
			folded := strings.ToLower(row.Content)
			piece := slices.ContainsFunc(x.Phrases, func(p string) bool { return strings.Contains(folded, strings.ToLower(p)) })
			two = slices.ContainsFunc(row.MatchReason.Terms, func(w string) bool { return utf8.RuneCountInString(w) == 2 && len(w) == 6 })
			return number(row.Ref) <= scaleRows-scaleWindow && !piece, two
		}
		var shown []string
		for _, row := range answer.Rows {
			if row.Admission != "" {
				continue
			}
			if shown = append(shown, row.Ref); has(x.Shown, row.Ref) > 0 {
				continue
			}
			d.ours++
			out, two := outside(row)
			if row.Ref == scaleRef(queries[i].target) {
				d.missed++
				d.missedOut += count(out)
				d.missTwo += count(out && two)
			}
			switch {
			case has(x.Refused, row.Ref) > 0:
				d.refused++
			case has(x.Fused, row.Ref) > 0:
				d.cut++
			case number(row.Ref) <= scaleRows-scaleWindow && has(whole[i].Arms[nearArm], row.Ref) > 0:
				d.old++
			case out:
				d.lost++
				d.twoLetters += count(two)
			default:
				d.deep++
			}
		}
		for _, ref := range without(x.Shown, shown) {
			d.theirs++
			d.filler += count(has(x.Arms[nearArm], ref) > has(whole[i].Arms[nearArm], ref))
		}
	}
	return d
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// number is that of a record, which its reference ends with.
func number(ref string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(ref, "mem:"))
	return n
}

func scaleRef(index int) string { return fmt.Sprint("mem:", index+1) }

func has(refs []string, ref string) int { return count(slices.Contains(refs, ref)) }

func without(all, others []string) (left []string) {
	for _, ref := range all {
		if !slices.Contains(others, ref) {
			left = append(left, ref)
		}
	}
	return left
}
