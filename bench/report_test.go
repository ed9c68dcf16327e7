package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recalld/memory"
)

// writeResult writes one file of results.
func writeResult(t *testing.T, name string, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rungFor is a rung whose costs are 1 ms and 2 ms more for a thousand records.
func rungFor(shape string, records int) LadderRung {
	at := 1 + 2*float64(records)/1_000
	l := Latencies{P50: at, P95: 2 * at, P99: 3 * at}
	r := LadderRung{
		Shape: shape, Records: records, Blocks: 20 * int64(records), Dims: 256, Scanner: "off", RecallMS: l,
		ArmMS:     map[string]Latencies{recallLexical: l, recallVector: l, recallBlock: l, recallAnswer: l, "read": l, "kernel": l},
		Questions: map[string]int{askExact: 4}, HitAt1: map[string]float64{askExact: .75}, HitAt10: map[string]float64{askExact: 1},
		Payload:     []LadderPayload{{1, 600, .5}, {10, 6_000, 1}},
		RowsScanned: map[string]float64{recallVector: float64(records), recallBlock: 20 * float64(records)}, Postings: float64(7 * records), PostingBytes: 1.5,
		RSS: map[string]float64{"coordinator": 50}, Files: map[string]float64{"truth": 3, "derived": 1}, Degraded: map[string]int{"block scan_cap": 2},
		Samples: LadderSamples{RecallMS: []float64{at - .5, at, at, at + .5}, HitAt10: map[string]string{askExact: "1111"}},
	}
	if shape == ShapeNeighbour {
		r.Neighbour = &LadderNeighbour{Records: 1_000, Alone: LadderSide{RecallMS: l}, Beside: LadderSide{RecallMS: l}, Same: true, Ratios: map[string]LadderRatio{"p50": {1.02, .97, 1.08}}}
	}
	return r
}

// loadFor is a load whose latency is a millisecond a client.
func loadFor(clients, shed int) LoadReport {
	at := float64(clients)
	op := LoadOp{Name: LoadRecall, Answered: 100 * clients, PerSecond: 10 * at, P50: at, P95: 2 * at, P99: 3 * at, Shed: shed}
	if shed > 0 {
		op.ShedP50, op.Errors = .5, map[string]int{"busy": 2}
	}
	return LoadReport{Kind: KindLoad, Clients: clients, Operations: []LoadOp{op}, Load: [2]float64{1.5, 4},
		Before: []LoadOp{{Name: LoadRecall, P50: 1, P95: 2}}, After: []LoadOp{{Name: LoadRecall, P50: 1.25, P95: 2.5}}}
}

// Every section is there, every chart is SVG, and the same files give the same
// bytes.
func TestReportPage(t *testing.T) {
	var rungs []LadderRung
	for _, shape := range LadderShapes() {
		rungs = append(rungs, rungFor(shape, 10_000), rungFor(shape, 1_000))
	}
	stale := rungFor(ShapeOne, 1_000)
	stale.Blocks = 123_456_789
	rungs[0].Load = [2]float64{1, 7}
	files := []string{
		writeResult(t, "old.json", LadderReport{Kind: KindLadder, Rungs: []LadderRung{stale}}),
		writeResult(t, "ladder.json", LadderReport{Kind: KindLadder, Rungs: rungs, Machine: Machine{CPU: "a | b", Cores: 2, Command: "recalld bench ladder"}}),
		writeResult(t, "peers.json", PeersReport{Kind: KindPeers, Rows: []PeerRow{
			{Name: "numpy", Version: "2", Task: "scan", N: 1_000, Dims: 1_024, K: 200, P50: 3, Recall: 1},
			{Name: "recalld kernel", Task: "scan", N: 1_000, Dims: 1_024, K: 200, P50: 2, Recall: 1},
		}, Skipped: []PeerSkipped{{"faiss", "scan", "not installed"}}}),
		writeResult(t, "load-16.json", loadFor(16, 0)), writeResult(t, "load-4.json", loadFor(4, 0)), writeResult(t, "load-shed.json", loadFor(16, 9)),
	}
	write := func() map[string][]byte {
		results, err := ReadResults(files)
		if err != nil {
			t.Fatal(err)
		}
		written, err := WriteReport(results, filepath.Join(t.TempDir(), "page.md"))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string][]byte{}
		for _, name := range written {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(name)] = raw
		}
		return all
	}
	first, second := write(), write()
	for _, name := range []string{"page.md", "page-recall.svg", "page-arms.svg", "page-quality.svg", "page-memory.svg", "page-vectors.svg", "page-peers-1.svg", "page-throughput.svg", "page-latency.svg"} {
		if len(first[name]) == 0 || !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s: %d bytes, then %d others", name, len(first[name]), len(second[name]))
		}
		if strings.HasSuffix(name, ".svg") {
			if !strings.Contains(string(first["page.md"]), "]("+name+")") {
				t.Errorf("%s is not in the page", name)
			}
			for d := xml.NewDecoder(bytes.NewReader(first[name])); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
	page := string(first["page.md"])
	for _, want := range []string{
		"| one | 1,000 | 20,000 | off | 3.00 | 6.00 | 9.00 |", "| one | 10,000 | 200,000 | off | 21.0 |", "to the byte", "a load of up to 7 on 2 cores", "- faiss, scan: not installed", "block scan_cap: 2", "a / b",
		"| 1,000 | numpy 2 | 3.00 |  |  | 1.000 |  | 1.50 |", // of our 2 ms
		"| one | recall | 2 | 0.85 | 1.00 | 2,000 ms a million records |  |  |",
		"| one | lexical | 2 | 0.85 | 1.00 | 286 ms a million postings | 70,000 postings | 0.10 |",
		"| one | vector | 2 | 0.85 | 1.00 | 2,000 ms a million vectors | 10,000 vectors | 10.2 |",
		" ms a million codes of blocks | 200,000 codes of blocks | 6.40 |",
		"| 1.02 (0.97 to 1.08) |",
		"| load-4.json | 4 | recall | 40.0 | 4.00 | 8.00 | 12.0 | 400 | 0 |  |  | 1.5, 4.0 |\n| load-16.json | 16 |", "| load-shed.json | 16 | recall | 160 | 16.0 | 32.0 | 48.0 | 1,600 | 9 | 0.50 | busy: 2 |",
		"| load-shed.json | 16 | recall | 1.00 | 1.25 | 2.00 | 2.50 | 0 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "123,456,789") {
		t.Error("an earlier file's rung stands in the page")
	}
	if strings.Index(page, "| one | 1,000 |") > strings.Index(page, "| one | 10,000 |") {
		t.Error("rungs are not in order")
	}
}

// A line and a power law come back; sizes without cost do not count.
func TestFits(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, math.Abs(b)) }
	sizes := []float64{1e3, 1e4, 1e5, 1e6}
	line, power := make([]float64, 4), make([]float64, 4)
	for i, x := range sizes {
		line[i], power[i] = .5+float64(x/1e5), 3*math.Pow(x, .7)
	}
	if f := FitCost(sizes, line); !f.OK || !near(f.Intercept, .5) || !near(f.Slope, 1e-5) {
		t.Errorf("%+v", f)
	}
	if f := FitCost(sizes, power); !f.OK || !near(f.Exponent, .7) {
		t.Errorf("%+v", f)
	}
	if f := FitCost(append(sizes, 0, 5), append(line, 9, 0)); !near(f.Intercept, .5) {
		t.Errorf("%+v", f)
	}
	// Relative errors count: the last point, far off, must not carry the first ones away.
	if f := FitCost(sizes, []float64{1, 1, 1, 3}); f.Intercept < .9 || f.Intercept > 1.1 {
		t.Errorf("%+v", f)
	}
	for _, few := range [][]float64{nil, {5}, {5, 5}} {
		if f := FitCost(few, make([]float64, len(few))); f.OK {
			t.Errorf("%v: %+v", few, f)
		}
	}
	if f := FitCost([]float64{5, 5}, []float64{1, 2}); f.OK {
		t.Errorf("two costs of one size: %+v", f)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	for name, v := range map[string]any{"number.json": 7, "other.json": map[string]any{"kind": "other"}, "wrong.json": map[string]any{"kind": KindLadder, "rungs": 1}} {
		_, err := ReadResults([]string{writeResult(t, name, v)})
		var refused *memory.FieldError
		if !errors.As(err, &refused) || refused.Field != "file" || refused.Limit == "" || refused.Next == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	peers := writeResult(t, "peers.json", PeersReport{Kind: KindPeers})
	if _, err := ReadLadder(peers); !errors.As(err, new(*memory.FieldError)) {
		t.Errorf("%v", err)
	}
	if _, err := ReadResults([]string{filepath.Join(t.TempDir(), "none.json")}); !errors.As(err, new(*memory.FieldError)) {
		t.Errorf("%v", err)
	}
	results := &Results{Rungs: []LadderRung{rungFor(ShapeOne, 1_000)}}
	if _, err := WriteReport(results, "page.html"); !errors.As(err, new(*memory.FieldError)) {
		t.Errorf("%v", err)
	}
	if _, err := WriteReport(&Results{}, filepath.Join(t.TempDir(), "page.md")); err == nil {
		t.Error("a page without figures is written")
	}
}
