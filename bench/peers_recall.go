package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/memory"
)

// PeersRecallOptions of [PeersRecall].
type PeersRecallOptions struct {
	Records   int
	Questions int    // at most
	Reference string // Python with the package cpersona; "": it is skipped
	Scripts   string // folder of the scripts
	Folder    string // empty
	// Open opens a service over a new store, whose embedding server answers at the
	// URL as the reference's does.
	Open func(ctx context.Context, embedURL string) (s coordinator.Service, closeService func() error, err error)
	// Import brings the reference's database file into a service.
	Import   func(ctx context.Context, s coordinator.Service, path string) error
	Progress coordinator.Progress
	Clock    func() time.Time
}

const (
	peersAgent  = "peers"
	peersAnswer = 10 // rows that an answer is asked to have
	// referenceWindow is how many of the newest records the reference compares
	// vectors with, unless it is told otherwise.
	referenceWindow = 10_000
)

// PeersRecall puts the same questions to a service and to the reference server,
// both over the same texts and the same vectors, question by question in turns.
// Each question is asked twice and the second call timed, whose query's vector is in
// a cache on either side.
func PeersRecall(ctx context.Context, o PeersRecallOptions) (rows []PeerRow, skipped []PeerSkipped, err error) {
	if err := errors.Join(atLeastOne("rows", o.Records), atLeastOne("queries", o.Questions)); err != nil {
		return nil, nil, err
	}
	if o.Reference == "" {
		return nil, []PeerSkipped{{"cpersona", TaskRecall, "no Python with its package is named"}}, nil
	}
	t := &recallTrial{PeersRecallOptions: o}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.open(ctx); err != nil {
		var missing *missingPeer
		if errors.As(err, &missing) {
			return nil, []PeerSkipped{{"cpersona", TaskRecall, missing.reason}}, nil
		}
		return nil, nil, err
	}
	for i, q := range t.questions {
		for j := range t.asked {
			a := &t.asked[(i+j)%len(t.asked)]
			took, found, err := a.ask(ctx, q.text)
			if err != nil {
				return nil, nil, fmt.Errorf("peer %s, question %d: %w", a.name, i+1, err)
			}
			a.times = append(a.times, took)
			if slices.Contains(found, a.known(q.number)) {
				a.hits++
				a.hitsOf[q.kind]++
			}
		}
		if o.Progress != nil {
			o.Progress(int64(i+1), int64(len(t.questions)))
		}
	}
	for i := range t.asked {
		a := &t.asked[i]
		row := PeerRow{Name: a.name, Version: a.version, Task: TaskRecall, N: o.Records, Dims: t.dims, K: peersAnswer, Threads: 2, Together: 1,
			P50: Quantile(a.times, .5), P95: Quantile(a.times, .95), Best: Quantile(a.times, 0), Recall: share(a.hits, len(t.questions)), ByKind: map[string]float64{}, Calls: len(a.times)}
		for kind, asked := range t.kinds() {
			row.ByKind[kind] = share(a.hitsOf[kind], asked)
		}
		if row.RSS, err = a.memory(); err != nil {
			return nil, nil, err
		}
		row.Ratio = ratio(row.P50, Quantile(t.asked[0].times, .5))
		rows = append(rows, row)
	}
	return rows, nil, nil
}

// recallTrial is both sides at work.
type recallTrial struct {
	PeersRecallOptions
	model     embed.Model
	dims      int
	questions []recallQuestion
	asked     []recallSide
	closers   []func() error
}

// kinds counts the questions of each kind.
func (t *recallTrial) kinds() map[string]int {
	n := map[string]int{}
	for _, q := range t.questions {
		n[q.kind]++
	}
	return n
}

// recallQuestion is a question and the number of the record that answers it.
type recallQuestion struct {
	text   string
	kind   string
	number int
}

// recallSide is one server.
type recallSide struct {
	name    string
	version string
	ask     func(ctx context.Context, query string) (took time.Duration, found []string, err error)
	known   func(number int) string // what a record is found as
	memory  func() (float64, error)
	times   []time.Duration
	hits    int
	hitsOf  map[string]int // by kind of question
}

func (t *recallTrial) close() (err error) {
	for _, c := range slices.Backward(t.closers) {
		err = errors.Join(err, c())
	}
	return err
}

func (t *recallTrial) open(ctx context.Context) (err error) {
	if t.model, err = embed.Open(embed.Config{}); err != nil {
		return err
	}
	t.closers = append(t.closers, t.model.Close)
	url, err := t.serve()
	if err != nil {
		return err
	}
	database := filepath.Join(t.Folder, "reference.db")
	first, version, err := t.start(ctx, url, database, referenceWindow)
	if err != nil {
		return err
	}
	if err := t.fill(ctx, first); err != nil {
		return err
	}
	s, closeService, err := t.Open(ctx, url)
	if err != nil {
		return err
	}
	t.closers = append(t.closers, closeService)
	if err := t.Import(ctx, s, database); err != nil {
		return err
	}
	if err := errors.Join(waitEmbedded(ctx, s), waitBlocks(ctx, s), waitIndex(ctx, s)); err != nil {
		return err
	}
	t.asked = []recallSide{t.own(s), referenceSide("cpersona", version, first)}
	if t.Records > referenceWindow {
		whole, version, err := t.start(ctx, url, database, t.Records)
		if err != nil {
			return err
		}
		t.asked = append(t.asked, referenceSide("cpersona-whole", version, whole))
	}
	return nil
}

// waitBlocks returns once no record waits for its blocks.
func waitBlocks(ctx context.Context, s coordinator.Service) error {
	for {
		status, err := s.Status(ctx)
		switch {
		case err != nil:
			return err
		case status.Blocks.Failed > 0:
			return fmt.Errorf("%d records have no blocks: %s", status.Blocks.Failed, status.Blocks.LastError)
		case status.Blocks.Waiting == 0:
			return nil
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}

// waitIndex returns once everything derived is built.
func waitIndex(ctx context.Context, s coordinator.Service) error {
	for {
		state, err := s.Index(ctx, coordinator.IndexStateRequest{})
		if err != nil {
			return err
		}
		codes := state.Codes
		if !state.Words.Building && !codes.Building && (codes.Scanner == coordinator.ScannerOff || codes.Lag == 0 && codes.Built == codes.Total) {
			return nil
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}

// start runs the reference on a database file.
func (t *recallTrial) start(ctx context.Context, url, database string, window int) (*script, string, error) {
	env := []string{"CPERSONA_DB_PATH=" + database, "CPERSONA_EMBEDDING_MODE=http", "CPERSONA_EMBEDDING_URL=" + url + "/embed", "CPERSONA_AUTO_CALIBRATE=false",
		fmt.Sprint("CPERSONA_MAX_MEMORIES=", window)}
	s, version, err := startScript(ctx, t.Reference, filepath.Join(t.Scripts, "reference.py"), env)
	if err != nil {
		return nil, "", err
	}
	t.closers = append(t.closers, s.close)
	return s, version, nil
}

// serve answers /embed on a loopback port as the reference's embedding server does.
func (t *recallTrial) serve() (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: EmbedHandler(t.model), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.closers = append(t.closers, func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return "http://" + l.Addr().String(), nil
}

// EmbedHandler answers POST /embed, {"texts": […]}, with {"embeddings": [[…], …]}.
func EmbedHandler(model embed.Model) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Texts []string `json:"texts"`
		}
		if r.URL.Path != "/embed" {
			http.NotFound(w, r)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		vectors, err := model.Embed(r.Context(), embed.Document, asked.Texts)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"embeddings": vectors}) // the client may be gone
	})
}

// fill writes the corpus and its vectors into files and lets the reference take
// them. Needles lie evenly among the other records.
func (t *recallTrial) fill(ctx context.Context, reference *script) (err error) {
	c, err := newCorpus(peerSeed)
	if err != nil {
		return err
	}
	needles := c.needles[:min(len(c.needles), (t.Questions+1)/2, max(1, t.Records/5))]
	every := t.Records / len(needles)
	texts, vectors := filepath.Join(t.Folder, "texts"), filepath.Join(t.Folder, "vectors")
	f, err := os.Create(texts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewWriter(f)
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var batch []string
	var all []float32
	for number := range t.Records {
		text := c.plain(number)
		if at := number / every; number%every == every/2 && at < len(needles) {
			text = c.hold(needles[at], number)
			for _, kind := range needles[at].kinds() {
				t.questions = append(t.questions, recallQuestion{needles[at].question(kind), kind, number})
			}
		}
		record := map[string]any{"content": text, "timestamp": start.Add(time.Duration(number) * time.Minute).Format(time.RFC3339),
			"source": map[string]string{"type": "User", "id": fmt.Sprint("session-", number/blocksEach), "name": "Ken"}}
		raw, err := json.Marshal(record)
		if err != nil {
			return err
		}
		if _, err := lines.Write(append(raw, '\n')); err != nil {
			return err
		}
		if batch = append(batch, text); len(batch) < 500 && number+1 < t.Records {
			continue
		}
		found, err := t.model.Embed(ctx, embed.Document, batch)
		if err != nil {
			return err
		}
		for _, v := range found {
			t.dims = len(v)
			all = append(all, v...)
		}
		batch = batch[:0]
	}
	t.questions = t.questions[:min(len(t.questions), t.Questions)]
	if err := errors.Join(lines.Flush(), writeFloats(vectors, all)); err != nil {
		return err
	}
	return reference.ask(map[string]any{"op": "fill", "agent": peersAgent, "texts": texts, "vectors": vectors, "dims": t.dims}, &struct{}{})
}

func (t *recallTrial) own(s coordinator.Service) recallSide {
	return recallSide{name: nameRecalld, hitsOf: map[string]int{}, memory: func() (float64, error) { return resident(int64(os.Getpid())), nil },
		known: func(number int) string { return memory.Ref{Kind: memory.KindMemory, ID: int64(number) + 1}.String() }, // import keeps numbers
		ask: func(ctx context.Context, query string) (took time.Duration, found []string, err error) {
			var answer *coordinator.RecallResponse
			for range 2 {
				start := t.Clock()
				if answer, err = s.Recall(ctx, coordinator.RecallRequest{Agent: peersAgent, Query: query, Count: peersAnswer}); err != nil {
					return 0, nil, err
				}
				took = t.Clock().Sub(start)
			}
			for _, row := range answer.Rows[:min(len(answer.Rows), peersAnswer)] {
				found = append(found, row.Ref)
			}
			return took, found, nil
		}}
}

func referenceSide(name, version string, s *script) recallSide {
	return recallSide{name: name, version: version, hitsOf: map[string]int{}, memory: s.memory,
		known: func(number int) string { return "mem:" + fmt.Sprint(number+1) },
		ask: func(_ context.Context, query string) (took time.Duration, found []string, err error) {
			var answer struct {
				MS   float64
				Refs []string
			}
			err = s.ask(map[string]any{"op": "recall", "agent": peersAgent, "query": query, "limit": peersAnswer}, &answer)
			return time.Duration(answer.MS * float64(time.Millisecond)), answer.Refs, err
		}}
}
