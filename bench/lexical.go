package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/memory"
	"recalld/shards"
	"recalld/sqlite"
)

// LexicalOptions of [Lexical].
type LexicalOptions struct {
	Folder    string // an empty folder
	Own       int    // records of the agent that is asked beside others
	Crowd     int    // records of the others, all in one cell
	Questions int    // per measurement
	Progress  coordinator.Progress
	Clock     func() time.Time
}

// LexicalReport is one measurement of the lexical arms, through whole recalls
// without vectors.
type LexicalReport struct {
	Own      OwnReport     `json:"own_beside_others"`
	Crowd    LatencyReport `json:"one_cell_ms"`
	Records  int           `json:"records_in_one_cell"`
	Text     int64         `json:"text_bytes"`
	Index    int64         `json:"index_bytes"`
	Ratio    float64       `json:"index_to_text"`
	Build    float64       `json:"build_mb_per_s"` // of text, from the file, in one goroutine
	Open     float64       `json:"open_ms"`        // of an index that is built
	Erase    LatencyReport `json:"erase_ms"`       // deletes of one record, until its words are in no file
	Japanese float64       `json:"japanese_two_characters_hit_at_10"`
	Chinese  float64       `json:"chinese_two_characters_hit_at_10"`
	Machine  Machine       `json:"machine"`
}

// OwnReport compares one agent's recalls without and with its neighbours.
type OwnReport struct {
	Records        int           `json:"records"`
	Others         int           `json:"others"`
	Alone          LatencyReport `json:"alone_ms"`
	Beside         LatencyReport `json:"beside_ms"`
	PostingsAlone  int64         `json:"postings_touched_alone"`
	PostingsBeside int64         `json:"postings_touched_beside"`
	SameRows       bool          `json:"same_rows"` // every question, in the same order with the same scores
}

const lexicalSeed = 1

// Lexical measures one agent alone, then beside many records of another, then
// those; then it builds the index anew. Last come keywords of two characters.
// Numbers below 1 are a *[memory.FieldError].
func Lexical(ctx context.Context, o LexicalOptions) (*LexicalReport, error) {
	if err := errors.Join(atLeastOne("records", o.Crowd), atLeastOne("own", o.Own), atLeastOne("questions", o.Questions)); err != nil {
		return nil, err
	}
	report := &LexicalReport{Records: o.Crowd, Own: OwnReport{Records: o.Own, Others: o.Crowd}}
	t := &lexicalTrial{ctx: ctx, o: o, path: filepath.Join(o.Folder, "recall.db"), words: newTongue(lexicalSeed)}
	if err := t.up(); err != nil {
		return nil, err
	}
	err := t.measure(report)
	return report, errors.Join(err, t.down())
}

// lexicalTrial is a store and a coordinator without a model over it.
type lexicalTrial struct {
	ctx   context.Context
	o     LexicalOptions
	path  string
	words *tongue
	text  int64
	done  int64

	store   *sqlite.Store
	service *coordinator.Coordinator
}

func (t *lexicalTrial) up() (err error) {
	if t.store, err = sqlite.Open(t.ctx, t.path, sqlite.Options{Clock: t.o.Clock}); err != nil {
		return err
	}
	return t.serve()
}

func (t *lexicalTrial) serve() (err error) {
	model, err := embed.Open(embed.Config{Backend: "none"})
	if err != nil {
		return err
	}
	t.service, err = coordinator.New(t.ctx, coordinator.Config{Store: t.store, Model: model, Clock: t.o.Clock, Overrides: map[string]string{"recall.arms": "lexical"}})
	return err
}

func (t *lexicalTrial) down() error {
	var err error
	if t.service != nil {
		err = t.service.Close()
	}
	return errors.Join(err, t.store.Close())
}

func (t *lexicalTrial) measure(report *LexicalReport) error {
	own, err := t.fill("own", t.o.Own)
	if err != nil {
		return err
	}
	alone, err := t.ask("own", own, &report.Own.Alone, &report.Own.PostingsAlone)
	if err != nil {
		return err
	}
	crowd, err := t.fill("crowd", t.o.Crowd)
	if err != nil {
		return err
	}
	if report.Build, report.Open, report.Index, err = t.rebuild(); err != nil {
		return err
	}
	report.Text = t.text
	report.Ratio = round(float64(report.Index) / float64(report.Text))
	beside, err := t.ask("own", own, &report.Own.Beside, &report.Own.PostingsBeside)
	if err != nil {
		return err
	}
	report.Own.SameRows = alone == beside
	if _, err := t.ask("crowd", crowd, &report.Crowd, new(int64)); err != nil {
		return err
	}
	if report.Erase, err = t.erase(); err != nil {
		return err
	}
	if report.Japanese, err = t.keywords("ja"); err != nil {
		return err
	}
	report.Chinese, err = t.keywords("zh")
	return err
}

// storesPerCall is how many records one call stores.
const storesPerCall = 2_000

// fill stores n records of an agent, twenty to a session, and returns the
// questions to ask about them.
func (t *lexicalTrial) fill(agent string, n int) (questions []string, err error) {
	every := max(1, n/t.o.Questions)
	for stored := 0; stored < n; {
		items := make([]sqlite.NewMemory, min(storesPerCall, n-stored))
		for i := range items {
			number := stored + i
			text := t.words.text()
			t.text += int64(len(text))
			items[i] = sqlite.NewMemory{Cell: memory.Cell{Agent: agent}, Content: text, Source: memory.Source{ID: fmt.Sprintf("%s-%d", agent, number/20)},
				Time: memory.Time{Milli: 1_700_000_000_000 + int64(number)*60_000, Known: true}}
			if number%every == 0 && len(questions) < t.o.Questions {
				questions = append(questions, t.words.question(text))
			}
		}
		if _, err := t.store.StoreMemories(t.ctx, items); err != nil {
			return nil, err
		}
		stored += len(items)
		t.done += int64(len(items))
		if t.o.Progress != nil {
			t.o.Progress(t.done, int64(t.o.Own+t.o.Crowd))
		}
	}
	return questions, nil
}

// ask puts every question twice and times the second time; it returns all rows
// with their scores.
func (t *lexicalTrial) ask(agent string, questions []string, latency *LatencyReport, postings *int64) (rows string, err error) {
	var times []time.Duration
	var all strings.Builder
	for _, q := range questions {
		r := coordinator.RecallRequest{Agent: agent, Query: q, Gate: "off", Explain: true}
		first, err := t.service.Recall(t.ctx, r)
		if err != nil {
			return "", err
		}
		if len(first.Degraded) > 0 {
			return "", fmt.Errorf("a recall is degraded: %s %s", first.Degraded[0].Reason, first.Degraded[0].Detail)
		}
		for _, arm := range first.Explain.Arms {
			*postings += arm.Scanned
		}
		for _, row := range first.Rows {
			fmt.Fprintln(&all, row.Ref, *row.Score)
		}
		r.Explain = false
		start := t.o.Clock()
		if _, err := t.service.Recall(t.ctx, r); err != nil {
			return "", err
		}
		times = append(times, t.o.Clock().Sub(start))
	}
	*latency = LatencyReport{P50: Quantile(times, .5), P95: Quantile(times, .95)}
	return all.String(), nil
}

// erasures is how many records are deleted one by one.
const erasures = 9

// erase times deletes of single records of the crowd.
func (t *lexicalTrial) erase() (LatencyReport, error) {
	var times []time.Duration
	for i := range erasures {
		ref := memory.Ref{Kind: memory.KindMemory, ID: int64(t.o.Own + 1 + i*(t.o.Crowd/erasures))}
		start := t.o.Clock()
		answer, err := t.service.Delete(t.ctx, coordinator.DeleteRequest{Agent: "crowd", Refs: []string{ref.String()}})
		if err != nil {
			return LatencyReport{}, err
		}
		if answer.Memories != 1 {
			return LatencyReport{}, fmt.Errorf("%s was not deleted", ref)
		}
		times = append(times, t.o.Clock().Sub(start))
	}
	return LatencyReport{P50: Quantile(times, .5), P95: Quantile(times, .95)}, nil
}

// rebuild deletes everything derived, builds it from the store, and opens it
// again.
func (t *lexicalTrial) rebuild() (mbPerSecond, openMS float64, bytes int64, err error) {
	if err := t.service.Close(); err != nil {
		return 0, 0, 0, err
	}
	t.service = nil
	folder := filepath.Join(filepath.Dir(t.path), "derived")
	if err := os.RemoveAll(folder); err != nil {
		return 0, 0, 0, err
	}
	options := shards.Options{Folder: filepath.Join(folder, "lexical")}
	start := t.o.Clock()
	index, err := shards.Open(t.ctx, t.store, options)
	if err != nil {
		return 0, 0, 0, err
	}
	for index.State().Building {
		if err := wait(t.ctx); err != nil {
			return 0, 0, 0, errors.Join(err, index.Close())
		}
	}
	took := t.o.Clock().Sub(start)
	for index.MergeDue() {
		if err := wait(t.ctx); err != nil {
			return 0, 0, 0, errors.Join(err, index.Close())
		}
	}
	state := index.State()
	if err := index.Close(); err != nil {
		return 0, 0, 0, err
	}
	start = t.o.Clock()
	if err := t.serve(); err != nil {
		return 0, 0, 0, err
	}
	opened := t.o.Clock().Sub(start)
	return round(float64(t.text) / 1e6 / took.Seconds()), float64(opened.Microseconds()) / 1000, state.Bytes, nil
}

// wait rests for a moment, or until the context ends.
func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

// tongue draws words by rank as people use them: few often, most rarely.
type tongue struct {
	random     *rand.Rand
	ranks      *rand.Zipf
	vocabulary []string
}

const vocabularySize = 60_000

func newTongue(seed uint64) *tongue {
	r := rand.New(rand.NewPCG(seed, 7))
	frequent := strings.Fields("the and was for that with did you what when have are about went will how our they from not")
	words := make([]string, vocabularySize)
	for i := range words {
		if i < len(frequent) {
			words[i] = frequent[i]
			continue
		}
		var w strings.Builder
		for range 2 + r.IntN(3) {
			w.WriteByte("bdfgklmnprstvz"[r.IntN(14)])
			w.WriteByte("aeiou"[r.IntN(5)])
		}
		words[i] = w.String()
	}
	return &tongue{random: r, ranks: rand.NewZipf(r, 1.1, 8, vocabularySize-1), vocabulary: words}
}

// text is a record of 20 to 50 words.
func (t *tongue) text() string {
	words := make([]string, 20+t.random.IntN(31))
	for i := range words {
		words[i] = t.vocabulary[t.ranks.Uint64()]
	}
	return strings.Join(words, " ")
}

// question asks about a text in five of its words and some of any question.
func (t *tongue) question(text string) string {
	words := strings.Fields(text)
	asked := []string{"what", "did", "you"}
	for range 5 {
		asked = append(asked, words[t.random.IntN(len(words))])
	}
	return strings.Join(append(asked, "and", "when?"), " ")
}
