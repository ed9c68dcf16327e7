package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// reachAgent owns the written slice, locomoAgent the conversations.
const (
	reachAgent  = "reach"
	locomoAgent = "locomo"
)

// reachTrial is a data folder, and a coordinator over it.
type reachTrial struct {
	ctx context.Context
	o   ReachOptions

	store   *sqlite.Store
	service *coordinator.Coordinator
	model   embed.Model // for the sweep, which asks below the coordinator
	done    int64       // questions
}

func (t *reachTrial) open() (err error) {
	config, err := coordinator.EmbeddingConfig(t.o.Overrides)
	if err != nil {
		return err
	}
	if t.model, err = embed.Open(config); err != nil {
		return err
	}
	if t.store, err = sqlite.Open(t.ctx, filepath.Join(t.o.Folder, "recall.db"), sqlite.Options{Clock: t.o.Clock}); err != nil {
		return errors.Join(err, t.model.Close())
	}
	if err := t.serve(true); err != nil {
		return errors.Join(err, t.store.Close(), t.model.Close())
	}
	return nil
}

// serve opens the coordinator, whose recalls read blocks or do not.
func (t *reachTrial) serve(retrieve bool) (err error) {
	settings := maps.Clone(t.o.Overrides)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["blocks.retrieve"] = strconv.FormatBool(retrieve)
	t.service, err = coordinator.New(t.ctx, coordinator.Config{Store: t.store, Overrides: settings, Clock: t.o.Clock})
	return err
}

func (t *reachTrial) close() error {
	var err error
	if t.service != nil {
		err = t.service.Close()
	}
	return errors.Join(err, t.store.Close(), t.model.Close())
}

// reachText is one record to store, with the questions that it answers.
type reachText struct {
	content   string
	questions []reachQuestion
}

// fill stores every record, waits until it has its vectors and blocks, and
// returns the questions.
func (t *reachTrial) fill() (questions []reachQuestion, err error) {
	banks, err := readReachBanks()
	if err != nil {
		return nil, err
	}
	texts := writtenTexts(banks, t.o.Limit)
	for _, text := range distractors(banks, t.o.Records, reachSeed) {
		texts = append(texts, reachText{content: text})
	}
	questions, err = t.put(reachAgent, texts)
	if err != nil {
		return nil, err
	}
	if t.o.Path != "" {
		texts, err := locomoTexts(t.o.Path, t.o.Limit)
		if err != nil {
			return nil, err
		}
		more, err := t.put(locomoAgent, texts)
		if err != nil {
			return nil, err
		}
		questions = append(questions, more...)
	}
	if err := waitEmbedded(t.ctx, t.service); err != nil {
		return nil, err
	}
	return questions, t.waitBlocks()
}

// writtenTexts are the records of the slice, the languages in turns, the first
// limit of them.
func writtenTexts(banks []*reachBank, limit int) (texts []reachText) {
	var cases [][]reachCase
	most := 0
	for _, b := range banks {
		c := b.cases(reachSeed)
		cases = append(cases, c)
		most = max(most, len(c))
	}
	for i := range most {
		for _, c := range cases {
			if i >= len(c) || limit > 0 && len(texts) == limit {
				continue
			}
			question := reachQuestion{language: c[i].Language, target: c[i].Target, statement: c[i].Queries.Statement}
			copied, meant := question, question
			copied.family, copied.text = "copy", c[i].Queries.Copy
			meant.family, meant.text = "paraphrase", c[i].Queries.Paraphrase
			texts = append(texts, reachText{c[i].Text, []reachQuestion{copied, meant}})
		}
	}
	return texts
}

// put stores records of an agent and returns their questions.
func (t *reachTrial) put(agent string, texts []reachText) (questions []reachQuestion, err error) {
	for len(texts) > 0 {
		part := texts[:min(len(texts), coordinator.MaxStoreBatch)]
		texts = texts[len(part):]
		items := make([]coordinator.StoreItem, len(part))
		for i, text := range part {
			items[i] = coordinator.StoreItem{Content: text.content}
		}
		answer, err := t.service.Store(t.ctx, coordinator.StoreRequest{Agent: agent, Items: items})
		if err != nil {
			return nil, err
		}
		for i, r := range answer.Results {
			if r.Outcome != "stored" {
				return nil, fmt.Errorf("a record of %s was not stored: %s %s", agent, r.Outcome, r.Error)
			}
			for _, q := range part[i].questions {
				q.agent, q.ref = agent, r.Ref
				questions = append(questions, q)
			}
		}
	}
	return questions, nil
}

// waitBlocks returns once no record of the two agents waits for its blocks.
func (t *reachTrial) waitBlocks() error {
	for {
		stats, err := t.blockStats()
		if err != nil {
			return err
		}
		if stats.Waiting == 0 {
			if stats.Sets == 0 {
				return errors.New("no record has blocks: the model gives no vectors")
			}
			return nil
		}
		if err := wait(t.ctx); err != nil {
			return err
		}
	}
}

// activeModel is the model that vectors and blocks are made with.
func (t *reachTrial) activeModel() (coordinator.ModelState, error) {
	status, err := t.service.Status(t.ctx)
	if err != nil {
		return coordinator.ModelState{}, err
	}
	return status.Model, nil
}

// blockStats counts the blocks of both agents.
func (t *reachTrial) blockStats() (all sqlite.BlockStats, err error) {
	model, err := t.activeModel()
	if err != nil {
		return all, err
	}
	view, err := t.store.ViewRecords(t.ctx)
	if err != nil {
		return all, err
	}
	defer view.Close()
	var ids []int64
	for _, agent := range []string{reachAgent, locomoAgent} {
		cells, err := view.Cells(memory.Scope{Agent: agent})
		if err != nil {
			return all, err
		}
		for _, c := range cells {
			ids = append(ids, c.ID)
		}
	}
	return view.BlockStats(model.ID, ids)
}

// settings are what the figures depend on, read from the service.
func (t *reachTrial) settings() (s ReachSettings, err error) {
	model, err := t.activeModel()
	if err != nil {
		return s, err
	}
	stats, err := t.blockStats()
	if err != nil {
		return s, err
	}
	s = ReachSettings{
		Model: model.Backend + "/" + model.Name, Dims: model.Dims, Seed: reachSeed, Records: model.Records, Distractors: t.o.Records,
		Sets: stats.Sets, Blocks: stats.Blocks, Rows: reachRows, Rerank: defaultDepth,
	}
	list, err := t.service.Settings(t.ctx)
	if err != nil {
		return s, err
	}
	for name, to := range map[string]*int{"blocks.reserved": &s.Reserved, "blocks.parent_cap": &s.ParentCap, "blocks.scan_cap": &s.ScanCap} {
		if _, err := fmt.Sscan(settingOf(list, name), to); err != nil {
			return s, fmt.Errorf("the setting %s: %w", name, err)
		}
	}
	return s, nil
}

func settingOf(list []coordinator.Setting, name string) string {
	for _, s := range list {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// reachAnswer is what one question brought.
type reachAnswer struct {
	vector []reachRow // of the vector path
	pooled bool       // the record is among the vector arm's candidates
	all    []reachRow // of the default arms
}

// reachRow is what is kept of a row.
type reachRow struct {
	ref      string
	score    *float64
	reserved bool // by the block arm
	shown    bool // the whole statement is in its preview or in its quotation
}

func reachRowsOf(answer *coordinator.RecallResponse, q reachQuestion) []reachRow {
	rows := make([]reachRow, len(answer.Rows))
	for i, row := range answer.Rows {
		shown := strings.Contains(row.Content, q.statement) || row.Quote != nil && strings.Contains(row.Quote.Text, q.statement)
		rows[i] = reachRow{row.Ref, row.Score, row.Admission == coordinator.AdmissionReservation, shown}
	}
	return rows
}

// askAll asks every question of a coordinator that reads blocks or does not. The
// vector path without blocks is asked for as many rows as it may have with them.
func (t *reachTrial) askAll(questions []reachQuestion, retrieve bool) (answers []reachAnswer, err error) {
	if err := t.service.Close(); err != nil {
		return nil, err
	}
	if err := t.serve(retrieve); err != nil {
		t.service = nil
		return nil, err
	}
	rows := reachRows
	if !retrieve {
		list, err := t.service.Settings(t.ctx)
		if err != nil {
			return nil, err
		}
		var reserved int
		if _, err := fmt.Sscan(settingOf(list, "blocks.reserved"), &reserved); err != nil {
			return nil, fmt.Errorf("the setting blocks.reserved: %w", err)
		}
		rows += reserved
	}
	for i, q := range questions {
		var a reachAnswer
		request := coordinator.RecallRequest{Agent: q.agent, Query: q.text, Count: rows, Gate: "off", Arms: []string{"vector"}, Explain: true}
		answer, err := t.service.Recall(t.ctx, request)
		if err != nil {
			return nil, fmt.Errorf("question %d: %w", i+1, err)
		}
		if len(answer.Degraded) > 0 {
			return nil, fmt.Errorf("question %d: a recall is degraded: %s %s", i+1, answer.Degraded[0].Reason, answer.Degraded[0].Detail)
		}
		a.vector = reachRowsOf(answer, q)
		for _, arm := range answer.Explain.Arms {
			a.pooled = a.pooled || slices.ContainsFunc(arm.Candidates, func(c coordinator.ArmRanked) bool { return c.Ref == q.ref })
		}
		request.Count, request.Arms, request.Explain = reachRows, nil, false
		if answer, err = t.service.Recall(t.ctx, request); err != nil {
			return nil, fmt.Errorf("question %d: %w", i+1, err)
		}
		a.all = reachRowsOf(answer, q)
		answers = append(answers, a)
		t.step(questions)
	}
	return answers, nil
}

// step reports progress over three passes.
func (t *reachTrial) step(questions []reachQuestion) {
	t.done++
	if t.o.Progress != nil {
		t.o.Progress(t.done, int64(3*len(questions)))
	}
}

// moved counts the rows that are not where they were with the score they had.
func moved(before, after []reachRow) (n int) {
	for i, row := range before {
		if i >= len(after) || after[i].ref != row.ref || !sameScore(after[i].score, row.score) {
			n++
		}
	}
	return n
}

func sameScore(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
