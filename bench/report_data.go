package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"recalld/memory"
)

// KindPeers is the kind of a file of other programs' figures.
const KindPeers = "peers"

// Results are the figures of several files. Of rungs of one shape and size the
// last one counts.
type Results struct {
	Rungs   []LadderRung // by shape in the order of [LadderShapes], then by records
	Peers   []PeerRow    // by task, dimensions, k, threads, queries together, size, and time
	Skipped []PeerSkipped
	Loads   []LoadRun   // by clients, then in the order of files
	Runs    []ResultRun // in the order of files
}

// LoadRun is a load and the file that it is from.
type LoadRun struct {
	Name string
	LoadReport
}

// ResultRun is one file: where and when its figures were measured.
type ResultRun struct {
	Name    string
	Kind    string
	Machine Machine
}

// ReadLadder reads the report of a ladder.
func ReadLadder(path string) (*LadderReport, error) {
	var report LadderReport
	_, err := readResult(path, map[string]any{KindLadder: &report})
	return &report, err
}

// ReadResults reads report files of ladders, of peers and of loads, in any order. A
// file that is none of these is a *[memory.FieldError].
func ReadResults(paths []string) (*Results, error) {
	r := &Results{}
	for _, path := range paths {
		var ladder LadderReport
		var peers PeersReport
		var load LoadReport
		kind, err := readResult(path, map[string]any{KindLadder: &ladder, KindPeers: &peers, KindLoad: &load})
		if err != nil {
			return nil, err
		}
		run := ResultRun{Name: filepath.Base(path), Kind: kind, Machine: ladder.Machine}
		switch kind {
		case KindPeers:
			run.Machine = peers.Machine
		case KindLoad:
			run.Machine = load.Machine
			r.Loads = append(r.Loads, LoadRun{run.Name, load})
		}
		r.Runs = append(r.Runs, run)
		for _, rung := range ladder.Rungs {
			r.put(rung)
		}
		r.Peers, r.Skipped = append(r.Peers, peers.Rows...), append(r.Skipped, peers.Skipped...)
	}
	shapes := LadderShapes()
	slices.SortStableFunc(r.Rungs, func(a, b LadderRung) int {
		return cmp.Or(cmp.Compare(slices.Index(shapes, a.Shape), slices.Index(shapes, b.Shape)), cmp.Compare(a.Records, b.Records))
	})
	slices.SortStableFunc(r.Loads, func(a, b LoadRun) int { return cmp.Compare(a.Clients, b.Clients) })
	slices.SortStableFunc(r.Peers, func(a, b PeerRow) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Dims, b.Dims), cmp.Compare(a.K, b.K), cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.Together, b.Together), cmp.Compare(a.N, b.N), cmp.Compare(a.P50, b.P50), cmp.Compare(a.Name, b.Name))
	})
	return r, nil
}

func (r *Results) put(rung LadderRung) {
	for i, held := range r.Rungs {
		if held.Shape == rung.Shape && held.Records == rung.Records {
			r.Rungs[i] = rung
			return
		}
	}
	r.Rungs = append(r.Rungs, rung)
}

// of are the rungs of a shape, ascending.
func (r *Results) of(shape string) (rungs []LadderRung) {
	for _, rung := range r.Rungs {
		if rung.Shape == shape {
			rungs = append(rungs, rung)
		}
	}
	return rungs
}

// maxResult bounds a report file, in bytes.
const maxResult = 64 << 20

// readResult reads a file into what there is for its kind; other kinds are refused.
func readResult(path string, into map[string]any) (kind string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", missing("FILE", "a file that a bench wrote with --json", fmt.Errorf("read results: %w", err))
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxResult+1))
	if err != nil {
		return "", fmt.Errorf("read results: %w", err)
	}
	var head struct {
		Kind string `json:"kind"`
	}
	if len(raw) > maxResult || json.Unmarshal(raw, &head) != nil {
		return "", notResults(path, "one JSON object")
	}
	to := into[head.Kind]
	if to == nil {
		return "", notResults(path, "kind "+strings.Join(slices.Sorted(maps.Keys(into)), ", "))
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return "", errors.Join(notResults(path, "the fields of its kind"), err)
	}
	return head.Kind, nil
}

func notResults(path, limit string) error {
	return &memory.FieldError{Field: "file", Problem: memory.Shape(filepath.Base(path)) + " is no file of results", Limit: limit, Next: "name a file that the bench of that kind wrote with --json"}
}

// Fit says how a cost grows with a size: as size to the power of Exponent, by
// least squares of logarithms; and as Intercept + Slope × size, by least squares
// of relative errors, so that small sizes count as much as large ones. OK is false
// below two sizes.
type Fit struct {
	Exponent         float64
	Intercept, Slope float64
	OK               bool
}

// FitCost fits positive costs at different positive sizes; others are left out.
func FitCost(sizes, costs []float64) (f Fit) {
	var n, lx, ly, lxx, lxy float64 // of logarithms
	var w, wx, wy, wxx, wxy float64 // weighted with 1/cost²
	for i, x := range sizes {
		y := costs[i]
		if x <= 0 || y <= 0 {
			continue
		}
		a, b := math.Log(x), math.Log(y)
		n, lx, ly, lxx, lxy = n+1, lx+a, ly+b, lxx+float64(a*a), lxy+float64(a*b)
		weight := 1 / float64(y*y)
		w, wx, wy = w+weight, wx+float64(weight*x), wy+float64(weight*y)
		wxx, wxy = wxx+float64(float64(weight*x)*x), wxy+float64(float64(weight*x)*y)
	}
	spread := float64(n*lxx) - float64(lx*lx)
	weighted := float64(w*wxx) - float64(wx*wx)
	if n < 2 || spread <= 0 || weighted <= 0 {
		return Fit{}
	}
	f.OK = true
	f.Exponent = (float64(n*lxy) - float64(lx*ly)) / spread
	f.Slope = (float64(w*wxy) - float64(wx*wy)) / weighted
	f.Intercept = (wy - float64(f.Slope*wx)) / w
	return f
}
