package coordinator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/coordinator/admission"
	"recalld/coordinator/arm"
	"recalld/memory"
	"recalld/sqlite"
)

// deterministic are the arms whose answers depend on the scope alone.
var deterministic = []string{"vector", "lexical"}

// RR-439 to RR-441: the three axes, with decoys across each, in every arm, in a
// listing, in get_contents and in list.
func TestScopesHoldInEveryRead(t *testing.T) {
	b := open(t, nil)
	type place struct{ agent, project, channel string }
	refs := map[string]place{}
	for _, agent := range []string{"mia", "ken", ""} {
		if agent == "" {
			continue
		}
		for _, project := range []string{"", "atlas", "borealis"} {
			for _, channel := range []string{"", "chat", "mail"} {
				text := fmt.Sprintf("staging database of %s in %q on %q", agent, project, channel)
				for _, ref := range b.put(agent, StoreItem{Content: text, Project: project, Channel: channel},
					StoreItem{Type: "episode", Summary: text + " episode", Project: project, Channel: channel}) {
					refs[ref] = place{agent, project, channel}
				}
			}
		}
	}
	var all []string
	for ref := range refs {
		all = append(all, ref)
	}
	slices.Sort(all)
	for _, agent := range []string{"mia", "ken", "nobody"} {
		for _, project := range []*string{nil, pointer(""), pointer("atlas"), pointer("none")} {
			for _, channel := range []*string{nil, pointer(""), pointer("chat"), pointer("none")} {
				scope := memory.Scope{Agent: agent, Project: project, Channel: channel}
				var want []string
				for _, ref := range all {
					p := refs[ref]
					if scope.Contains(memory.Cell{Agent: p.agent, Project: p.project, Channel: p.channel}) {
						want = append(want, ref)
					}
				}
				for _, arms := range [][]string{{"vector"}, {"lexical"}, {"fts"}, {"all"}} {
					check(t, fmt.Sprint(arms), scope, want, refsIn(b.recall(RecallRequest{Agent: agent, Project: project, Channel: channel, Query: "staging database", Arms: arms, Gate: "off", Count: 100}).Rows))
				}
				check(t, "listing", scope, want, refsIn(b.recall(RecallRequest{Agent: agent, Project: project, Channel: channel, Count: 100}).Rows))
				check(t, "contents", scope, want, contentsOf(b, scope, all))
				check(t, "list", scope, want, listOf(b, scope))
			}
		}
	}
}

func check(t *testing.T, what string, scope memory.Scope, want, got []string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s of %s: got %v, want %v", what, encode(t, scope), got, want)
	}
}

func contentsOf(b *bench, scope memory.Scope, refs []string) (found []string) {
	for part := range slices.Chunk(refs, MaxContentRefs) {
		a, err := b.GetContents(b.t.Context(), ContentsRequest{Agent: scope.Agent, Project: scope.Project, Channel: scope.Channel, Refs: part})
		if err != nil {
			b.t.Fatal(err)
		}
		found = append(found, refsIn(a.Rows)...)
		if len(a.Rows)+len(a.Missing) != len(part) {
			b.t.Errorf("%d rows and %d missing of %d", len(a.Rows), len(a.Missing), len(part))
		}
	}
	return found
}

func listOf(b *bench, scope memory.Scope) (found []string) {
	for _, kind := range []string{"memory", "episode"} {
		r := ListRequest{Agent: scope.Agent, Project: scope.Project, Channel: scope.Channel, Type: kind, Limit: 2}
		for first := true; first || r.Cursor != ""; first = false {
			page, err := b.List(b.t.Context(), r)
			if err != nil {
				b.t.Fatal(err)
			}
			found = append(found, refsIn(page.Rows)...)
			r.Cursor = page.Cursor
		}
	}
	return found
}

// Issue, Bad input: another agent's references are answered exactly like
// unknown ones, by every operation.
func TestForeignReferencesLookUnknown(t *testing.T) {
	b := open(t, nil)
	foreign := b.put("ken", say("the password of ken"))[0]
	b.put("mia", say("mine"))
	unknown := "mem:9999"
	ctx := t.Context()
	words := func(text string, err error) string {
		return strings.ReplaceAll(fmt.Sprint(text, err), foreign, unknown)
	}
	do := func(ref string) []string {
		got, err1 := b.GetContents(ctx, ContentsRequest{Agent: "mia", Refs: []string{ref, ref + "#chars=0-3"}})
		row, err2 := b.Update(ctx, UpdateRequest{Agent: "mia", Ref: ref, Content: pointer("stolen")})
		gone, err3 := b.Delete(ctx, DeleteRequest{Agent: "mia", Refs: []string{ref}})
		locked, err4 := b.Lock(ctx, LockRequest{Agent: "mia", Refs: []string{ref}, Locked: true})
		if !errors.Is(err2, memory.ErrNotFound) {
			t.Errorf("update of %s: %v", ref, err2)
		}
		return []string{words(encode(t, got), err1), words(encode(t, row), err2), words(encode(t, gone), err3), words(encode(t, locked), err4)}
	}
	if a, c := do(foreign), do(unknown); !slices.Equal(a, c) {
		t.Errorf("a foreign reference gives\n%v\nan unknown one\n%v", a, c)
	}
	if r := b.record(foreign); r.Content != "the password of ken" || r.Locked {
		t.Errorf("the foreign record changed: %+v", r)
	}
}

// story is a random history of one agent that can be told beside others.
type story struct {
	seed  uint64
	steps int
}

// tell stores the story's records for the agent. between is called before every
// step, to let others write.
func (s story) tell(b *bench, agent string, between func()) {
	r := rand.New(rand.NewPCG(s.seed, 3))
	l := newLanguage(s.seed)
	var refs []string
	for range s.steps {
		between()
		item := StoreItem{Content: l.sentence(3 + r.IntN(8)), Project: []string{"", "atlas"}[r.IntN(2)], Channel: []string{"", "chat"}[r.IntN(2)],
			Time: start.Add(-time.Duration(r.IntN(5_000)) * time.Hour).Format(time.RFC3339)}
		switch n := r.IntN(10); {
		case n < 7 || len(refs) == 0:
			refs = append(refs, b.put(agent, item)...)
		case n < 8:
			refs = append(refs, b.put(agent, StoreItem{Type: "episode", Summary: item.Content, Project: item.Project, Channel: item.Channel})...)
		case n < 9:
			// A text or cell that is taken already is refused, beside others or not.
			if _, err := b.Update(b.t.Context(), UpdateRequest{Agent: agent, Ref: refs[r.IntN(len(refs))], Project: &item.Project}); err != nil && !errors.Is(err, memory.ErrInvalid) {
				b.t.Fatal(err)
			}
		default:
			b.put(agent, StoreItem{Type: "profile", UserID: "u", Content: item.Content})
		}
		b.pass(time.Minute)
	}
}

// questions are the story's recalls, as one text with references replaced by
// their places in the order of storing. The number of rows that the vector arm
// touched is in it; the number of postings, which follows the cut into files,
// only when asked for.
func (s story) questions(b *bench, agent string, n int, postings bool) string {
	r := rand.New(rand.NewPCG(s.seed, 4))
	l := newLanguage(s.seed + 1)
	var out strings.Builder
	for range n {
		q := RecallRequest{Agent: agent, Query: l.sentence(1 + r.IntN(6)), Count: 1 + r.IntN(12), Arms: deterministic, Explain: r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			q.Project = pointer([]string{"", "atlas", "none"}[r.IntN(3)])
		}
		if r.IntN(3) == 0 {
			q.Channel = pointer("chat")
		}
		q.Gate = []string{"", "off"}[r.IntN(2)]
		q.Fusion = []string{"", "rrf"}[r.IntN(2)]
		q.Deep = r.IntN(5) == 0
		if r.IntN(12) == 0 {
			q.Query = ""
		}
		answer := b.recall(q)
		if e := answer.Explain; e != nil && !postings {
			for i := range e.Arms {
				if e.Arms[i].Arm != arm.VectorName {
					e.Arms[i].Scanned = 0
				}
			}
		}
		out.WriteString(encode(b.t, answer))
	}
	return renumber(b, agent, out.String())
}

var refPattern = regexp.MustCompile(`"(mem|ep):[0-9]+"|"id": [0-9]+`)

// renumber replaces an agent's references by their places among its own, the
// only thing in an answer that others' writes move.
func renumber(b *bench, agent, text string) string {
	place := map[string]string{}
	for _, kind := range []string{"memory", "episode"} {
		var refs []string
		r := ListRequest{Agent: agent, Type: kind, Limit: MaxList}
		for first := true; first || r.Cursor != ""; first = false {
			page, err := b.List(b.t.Context(), r)
			if err != nil {
				b.t.Fatal(err)
			}
			refs = append(refs, refsIn(page.Rows)...)
			r.Cursor = page.Cursor
		}
		slices.Reverse(refs)
		for i, ref := range refs {
			place[strconv.Quote(ref)] = kind + " " + strconv.Itoa(i+1)
		}
	}
	return refPattern.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, `"id"`) {
			return `"id": n`
		}
		if p, ok := place[found]; ok {
			return p
		}
		return "FOREIGN " + found
	})
}

// DECISIONS 1, ARCHITECTURE 8.1, 8.4, 8.5, RR-439: an agent's answers are the
// same bytes beside nobody and beside others who write in between, from a cold
// and a warm cache, with a small cache that evicts, through a scanner or not, before
// and after files are sealed, without the derived files, and after a restart. References are
// compared by their place, because ids are shared.
func TestNeighboursNeverChangeAnAnswer(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		s := story{seed: rapid.Uint64().Draw(rt, "seed"), steps: rapid.IntRange(1, 25).Draw(rt, "steps")}
		settings := map[string]string{"confidence.enabled": strconv.FormatBool(rapid.Bool().Draw(rt, "scorer")), "confidence.count_recalls": "false", "profile.min_pool": "3",
			"vector.cache_mib": rapid.SampledFrom([]string{"0", "1", "256"}).Draw(rt, "cache"), "prior.episode": strconv.FormatBool(rapid.Bool().Draw(rt, "prior")), "recall.depth": "10"}
		through := rapid.Bool().Draw(rt, "through a scanner")
		world := func(name string) *bench {
			folder := filepath.Join(dir, fmt.Sprint(run, name))
			if err := os.Mkdir(folder, 0o700); err != nil {
				rt.Fatal(err)
			}
			if name == "beside" && through {
				return openWith(t, filepath.Join(folder, "recall.db"), settings, ownScanner(t))
			}
			return openAt(t, filepath.Join(folder, "recall.db"), settings)
		}
		alone, beside := world("alone"), world("beside")
		defer alone.down()
		defer beside.down()
		s.tell(alone, "mia", func() {})
		others := newLanguage(s.seed + 2)
		s.tell(beside, "mia", func() {
			for range others.random.IntN(4) {
				agent := []string{"ken", "Mia", "mia2"}[others.random.IntN(3)]
				beside.put(agent, StoreItem{Content: others.sentence(6), Project: "atlas"}, StoreItem{Type: "episode", Summary: others.sentence(4), Project: "atlas"},
					StoreItem{Type: "profile", UserID: "u", Content: "another user"})
			}
		})
		if err := beside.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "ken", Model: 1, Dims: 512, Signal: "rsf", Threshold: .9, ScoringVersion: admission.ScoringVersion}); err != nil {
			rt.Fatal(err)
		}
		want := s.questions(alone, "mia", 12, false)
		if strings.Contains(want, "FOREIGN") {
			rt.Fatalf("a reference of nobody: %s", want)
		}
		for _, what := range []string{"cold", "warm", "evicted", "sealed", "restarted", "left by others", "sealed again", "without derived files", "restarted without derived files"} {
			switch what {
			case "evicted":
				beside.matrices.Forget()
			case "sealed", "sealed again":
				if err := beside.words.Seal(t.Context()); err != nil {
					rt.Fatal(err)
				}
				if through {
					beside.built()
					if err := beside.codes.Seal(t.Context()); err != nil {
						rt.Fatal(err)
					}
				}
			case "left by others":
				if _, err := beside.Delete(t.Context(), DeleteRequest{Agent: "ken", All: true}); err != nil {
					rt.Fatal(err)
				}
			case "without derived files", "restarted without derived files":
				for os.RemoveAll(filepath.Join(filepath.Dir(beside.path), "derived")) != nil {
				}
			}
			if strings.HasPrefix(what, "restarted") {
				beside.restart()
			}
			if got := s.questions(beside, "mia", 12, false); got != want {
				rt.Fatalf("%s: %s", what, firstDifference(got, want))
			}
			if what != "sealed" {
				continue
			}
			if err := alone.words.Seal(t.Context()); err != nil {
				rt.Fatal(err)
			}
			if got, want := s.questions(beside, "mia", 12, true), s.questions(alone, "mia", 12, true); got != want {
				rt.Fatalf("postings touched: %s", firstDifference(got, want))
			}
		}
		alone.restart()
		if got := s.questions(alone, "mia", 12, false); got != want {
			rt.Fatalf("alone, restarted: %s", firstDifference(got, want))
		}
	})
}

// firstDifference shows where two texts part.
func firstDifference(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	from := max(0, i-200)
	return fmt.Sprintf("at byte %d\ngot  …%s\nwant …%s", i, got[from:min(len(got), i+200)], want[from:min(len(want), i+200)])
}

// DECISIONS 1, 16: the compatibility arms are the exception, and every answer
// that they took part in says so.
func TestSharedStatisticsAreAdmitted(t *testing.T) {
	b := open(t, nil)
	b.put("mia", days()...)
	said := func(arms ...string) (found []string) {
		for _, d := range b.recall(RecallRequest{Agent: "mia", Query: "staging database", Arms: arms}).Degraded {
			found = append(found, d.Arm+" "+d.Reason)
		}
		return found
	}
	if got := said("vector", "fts"); !slices.Contains(got, "fts_memory fts_shared_statistics") {
		t.Errorf("%v", got)
	}
	for _, arms := range [][]string{nil, {"all"}, {"vector"}, {"lexical"}} {
		if got := said(arms...); len(got) != 0 {
			t.Errorf("arms %v: %v", arms, got)
		}
	}
}
