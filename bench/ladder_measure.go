package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/lexical"
	"recalld/memory"
)

// ladderTimes are one question's times, of each kind of recall.
type ladderTimes map[string][]time.Duration

// The kinds of recall that are timed.
const (
	recallAll         = "recall"
	recallLexical     = "lexical"
	recallVector      = "vector"
	recallVectorBlock = "vector_and_block"
	recallBlock       = "block"
	recallAnswer      = "answer"
)

func (t *ladderTrial) measure() (rung LadderRung, err error) {
	p := t.plan
	rung = LadderRung{Shape: t.o.Shape, Records: t.n, Agents: len(p.starts), Cells: p.cells(), Resumed: t.state.Resumed,
		Store: round(t.state.Store), Block: round(t.state.Block), Derive: round(t.state.Derive),
		Build:  round(t.state.Store + t.state.Block + t.state.Derive),
		Stores: round(float64(p.total) / max(t.state.Store, 1e-9)),
		RSS:    map[string]float64{"coordinator_build": round(t.state.Peak)}, Load: [2]float64{loadAverage()}}
	questions := p.questions(t.o.Questions)
	if err := t.wholeServer(&rung, questions); err != nil {
		return rung, err
	}
	rung.BlockPer = round(float64(rung.Blocks) / max(t.state.Block, 1e-9))
	if t.plan.shape == ShapeNeighbour {
		if rung.Neighbour, err = t.inTurns(); err != nil {
			return rung, err
		}
	}
	if rung.Files, err = t.files(); err != nil {
		return rung, err
	}
	if rung.PostingBytes, err = t.postingBytes(); err != nil {
		return rung, err
	}
	rung.PerFile = map[string]float64{"text": round(float64(t.state.Text) / float64(p.total))}
	for name, mb := range rung.Files {
		rung.PerFile[name] = round(mb * 1e6 / float64(p.total))
	}
	rung.Load[1] = loadAverage()
	return rung, nil
}

// wholeServer measures what a server as it is set up gives, then, without blocks,
// the vector arm alone.
func (t *ladderTrial) wholeServer(rung *LadderRung, questions []ladderQuestion) error {
	resetPeak()
	start := t.o.Clock()
	if err := t.open(nil); err != nil {
		return err
	}
	rung.OpenMS = milliseconds(t.o.Clock().Sub(start))
	if err := t.ready(); err != nil {
		return errors.Join(err, t.close())
	}
	rung.ReadyMS = milliseconds(t.o.Clock().Sub(start))
	times := ladderTimes{}
	asked, err := t.askWhole(rung, questions, times)
	rung.RSS["coordinator"] = round(peakMemory())
	for name, mb := range childPeaks() {
		rung.RSS[name] = mb
	}
	if err = errors.Join(err, t.close()); err != nil {
		return err
	}
	err = t.with(map[string]string{"blocks.retrieve": "false"}, func() error {
		if err := t.ready(); err != nil {
			return err
		}
		progress, done := t.o.Phase("vectors alone")
		defer done()
		for i, q := range questions {
			if _, err := t.service.Recall(t.ctx, q.request("vector")); err != nil {
				return err
			}
			if _, err := t.time(times, recallVector, q.request("vector")); err != nil {
				return err
			}
			progress(int64(i+1), int64(len(questions)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, with := range times[recallVectorBlock] {
		times[recallBlock] = append(times[recallBlock], max(0, with-times[recallVector][i]))
	}
	for _, d := range times[recallAll] {
		rung.Samples.RecallMS = append(rung.Samples.RecallMS, milliseconds(d))
	}
	asked.report(rung)
	rung.ArmMS = map[string]Latencies{}
	for name, d := range times {
		if l := latencies(d); name == recallAll {
			rung.RecallMS = l
		} else {
			rung.ArmMS[name] = l
		}
	}
	return nil
}

// request is a recall of a question as a caller makes it, through the named arms
// or through those of the server.
func (q ladderQuestion) request(arms ...string) coordinator.RecallRequest {
	return coordinator.RecallRequest{Agent: q.scope.Agent, Project: q.scope.Project, Query: q.text, Arms: arms}
}

// time takes the time of one recall. The same question was asked just before, so
// that its vector is not made again.
func (t *ladderTrial) time(times ladderTimes, name string, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	start := t.o.Clock()
	answer, err := t.service.Recall(t.ctx, r)
	times[name] = append(times[name], t.o.Clock().Sub(start))
	return answer, err
}

// askWhole asks every question.
func (t *ladderTrial) askWhole(rung *LadderRung, questions []ladderQuestion, times ladderTimes) (*ladderCount, error) {
	count := newLadderCount()
	if len(questions) == 0 {
		return count, errors.New("there is no question")
	}
	start := t.o.Clock()
	if _, err := t.service.Recall(t.ctx, questions[0].request()); err != nil {
		return count, err
	}
	rung.FirstMS = milliseconds(t.o.Clock().Sub(start))
	if err := t.describe(rung); err != nil {
		return count, err
	}
	progress, done := t.o.Phase("questions")
	defer done()
	for i, q := range questions {
		r := q.request()
		r.Explain = true
		explained, err := t.service.Recall(t.ctx, r) // and the query's vector is there from now on
		if err != nil {
			return count, err
		}
		count.scanned(explained)
		answer, err := t.time(times, recallAll, q.request())
		if err != nil {
			return count, err
		}
		if err := count.answer(q, answer); err != nil {
			return count, err
		}
		listing := q.request()
		listing.Query = ""
		for _, part := range []struct {
			name    string
			request coordinator.RecallRequest
		}{
			{recallLexical, q.request("lexical")}, {recallVectorBlock, q.request("vector")}, {recallAnswer, listing},
		} {
			if _, err := t.time(times, part.name, part.request); err != nil {
				return count, err
			}
		}
		if i%payloadEvery == 0 {
			if err := t.payloads(count, q); err != nil {
				return count, err
			}
		}
		progress(int64(i+1), int64(len(questions)))
	}
	if err := t.compute(rung, questions); err != nil {
		return count, err
	}
	return count, t.timeEmbedding(rung, questions)
}

// compute measures the processor time of a recall, which a busy machine disturbs
// less than it does the clock.
func (t *ladderTrial) compute(rung *LadderRung, questions []ladderQuestion) error {
	before := processorTime()
	for _, q := range questions {
		if _, err := t.service.Recall(t.ctx, q.request()); err != nil {
			return err
		}
	}
	rung.CPU = map[string]float64{}
	for name, seconds := range processorTime() {
		rung.CPU[name] = round((seconds - before[name]) * 1000 / float64(len(questions)))
	}
	return nil
}

// payloadEvery is which questions are asked for other numbers of rows.
const payloadEvery = 3

func (t *ladderTrial) payloads(count *ladderCount, q ladderQuestion) error {
	for _, rows := range ladderCounts() {
		r := q.request()
		r.Count = rows
		answer, err := t.service.Recall(t.ctx, r)
		if err != nil {
			return err
		}
		count.payload(rows, q, answer)
	}
	return nil
}

// ladderCounts are how many rows are asked for, to see what more text brings.
func ladderCounts() []int { return []int{1, 3, 5, 10, 20} }

// describe fills in what the service says of itself.
func (t *ladderTrial) describe(rung *LadderRung) error {
	status, err := t.service.Status(t.ctx)
	if err != nil {
		return err
	}
	if int(status.Memories) != t.plan.total {
		return fmt.Errorf("the file holds %d records, not %d", status.Memories, t.plan.total)
	}
	rung.Blocks, rung.Sets = status.Blocks.Blocks, status.Blocks.Records
	rung.Model, rung.Dims = status.Model.Backend+"/"+status.Model.Name, status.Model.Dims
	index, err := t.service.Index(t.ctx, coordinator.IndexStateRequest{})
	if err != nil {
		return err
	}
	rung.Scanner = index.Codes.Scanner
	list, err := t.service.Settings(t.ctx)
	if err != nil {
		return err
	}
	rung.Settings = map[string]string{}
	for _, s := range list {
		group, _, _ := strings.Cut(s.Name, ".")
		if s.Value != s.Default || group == "blocks" || s.Name == "recall.depth" || s.Name == "recall.arms" || s.Name == "vector.cache_mib" {
			rung.Settings[s.Name] = s.Value
		}
	}
	return nil
}

// timeEmbedding takes the time of making one query's vector.
func (t *ladderTrial) timeEmbedding(rung *LadderRung, questions []ladderQuestion) error {
	config, err := coordinator.EmbeddingConfig(t.o.Overrides)
	if err != nil {
		return err
	}
	model, err := embed.Open(config)
	if err != nil {
		return err
	}
	var times []time.Duration
	for _, q := range questions {
		start := t.o.Clock()
		if _, err := model.Embed(t.ctx, embed.Query, []string{q.text}); err != nil {
			return errors.Join(err, model.Close())
		}
		times = append(times, t.o.Clock().Sub(start))
	}
	l := latencies(times)
	rung.EmbedMS = &l
	return model.Close()
}

// postingBytes is what one posting takes in the derived files, on average.
func (t *ladderTrial) postingBytes() (float64, error) {
	names, err := filepath.Glob(filepath.Join(t.folder, "derived", "lexical", "*.postings"))
	if err != nil {
		return 0, err
	}
	var postings, size int64
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		f, err := lexical.Open(raw)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		n, b, err := f.Postings()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		postings, size = postings+n, size+b
	}
	return round(float64(size) / float64(max(postings, 1))), nil
}

// files are the sizes of what a closed rung has on the disk.
func (t *ladderTrial) files() (map[string]float64, error) {
	sizes := map[string]float64{"truth": 0, "derived": 0}
	err := filepath.WalkDir(t.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(t.folder, path)
		switch {
		case strings.HasPrefix(name, "recall.db"):
			sizes["truth"] += float64(info.Size()) / 1e6
		case strings.HasPrefix(name, "derived"):
			sizes["derived"] += float64(info.Size()) / 1e6
		}
		return nil
	})
	for name := range sizes {
		sizes[name] = round(sizes[name])
	}
	return sizes, err
}

// ladderCount sums up answers.
type ladderCount struct {
	total         int
	questions     map[string]int
	at1, at10, in map[string]int
	hits          map[string]string
	chars, bytes  int
	rows          map[string]int64
	degraded      map[string]int
	payloads      map[int]*payloadSum
}

// payloadSum sums up answers of one number of rows.
type payloadSum struct{ questions, chars, hits int }

func newLadderCount() *ladderCount {
	return &ladderCount{questions: map[string]int{}, at1: map[string]int{}, at10: map[string]int{}, in: map[string]int{}, hits: map[string]string{},
		rows: map[string]int64{}, degraded: map[string]int{}, payloads: map[int]*payloadSum{}}
}

// scanned counts what the arms of an explained answer read.
func (c *ladderCount) scanned(a *coordinator.RecallResponse) {
	for _, arm := range a.Explain.Arms {
		c.rows[arm.Arm] += arm.Scanned
	}
	if b := a.Explain.Blocks; b != nil {
		c.rows[recallBlock] += b.Scanned
	}
}

// ladderRows is how many rows a question asks for.
const ladderRows = coordinator.DefaultCount

// answer counts the answer that a caller gets.
func (c *ladderCount) answer(q ladderQuestion, a *coordinator.RecallResponse) error {
	at := slices.IndexFunc(a.Rows, func(r coordinator.Row) bool { return r.Ref == q.ref })
	reserved := at >= 0 && a.Rows[at].Admission == coordinator.AdmissionReservation
	c.total++
	c.questions[q.kind]++
	hit := "0"
	if at >= 0 {
		c.in[q.kind]++
	}
	if at == 0 && !reserved {
		c.at1[q.kind]++
	}
	if at >= 0 && at < ladderRows && !reserved {
		c.at10[q.kind]++
		hit = "1"
	}
	c.hits[q.kind] += hit
	c.chars += chars(a)
	coded, err := json.Marshal(a)
	c.bytes += len(coded)
	for _, d := range a.Degraded {
		c.degraded[strings.TrimPrefix(d.Arm+" "+d.Reason, " ")]++
	}
	return err
}

// chars are the code points of an answer's texts.
func chars(a *coordinator.RecallResponse) (n int) {
	for _, row := range a.Rows {
		n += memory.Len(row.Content)
		if row.Quote != nil {
			n += memory.Len(row.Quote.Text)
		}
	}
	return n
}

func (c *ladderCount) payload(rows int, q ladderQuestion, a *coordinator.RecallResponse) {
	p := c.payloads[rows]
	if p == nil {
		p = &payloadSum{}
		c.payloads[rows] = p
	}
	p.questions++
	p.chars += chars(a)
	if slices.ContainsFunc(a.Rows, func(r coordinator.Row) bool { return r.Ref == q.ref }) {
		p.hits++
	}
}

// reads are rows by arm, and postings, of a question on average.
func (c *ladderCount) reads() (rows map[string]float64, postings float64) {
	rows = map[string]float64{}
	for _, arm := range slices.Sorted(maps.Keys(c.rows)) {
		mean := float64(c.rows[arm]) / float64(max(c.total, 1))
		if strings.HasPrefix(arm, recallLexical) {
			postings += mean
			continue
		}
		if mean > 0 { // not an arm that was named and had nothing to read
			rows[arm] = round(mean)
		}
	}
	return rows, round(postings)
}

// report puts the sums into a rung.
func (c *ladderCount) report(rung *LadderRung) {
	rung.Questions = c.questions
	share := func(hits map[string]int) map[string]float64 {
		shares := map[string]float64{}
		for kind, n := range c.questions {
			shares[kind] = round(float64(hits[kind]) / float64(n))
		}
		return shares
	}
	rung.HitAt1, rung.HitAt10, rung.HitInAnswer = share(c.at1), share(c.at10), share(c.in)
	rung.Samples.HitAt10 = c.hits
	rung.PayloadChars, rung.PayloadBytes = round(float64(c.chars)/float64(c.total)), round(float64(c.bytes)/float64(c.total))
	for _, rows := range slices.Sorted(maps.Keys(c.payloads)) {
		p := c.payloads[rows]
		rung.Payload = append(rung.Payload, LadderPayload{Count: rows, Chars: round(float64(p.chars) / float64(p.questions)), Hit: round(float64(p.hits) / float64(p.questions))})
	}
	rung.RowsScanned, rung.Postings = c.reads()
	rung.Degraded = c.degraded
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// children are the processes that this one started; a scanner is the only one.
// None where the system does not tell.
func children() (pids []string) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		if raw, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children"); err == nil {
			pids = append(pids, strings.Fields(string(raw))...)
		}
	}
	return pids
}

// childPeaks are the peaks of the scanner's memory, in MiB.
func childPeaks() map[string]float64 {
	peaks := map[string]float64{}
	for _, pid := range children() {
		if mb := peakOf(pid); mb > 0 {
			peaks["scanner"] = max(peaks["scanner"], mb)
		}
	}
	return peaks
}

// processorTime is what the processes have computed so far, in seconds, to a
// hundredth; empty where the system does not tell.
func processorTime() map[string]float64 {
	times := map[string]float64{}
	if own, ok := processorTimeOf("self"); ok {
		times["coordinator"] = own
	}
	for _, pid := range children() {
		if t, ok := processorTimeOf(pid); ok {
			times["scanner"] += t
		}
	}
	return times
}

// ticks is how many parts of a second /proc counts in.
const ticks = 100

func processorTimeOf(pid string) (seconds float64, ok bool) {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	// Behind the name, which may hold anything, user and system time are the 12th
	// and 13th field.
	_, rest, _ := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, false
	}
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	return float64(user+system) / ticks, errUser == nil && errSystem == nil
}

// peakOf is the highest resident memory of a process, in MiB.
func peakOf(pid string) float64 {
	raw, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return round(kib / 1024)
		}
	}
	return 0
}

// loadAverage is the machine's load over the last minute; 0 where the system does
// not tell.
func loadAverage() float64 {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
