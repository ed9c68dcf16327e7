package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/memory"
)

func ladderRungOf(t *testing.T, o LadderOptions) LadderRung {
	t.Helper()
	o.Clock = time.Now
	report, err := Ladder(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Kind != KindLadder || len(report.Rungs) != len(o.Records) {
		t.Fatalf("%d rungs of kind %q", len(report.Rungs), report.Kind)
	}
	return report.Rungs[0]
}

// checkRung checks what holds for every rung over a store, whatever the machine.
func checkRung(t *testing.T, r LadderRung) {
	t.Helper()
	if r.Blocks < 15*int64(r.Sets) || r.Dims != 256 || r.Model == "" {
		t.Errorf("%d blocks of %d records, %d dimensions of %s", r.Blocks, r.Sets, r.Dims, r.Model)
	}
	asked := 0
	for _, kind := range needleKinds() {
		n := r.Questions[kind]
		asked += n
		if n == 0 || len(r.Samples.HitAt10[kind]) != n || r.HitAt1[kind] > r.HitAt10[kind] || r.HitAt10[kind] > r.HitInAnswer[kind] {
			t.Errorf("%s: %d questions, hit@1 %v, hit@10 %v, in the answer %v", kind, n, r.HitAt1[kind], r.HitAt10[kind], r.HitInAnswer[kind])
		}
	}
	// Words that stand in one record alone find it, wherever in its text they are.
	if r.HitAt10[askExact] < .95 || r.HitAt10[askTailExact] < .95 {
		t.Errorf("hit@10 %v", r.HitAt10)
	}
	if r.RecallMS.P50 <= 0 || r.RecallMS.P50 > r.RecallMS.P99 || len(r.Samples.RecallMS) != asked || r.EmbedMS == nil || r.OpenMS <= 0 || r.FirstMS <= 0 {
		t.Errorf("times %+v", r.RecallMS)
	}
	if _, linux := os.Stat("/proc/self/stat"); linux == nil && (len(r.CPU) == 0 || r.RSS["coordinator"] <= 0) {
		t.Errorf("processor time %v, memory %v", r.CPU, r.RSS)
	}
	for _, name := range []string{recallLexical, recallVector, recallVectorBlock, recallBlock, recallAnswer} {
		if _, ok := r.ArmMS[name]; !ok {
			t.Errorf("no times of %s", name)
		}
	}
	if r.Postings <= 0 || r.PayloadChars <= 0 || r.PayloadBytes <= r.PayloadChars || len(r.Payload) != len(ladderCounts()) {
		t.Errorf("postings %v, payload %v, %v, %+v", r.Postings, r.PayloadChars, r.PayloadBytes, r.Payload)
	}
	for i, p := range r.Payload[1:] {
		if p.Chars < r.Payload[i].Chars || p.Hit < r.Payload[i].Hit {
			t.Errorf("more rows bring less: %+v", r.Payload)
		}
	}
	if r.Files["truth"] <= 0 || r.Files["derived"] <= 0 || r.PerFile["text"] < 500 || r.PerFile["truth"] < r.PerFile["text"] || r.Build <= 0 || r.Stores <= 0 || r.BlockPer <= 0 {
		t.Errorf("files %v, %v, built in %v s", r.Files, r.PerFile, r.Build)
	}
	if len(r.Degraded) != 0 {
		t.Errorf("degraded: %v", r.Degraded)
	}
}

// The rung of a thousand records in one cell: every row and block of the cell is
// scanned for every question, and the folder is not built again.
//
// BR-092, BR-157
func TestLadderOfOneCell(t *testing.T) {
	folder := t.TempDir()
	o := LadderOptions{Folder: folder, Records: []int{1_000}, Shape: ShapeOne, Questions: 10}
	r := ladderRungOf(t, o)
	checkRung(t, r)
	if r.Payload[3].Chars < 2*r.Payload[0].Chars {
		t.Errorf("ten rows are hardly more than one: %+v", r.Payload)
	}
	if r.PostingBytes < .1 || r.PostingBytes > 8 {
		t.Errorf("%v bytes a posting", r.PostingBytes)
	}
	if r.Agents != 1 || r.Cells != 1 || r.RowsScanned["vector"] != 1_000 || r.RowsScanned[recallBlock] < 10*1_000 {
		t.Errorf("%d agents, %d cells, scanned %v", r.Agents, r.Cells, r.RowsScanned)
	}
	file := filepath.Join(folder, "one-1000", "recall.db")
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	o.Questions = 2
	again := ladderRungOf(t, o)
	after, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if again.Blocks != r.Blocks || again.Build != r.Build || again.Resumed || before.Size() != after.Size() {
		t.Errorf("built again: %+v", again)
	}
}

// In the other shapes a question reads its own scope alone.
//
// BR-092, DECISIONS 1
func TestLadderOfManyCells(t *testing.T) {
	zipf := ladderRungOf(t, LadderOptions{Folder: t.TempDir(), Records: []int{400}, Shape: ShapeZipf, Questions: 6})
	checkRung(t, zipf)
	if zipf.Agents != 40 || zipf.RowsScanned["vector"] >= 100 {
		t.Errorf("%d agents, scanned %v", zipf.Agents, zipf.RowsScanned)
	}
	tiny := ladderRungOf(t, LadderOptions{Folder: t.TempDir(), Records: []int{100}, Shape: ShapeTiny, Questions: 5})
	checkRung(t, tiny)
	if tiny.Agents != 10 || tiny.Cells != 100 || tiny.RowsScanned["vector"] != 1 {
		t.Errorf("%d agents, %d cells, scanned %v", tiny.Agents, tiny.Cells, tiny.RowsScanned)
	}
}

// A neighbour changes no byte of the small agent's answers, and nothing that they
// read.
//
// DECISIONS 1
func TestLadderBesideANeighbour(t *testing.T) {
	o := LadderOptions{Folder: t.TempDir(), Records: []int{500}, Shape: ShapeNeighbour, Questions: 6, small: 200}
	r := ladderRungOf(t, o)
	checkRung(t, r)
	n := r.Neighbour
	if n == nil || !n.Same || n.Alone.Digest == "" || n.Records != 200 {
		t.Fatalf("%+v", n)
	}
	if n.Alone.Postings != n.Beside.Postings || n.Alone.RowsScanned["vector"] != 200 || n.Beside.RowsScanned["vector"] != 200 || n.Alone.RowsScanned[recallBlock] != n.Beside.RowsScanned[recallBlock] {
		t.Errorf("alone %+v, beside %+v", n.Alone, n.Beside)
	}
	asked := len(r.Samples.RecallMS)
	for name, x := range n.Ratios {
		if len(n.Alone.Samples) != turnRounds*asked || len(n.Beside.Samples) != turnRounds*asked || x.Ratio <= 0 || x.Low > x.Ratio || x.High < x.Ratio {
			t.Errorf("%s: %+v of %d and %d times, %d questions", name, x, len(n.Alone.Samples), len(n.Beside.Samples), asked)
		}
	}
	if len(n.Ratios) != 2 {
		t.Errorf("%d ratios", len(n.Ratios))
	}
	// A larger neighbour stands beside the same small file.
	state, err := os.Stat(filepath.Join(o.Folder, "neighbour-alone-200", ladderStateName))
	if err != nil {
		t.Fatal(err)
	}
	o.Records, o.Questions = []int{600}, 2
	if larger := ladderRungOf(t, o).Neighbour; !larger.Same {
		t.Errorf("%+v", larger)
	}
	if again, err := os.Stat(filepath.Join(o.Folder, "neighbour-alone-200", ladderStateName)); err != nil || !again.ModTime().Equal(state.ModTime()) {
		t.Errorf("the small file was built again: %v", err)
	}
}

// A ratio of turns keeps each turn's two times together: what slows both down does
// not widen its interval.
func TestRatioOfTurns(t *testing.T) {
	var alone, beside []float64
	for i := range 100 {
		alone = append(alone, float64(1+i))
		beside = append(beside, 1.5*float64(1+i))
	}
	if x := pairedRatio(beside, alone, quantileOf(.5)); x.Ratio != 1.5 || x.Low != 1.5 || x.High != 1.5 {
		t.Errorf("%+v", x)
	}
}

// ownScanner is this program as a scanner's process.
func ownScanner(t *testing.T) coordinator.Scanner {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := os.MkdirTemp("", "b") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runtime) })
	return coordinator.Scanner{Command: []string{program}, Runtime: runtime, Patience: time.Minute}
}

// A scanner's process changes no answer; its files are derived when a run wants
// them, from a rung that was built without.
//
// DECISIONS 5
func TestLadderThroughAScanner(t *testing.T) {
	o := LadderOptions{Folder: t.TempDir(), Records: []int{150}, Shape: ShapeOne, Questions: 5}
	off := ladderRungOf(t, o)
	o.Scanner = ownScanner(t)
	auto := ladderRungOf(t, o)
	checkRung(t, auto)
	if off.Scanner != coordinator.ScannerOff || auto.Scanner != coordinator.ScannerAuto || auto.Files["derived"] <= off.Files["derived"] || auto.Resumed {
		t.Errorf("%s, %v; %s, %v", off.Scanner, off.Files, auto.Scanner, auto.Files)
	}
	if !slices.Equal(hitsOf(off), hitsOf(auto)) || off.RowsScanned[recallBlock] != auto.RowsScanned[recallBlock] || off.PayloadBytes != auto.PayloadBytes {
		t.Errorf("answers differ: %v, %v bytes, %v; %v, %v bytes, %v", hitsOf(off), off.PayloadBytes, off.RowsScanned, hitsOf(auto), auto.PayloadBytes, auto.RowsScanned)
	}
}

// Random codes: the planted row is the nearest, here and in a scanner process.
func TestLadderOfVectors(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp("", "b") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	t.Setenv("TMPDIR", temp)
	r := ladderRungOf(t, LadderOptions{Records: []int{5_000}, Shape: ShapeVectors, Scanner: coordinator.Scanner{Command: []string{program}}})
	if r.HitAt1[askExact] != 1 || r.HitAt10[askExact] != 1 || r.Dims != 1_024 || r.RowsScanned[recallBlock] != 5_000 {
		t.Errorf("hit@1 %v, %d dimensions, scanned %v", r.HitAt1, r.Dims, r.RowsScanned)
	}
	for _, name := range []string{"read", "kernel", "plugin"} {
		if r.ArmMS[name].P50 <= 0 {
			t.Errorf("no times of %s", name)
		}
	}
}

// A build that is stopped goes on where it was, and ends with the same records.
func TestLadderIsTakenUp(t *testing.T) {
	c := testCorpus(t)
	stopped := errors.New("stopped")
	o := LadderOptions{Folder: t.TempDir(), Records: []int{520}, Shape: ShapeOne, Questions: 2, Clock: time.Now}
	ctx, stop := context.WithCancelCause(t.Context())
	o.Phase = func(title string) (coordinator.Progress, func()) {
		return func(done, _ int64) {
			if done == ladderBatch && strings.HasPrefix(title, "store") {
				stop(stopped)
			}
		}, func() {}
	}
	if _, err := Ladder(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("a stopped build ends with %v", err)
	}
	o.Phase = nil
	taken := ladderRungOf(t, o)
	if !taken.Resumed {
		t.Error("the rung does not say that it was taken up")
	}
	o.Folder = t.TempDir()
	whole := ladderRungOf(t, o)
	if taken.Blocks != whole.Blocks || taken.PerFile["text"] != whole.PerFile["text"] || !slices.Equal(hitsOf(taken), hitsOf(whole)) || whole.Resumed {
		t.Errorf("%d blocks, %v bytes of text; at once %d, %v", taken.Blocks, taken.PerFile, whole.Blocks, whole.PerFile)
	}
	p := newLadderPlan(c, ShapeOne, 520, 0)
	if _, half := p.holds[260]; !half {
		t.Error("no needle at rank half by age")
	}
}

func hitsOf(r LadderRung) (hits []string) {
	for _, kind := range needleKinds() {
		hits = append(hits, r.Samples.HitAt10[kind])
	}
	return hits
}

// Zipf's sizes fall as one over the rank and add up; every agent has a record.
func TestZipfSizes(t *testing.T) {
	c := testCorpus(t)
	for _, n := range []int{20, 1_000, 100_000} {
		p := newLadderPlan(c, ShapeZipf, n, 0)
		last := 0
		for agent := range p.starts {
			size := p.end(agent) - p.starts[agent]
			if size < 1 || agent > 1 && size > last+1 {
				t.Fatalf("%d records: agent %d has %d, the one before %d", n, agent, size, last)
			}
			last = size
			for _, record := range []int{p.starts[agent], p.end(agent) - 1} {
				if p.agent(record) != agent {
					t.Fatalf("%d records: record %d is agent %d's, not %d's", n, record, p.agent(record), agent)
				}
			}
		}
	}
	p := newLadderPlan(c, ShapeZipf, 100_000, 0)
	if first, hundredth := p.end(0), p.end(99)-p.starts[99]; len(p.starts) != 1_000 || first/hundredth < 90 || first/hundredth > 110 {
		t.Errorf("%d agents; the first has %d records, the hundredth %d", len(p.starts), first, hundredth)
	}
}

func TestImpossibleLaddersAreRefused(t *testing.T) {
	for field, o := range map[string]LadderOptions{
		"shape": {Shape: "round", Records: []int{100}}, "--records": {Shape: ShapeOne, Records: []int{100, MaxLadderRecords + 1}}, "questions": {Shape: ShapeOne, Records: []int{20}, Questions: -1},
	} {
		_, err := Ladder(t.Context(), o)
		var refused *memory.FieldError
		if !errors.As(err, &refused) || refused.Field != field || refused.Limit == "" || refused.Next == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, records := range [][]int{nil, {19}} {
		var refused *memory.FieldError
		if _, err := Ladder(t.Context(), LadderOptions{Shape: ShapeOne, Records: records}); !errors.As(err, &refused) || refused.Field != "--records" {
			t.Errorf("rungs %v: %v", records, err)
		}
	}
	// A folder of another generator.
	folder := t.TempDir()
	if err := os.MkdirAll(ladderFolder(folder, ShapeOne, 20), 0o700); err != nil {
		t.Fatal(err)
	}
	state := `{"corpus_version":0,"seed":1,"shape":"one","records":20,"total":20,"built":true}`
	if err := os.WriteFile(filepath.Join(ladderFolder(folder, ShapeOne, 20), ladderStateName), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Ladder(t.Context(), LadderOptions{Folder: folder, Shape: ShapeOne, Records: []int{20}, Clock: time.Now})
	var refused *memory.FieldError
	if !errors.As(err, &refused) || refused.Field != "folder" {
		t.Errorf("%v", err)
	}
}
