package bench

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recalld/memory"
)

// What a flag asks for beyond its bounds is refused by the flag's own name, with the
// bounds and the next step, before anything is opened or built.
func TestBoundsOfBenchesNameTheirFlag(t *testing.T) {
	load := func(clients, records int, seconds float64) error {
		_, err := Load(t.Context(), LoadOptions{Clients: clients, Records: records, For: Span(seconds), Clock: time.Now,
			Dial: func() (LoadClient, error) { return nil, errors.New("a client is opened") }})
		return err
	}
	rebuild := func(records, rounds int, seconds float64) error {
		folder := filepath.Join(t.TempDir(), "rungs")
		_, err := Rebuild(t.Context(), RebuildOptions{For: Span(seconds), Rounds: rounds, Ladder: LadderOptions{
			Folder: folder, Records: []int{records}, Shape: ShapeOne, Clock: time.Now, Scanner: ownScanner(t)}})
		if _, stat := os.Stat(folder); !errors.Is(stat, fs.ErrNotExist) {
			t.Errorf("a rung is begun, and then %v", err)
		}
		return err
	}
	for _, c := range []struct {
		field, limit string
		err          error
	}{
		{"--clients", "1 to 4096", load(MaxLoadClients+1, 1, 1)},
		{"--clients", "1 to 4096", load(0, 1, 1)},
		{"--records", "1 to 10000000", load(1, MaxLadderRecords+1, 1)},
		{"--seconds", "at most 86400", load(1, 1, 0)},
		{"--seconds", "at most 86400", load(1, 1, math.Inf(1))},
		{"--seconds", "at most 86400", load(1, 1, math.NaN())},
		{"--records", "20 to 10000000", rebuild(MaxLadderRecords+1, 1, 1)},
		{"--records", "20 to 10000000", rebuild(19, 1, 1)},
		{"--rounds", "1 to 1000", rebuild(20, 0, 1)},
		{"--rounds", "1 to 1000", rebuild(20, MaxRounds+1, 1)},
		{"--seconds", "at most 86400", rebuild(20, 1, 0)},
		{"--seconds", "at most 86400", rebuild(20, 1, 1e300)},
	} {
		var refused *memory.FieldError
		if !errors.As(c.err, &refused) || refused.Field != c.field || !strings.Contains(refused.Limit, c.limit) || refused.Next == "" {
			t.Errorf("%s: %v", c.field, c.err)
		}
	}
	if err := load(MaxLoadClients, MaxLadderRecords, MaxSeconds); err == nil || errors.Is(err, memory.ErrInvalid) {
		t.Errorf("inside the bounds: %v", err)
	}
}

// A file or folder that is not there is refused with what was looked for, what it
// should be and what to do; another trouble stays what it is.
func TestFilesOfBenchesThatAreNotThere(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(folder, "対話.json"), filepath.Join(file, "below.json")} {
		_, ladder := ReadLadder(path)
		_, results := ReadResults([]string{path})
		_, pairs := Similarity(t.Context(), nil, path, nil)
		_, texts := readFidelity(t.Context(), path, 1, 1)
		_, turns := locomoTexts(path, 1)
		_, quality := Quality(t.Context(), nil, QualityOptions{Folder: path})
		_, split := Split(t.Context(), SplitOptions{Path: path, Format: "jsonl"})
		for name, err := range map[string]error{"compare": ladder, "report": results, "jsts": pairs, "fidelity": texts, "reach": turns, "quality": quality, "split": split} {
			var refused *memory.FieldError
			if !errors.As(err, &refused) || !strings.Contains(refused.Problem, path) || refused.Limit == "" || refused.Next == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := ReadLadder(folder); err == nil || errors.Is(err, memory.ErrInvalid) {
		t.Errorf("a folder: %v", err)
	}
}
