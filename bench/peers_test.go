package bench

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"recalld/memory"
)

// peersAt are options of a small run in a folder with a short path, which sockets
// need.
func peersAt(t *testing.T, task string) PeersOptions {
	t.Helper()
	folder, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return PeersOptions{Task: task, Rows: 3_000, Dims: 128, K: 20, Queries: 9, Repeat: 2, Names: PeerNames(task), Folder: folder, Scanner: []string{program}, Clock: time.Now}
}

// Our own contestants find the true nearest rows of both tasks, in every way of
// asking, and whoever is not installed is named.
func TestPeersOfOurOwnAreExact(t *testing.T) {
	for _, task := range []string{TaskSigns, TaskRecords} {
		rows, skipped, err := Peers(t.Context(), peersAt(t, task))
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 * len(peerThreads()) * len(peerTogether()); len(rows) != want {
			t.Errorf("%s: %d rows, not %d", task, len(rows), want)
		}
		for _, r := range rows {
			if r.Recall != 1 || r.Equal == nil || !*r.Equal || r.Calls != 2 || r.P50 <= 0 || r.Ratio <= 0 {
				t.Errorf("%s: %+v", task, r)
			}
		}
		var names []string
		for _, s := range skipped {
			names = append(names, s.Name)
		}
		if want := PeerNames(task)[2:]; !slices.Equal(names, want) {
			t.Errorf("%s: skipped %v, not %v", task, names, want)
		}
	}
}

// A wrong row, a row twice, a wrong distance and a short answer are seen.
func TestPeerAnswersAreJudged(t *testing.T) {
	for _, task := range []string{TaskSigns, TaskRecords} {
		o := peersAt(t, task)
		s, err := newPeerSet(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.free()
		k, err := newKernelPeer(s, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		_, answers, err := k.search(t.Context(), 3, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		right := answers[0]
		if found, equal := s.judge(3, right); found != o.K || !equal {
			t.Errorf("%s: %d rows, equal %v", task, found, equal)
		}
		far := int64(0)
		for row := range s.rows {
			if s.distance(3, row) > s.distance(3, int(far)) {
				far = int64(row)
			}
		}
		for name, spoil := range map[string]func(a *peerAnswer){
			"far":     func(a *peerAnswer) { a.ids[5], a.distances[5] = far, s.distance(3, int(far)) },
			"twice":   func(a *peerAnswer) { a.ids[5], a.distances[5] = a.ids[4], a.distances[4] },
			"outside": func(a *peerAnswer) { a.ids[5] = int64(s.rows) },
			"short":   func(a *peerAnswer) { a.ids, a.distances = a.ids[:o.K-1], a.distances[:o.K-1] },
		} {
			wrong := peerAnswer{slices.Clone(right.ids), slices.Clone(right.distances)}
			spoil(&wrong)
			if found, equal := s.judge(3, wrong); found != o.K-1 || equal {
				t.Errorf("%s, %s: %d rows, equal %v", task, name, found, equal)
			}
		}
		lies := peerAnswer{slices.Clone(right.ids), slices.Clone(right.distances)}
		lies.distances[7]++
		if found, equal := s.judge(3, lies); found != o.K || equal {
			t.Errorf("%s, a wrong distance: %d rows, equal %v", task, found, equal)
		}
	}
}

func TestPeersRefuse(t *testing.T) {
	for name, spoil := range map[string]func(o *PeersOptions){
		"task":    func(o *PeersOptions) { o.Task = "else" },
		"dims":    func(o *PeersOptions) { o.Dims = 100 },
		"k":       func(o *PeersOptions) { o.K = o.Rows + 1 },
		"queries": func(o *PeersOptions) { o.Queries = 7 },
		"peers":   func(o *PeersOptions) { o.Names = []string{"nobody"} },
	} {
		o := peersAt(t, TaskSigns)
		spoil(&o)
		_, _, err := Peers(t.Context(), o)
		var field *memory.FieldError
		if !errors.As(err, &field) || field.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
