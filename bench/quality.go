package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"recalld/coordinator"
	"recalld/ingest"
)

// Question is a line of LoCoMo's questions.jsonl (Maharana et al. 2024,
// arXiv:2402.17753).
type Question struct {
	Conversation string   `json:"conversation"`
	Question     string   `json:"question"`
	Category     string   `json:"category"`
	Evidence     []string `json:"evidence"`
}

// QualityOptions choose what answers the questions.
type QualityOptions struct {
	Folder string   // holds turns.jsonl and questions.jsonl
	Arms   []string // of RecallRequest
	Fusion string
	// Progress counts questions; may be nil.
	Progress coordinator.Progress
	Clock    func() time.Time
}

// QualityReport is one measurement. NDCG figures are percentages.
type QualityReport struct {
	Dataset   string        `json:"dataset"`
	Arms      []string      `json:"arms"`
	Fusion    string        `json:"fusion"`
	Model     string        `json:"model"`
	NDCG      NDCGReport    `json:"ndcg_at_10"`
	Hit1      float64       `json:"hit_at_1"`
	Hit10     float64       `json:"hit_at_10"`
	MRR       float64       `json:"mrr"`
	RecallMS  LatencyReport `json:"recall_ms"`
	Rows      int64         `json:"rows"`
	Questions int           `json:"questions"`
	Degraded  []string      `json:"degraded,omitempty"` // reasons seen in answers
	Machine   Machine       `json:"machine"`
}

// NDCGReport breaks NDCG@10 down. Mean is the mean over the categories, the
// field's figure; FirstHalf and SecondHalf are the same over the first and the
// last half of the conversations, in their order of appearance.
type NDCGReport struct {
	Mean       float64            `json:"mean"`
	ByCategory map[string]float64 `json:"by_category"`
	FirstHalf  float64            `json:"first_half"`
	SecondHalf float64            `json:"second_half"`
}

// LatencyReport is in milliseconds; the query's vector comes from the cache, so
// embedding is not in it.
type LatencyReport struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

const qualityAgent = "bench"

// Quality stores every turn as a record, asks each question inside its own
// conversation with the truncation layers off (RR-333), and scores memories
// only. The service must be over an empty store.
func Quality(ctx context.Context, s coordinator.Service, o QualityOptions) (*QualityReport, error) {
	refs, err := storeTurns(ctx, s, o.Folder)
	if err != nil {
		return nil, err
	}
	if err := waitEmbedded(ctx, s); err != nil {
		return nil, err
	}
	questions, err := readQuestions(filepath.Join(o.Folder, "questions.jsonl"))
	if err != nil {
		return nil, missing("--path", locomoFiles, err)
	}
	status, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	report := &QualityReport{Dataset: "locomo", Arms: o.Arms, Fusion: o.Fusion, Model: status.Model.Backend + "/" + status.Model.Name, Rows: status.Memories}
	var conversations []string
	for _, q := range questions {
		if !slices.Contains(conversations, q.Conversation) {
			conversations = append(conversations, q.Conversation)
		}
	}
	all, first, second := tally{}, tally{}, tally{}
	var times []time.Duration
	for i, q := range questions {
		relevant := map[string]bool{}
		for _, id := range q.Evidence {
			if ref := refs[q.Conversation][id]; ref != "" {
				relevant[ref] = true
			}
		}
		if len(relevant) == 0 {
			continue
		}
		ranking, took, degraded, err := ask(ctx, s, q, o)
		if err != nil {
			return nil, fmt.Errorf("question %d: %w", i+1, err)
		}
		for _, reason := range degraded {
			if !slices.Contains(report.Degraded, reason) {
				report.Degraded = append(report.Degraded, reason)
			}
		}
		times = append(times, took)
		gain := NDCG(ranking, relevant, 10)
		all.add(q.Category, gain)
		if slices.Index(conversations, q.Conversation) < len(conversations)/2 {
			first.add(q.Category, gain)
		} else {
			second.add(q.Category, gain)
		}
		if hit := FirstHit(ranking, relevant); hit > 0 {
			report.Hit10++
			report.MRR += 1 / float64(hit)
			if hit == 1 {
				report.Hit1++
			}
		}
		report.Questions++
		if o.Progress != nil {
			o.Progress(int64(i+1), int64(len(questions)))
		}
	}
	if report.Questions == 0 {
		return nil, errors.New("no question has evidence among the turns")
	}
	n := float64(report.Questions)
	report.Hit1, report.Hit10, report.MRR = round(report.Hit1/n), round(report.Hit10/n), round(report.MRR/n)
	report.NDCG = NDCGReport{Mean: all.mean(), ByCategory: all.byCategory(), FirstHalf: first.mean(), SecondHalf: second.mean()}
	report.RecallMS = LatencyReport{P50: Quantile(times, .5), P95: Quantile(times, .95)}
	return report, nil
}

// ranked are the references of rows in their order. Reserved rows, which stand behind
// those that were asked for and depend on how many blocks are built, are not ranked.
func ranked(rows []coordinator.Row) (refs []string) {
	for _, row := range rows {
		if row.Admission != coordinator.AdmissionReservation {
			refs = append(refs, row.Ref)
		}
	}
	return refs
}

// ask returns the refs of at most ten memories, best first. The question is asked
// twice and the second call timed.
func ask(ctx context.Context, s coordinator.Service, q Question, o QualityOptions) (ranking []string, took time.Duration, degraded []string, err error) {
	request := coordinator.RecallRequest{Agent: qualityAgent, Project: &q.Conversation, Query: q.Question, Count: 10, Gate: "off", Arms: o.Arms, Fusion: o.Fusion}
	if _, err := s.Recall(ctx, request); err != nil {
		return nil, 0, nil, err
	}
	start := o.Clock()
	answer, err := s.Recall(ctx, request)
	took = o.Clock().Sub(start)
	if err != nil {
		return nil, 0, nil, err
	}
	ranking = ranked(answer.Rows)
	for _, d := range answer.Degraded {
		degraded = append(degraded, d.Reason)
	}
	return ranking, took, degraded, nil
}

// storeTurns stores the turns and returns conversation → turn id → ref.
func storeTurns(ctx context.Context, s coordinator.Service, folder string) (map[string]map[string]string, error) {
	in, err := ingest.OpenFile(ctx, ingest.FormatLocomo, folder)
	if err != nil {
		return nil, missing("--path", locomoFiles, err)
	}
	defer in.Close()
	refs := map[string]map[string]string{}
	sink := func(ctx context.Context, agent string, items []ingest.Item) ([]ingest.Outcome, error) {
		answer, err := s.Store(ctx, coordinator.StoreRequest{Agent: agent, Items: items})
		if err != nil {
			return nil, err
		}
		outcomes := make([]ingest.Outcome, len(items))
		for i, r := range answer.Results {
			outcomes[i] = ingest.Outcome{Word: r.Outcome, Err: r.Error}
			project := items[i].Project
			if refs[project] == nil {
				refs[project] = map[string]string{}
			}
			refs[project][items[i].MessageID] = r.Ref
		}
		return outcomes, nil
	}
	report, err := ingest.Run(ctx, in, sink, ingest.Options{Agent: qualityAgent})
	if err != nil {
		return nil, err
	}
	if report.Rejected > 0 {
		return nil, fmt.Errorf("%d turns were refused, the first: %w", report.Rejected, &report.Bad[0])
	}
	return refs, nil
}

// waitEmbedded returns once nothing is waiting to be embedded: the queue is empty
// and, with a model, every record has a vector or can have none. A model behind a
// server queues nothing before it has first answered.
func waitEmbedded(ctx context.Context, s coordinator.Service) error {
	for {
		status, err := s.Status(ctx)
		if err != nil {
			return err
		}
		noModel := status.Advisory != nil && status.Advisory.Severity == "hint"
		embedded := status.Model.ID != 0 && status.Model.Embedded+status.Queue.Unembeddable >= status.Model.Records
		if status.Queue.Pending == 0 && (noModel || embedded) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func readQuestions(path string) ([]Question, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	var questions []Question
	for {
		var q Question
		switch err := d.Decode(&q); {
		case errors.Is(err, io.EOF):
			return questions, nil
		case err != nil:
			return nil, fmt.Errorf("read questions: number %d: %w", len(questions)+1, err)
		}
		questions = append(questions, q)
	}
}

// tally sums gains per category.
type tally map[string]*struct{ sum, n float64 }

func (t tally) add(category string, gain float64) {
	if t[category] == nil {
		t[category] = &struct{ sum, n float64 }{}
	}
	t[category].sum += gain
	t[category].n++
}

func (t tally) byCategory() map[string]float64 {
	out := map[string]float64{}
	for category, c := range t {
		out[category] = percent(c.sum / c.n)
	}
	return out
}

// mean is the mean over the categories, as a percentage.
func (t tally) mean() float64 {
	names := make([]string, 0, len(t))
	for category := range t {
		names = append(names, category)
	}
	slices.Sort(names)
	sum := 0.0
	for _, category := range names {
		sum += t[category].sum / t[category].n
	}
	return percent(sum / float64(len(t)))
}

func percent(x float64) float64 { return round(x * 100) }

// round keeps four decimals.
func round(x float64) float64 {
	const scale = 1e4
	return float64(int64(float64(x*scale)+.5)) / scale
}
