package powercut

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// crashAt returns the files that a cut leaves.
func crashAt(r *Replay, rng *rand.Rand, cut int) map[string][]byte {
	r.seek(cut)
	return r.survivors(rng, &Image{})
}

// outcomes counts the states of one path over many seeds; an absent file is "-".
func outcomes(l *Log, path string) map[string]int {
	count := map[string]int{}
	for seed := range uint64(400) {
		if contents, found := crashAt(l.Replay(), seeded(seed), l.Len())[path]; found {
			count[string(contents)]++
		} else {
			count["-"]++
		}
	}
	return count
}

func writing(file, offset int64, text string) op {
	return op{kind: wrote, file: file, offset: offset, bytes: []byte(text)}
}

// TestOutcomes holds the model case by case: exactly these states, and each of them occurs.
// DECISIONS 13
func TestOutcomes(t *testing.T) {
	existing := map[string][]byte{"f": []byte("old")}
	open := op{kind: opened, file: 1, path: "f"}
	sync := op{kind: synced, file: 1, path: "f"}
	syncBoth := op{kind: synced, file: 1, path: "f", folder: true}
	remove := op{kind: deleted, path: "f"}
	for _, test := range []struct {
		name  string
		files map[string][]byte
		ops   []op
		want  []string
	}{
		{"nothing happened", existing, nil, []string{"old"}},
		{"unsynced write", existing, []op{open, writing(1, 0, "new")}, []string{"old", "new"}},
		{"synced write", existing, []op{open, writing(1, 0, "new"), sync}, []string{"new"}},
		{"write after the sync", existing, []op{open, writing(1, 0, "new"), sync, writing(1, 0, "two")}, []string{"new", "two"}},
		{"any version of a sector", existing, []op{open, writing(1, 0, "one"), writing(1, 0, "two")}, []string{"old", "one", "two"}},
		{"reordered writes", existing, []op{open, writing(1, 0, "O"), writing(1, 2, "D")}, []string{"old", "Old", "olD", "OlD"}},
		{"overlap in either order", existing, []op{open, writing(1, 0, "xy"), writing(1, 1, "zw")}, []string{"old", "xyd", "ozw", "xzw", "xyw"}},
		{"synced twice", existing, []op{open, writing(1, 0, "one"), sync, writing(1, 0, "two"), sync, writing(1, 0, "T")}, []string{"two", "Two"}},
		{"unsynced truncation", existing, []op{open, {kind: truncated, file: 1, offset: 1}}, []string{"old", "o"}},
		{"synced truncation", existing, []op{open, {kind: truncated, file: 1, offset: 1}, sync}, []string{"o"}},
		{"truncation and write", existing,
			[]op{open, {kind: truncated, file: 1, offset: 1}, writing(1, 0, "N")}, []string{"old", "o", "Nld", "N"}},
		{"created, folder never synced", nil, []op{open, writing(1, 0, "new"), sync}, []string{"-", "new"}},
		{"created, folder synced", nil, []op{open, syncBoth}, []string{""}},
		{"deleted", existing, []op{remove}, []string{"-", "old"}},
		{"deleted, folder synced", existing, []op{{kind: deleted, path: "f", folder: true}}, []string{"-"}},
		{"deleted and created anew", existing, []op{open, remove, {kind: opened, file: 2, path: "f"}}, []string{"old", "-", ""}},
		{"write to a deleted file", existing,
			[]op{open, {kind: deleted, path: "f", folder: true}, writing(1, 0, "new"), sync}, []string{"-"}},
		{"synced through another handle", existing,
			[]op{open, {kind: opened, file: 2, path: "f"}, writing(1, 0, "new"), {kind: synced, file: 2, path: "f"}}, []string{"new"}},
		{"another folder's sync", nil,
			[]op{open, {kind: opened, file: 2, path: "sub/g"}, {kind: synced, file: 2, path: "sub/g", folder: true}}, []string{"-", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := outcomes(&Log{files: test.files, ops: test.ops}, "f")
			for _, state := range test.want {
				if got[state] == 0 {
					t.Errorf("state %q never occurs", state)
				}
				delete(got, state)
			}
			if len(got) > 0 {
				t.Errorf("impossible states occur: %v", got)
			}
		})
	}
}

// TestTornWrite: a write tears at sectors of the file, and only there.
func TestTornWrite(t *testing.T) {
	base := strings.Repeat("a", 2048)
	l := &Log{files: map[string][]byte{"f": []byte(base)}, ops: []op{
		{kind: opened, file: 1, path: "f"}, writing(1, 256, strings.Repeat("b", 1024)),
	}}
	torn := 0
	for state := range outcomes(l, "f") {
		pieces := []string{state[256:512], state[512:1024], state[1024:1280]}
		for _, piece := range pieces {
			if strings.Trim(piece, "a") != "" && strings.Trim(piece, "b") != "" {
				t.Fatalf("a sector is torn inside: %q", piece)
			}
		}
		if outside := state[:256] + state[1280:]; strings.Trim(outside, "a") != "" || len(state) != 2048 {
			t.Fatal("bytes outside the write changed")
		}
		if pieces[0][0] != pieces[1][0] || pieces[1][0] != pieces[2][0] {
			torn++
		}
	}
	if torn < 3 {
		t.Errorf("%d torn states in 400 cuts", torn)
	}
}

// TestLengthAhead: an unsynced extension may leave the length without the bytes.
func TestLengthAhead(t *testing.T) {
	l := &Log{files: map[string][]byte{"f": nil}, ops: []op{{kind: opened, file: 1, path: "f"}, writing(1, 0, "new row")}}
	got := outcomes(l, "f")
	garbage := 0
	for state := range got {
		if len(state) == 7 && state != "new row" && state != strings.Repeat("\x00", 7) {
			garbage++
		} else if len(state) != 0 && len(state) != 7 {
			t.Errorf("impossible length: %q", state)
		}
	}
	if got[""] == 0 || got["new row"] == 0 || got[strings.Repeat("\x00", 7)] == 0 || garbage == 0 {
		t.Errorf("missing states in %v", got)
	}
}

// TestSyncedBytesSurvive: for any record and any cut, a byte of the image was durable or was written there later, or lies
// beyond the durable length; and a file whose last operation is a sync is exactly what was written.
// DECISIONS 13
func TestSyncedBytesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Log{files: map[string][]byte{"f": bytes.Repeat([]byte{'.'}, 700)}, ops: []op{{kind: opened, file: 1, path: "f"}}}
		for range rapid.IntRange(0, 25).Draw(t, "operations") {
			switch rapid.IntRange(0, 5).Draw(t, "operation") {
			case 0:
				l.ops = append(l.ops, op{kind: synced, file: 1, path: "f"})
			case 1:
				l.ops = append(l.ops, op{kind: truncated, file: 1, offset: rapid.Int64Range(0, 3000).Draw(t, "size")})
			default:
				text := strings.Repeat(rapid.StringMatching(`[a-z]`).Draw(t, "letter"), rapid.IntRange(1, 1500).Draw(t, "length"))
				l.ops = append(l.ops, writing(1, rapid.Int64Range(0, 2000).Draw(t, "offset"), text))
			}
		}
		cut := rapid.IntRange(1, l.Len()).Draw(t, "cut")

		durable := bytes.Repeat([]byte{'.'}, 700)
		latest := slices.Clone(durable)
		var open []op
		for _, o := range l.ops[1:cut] {
			if o.kind == synced {
				durable, open = slices.Clone(latest), nil
				continue
			}
			latest = o.perform(latest)
			open = append(open, o)
		}

		got := crashAt(l.Replay(), seeded(rapid.Uint64().Draw(t, "seed")), cut)["f"]
		if len(open) == 0 && !bytes.Equal(got, durable) {
			t.Fatalf("synced contents changed")
		}
		for i, b := range got {
			possible := i >= len(durable) || durable[i] == b
			for _, o := range open {
				at := int64(i) - o.offset
				possible = possible || o.kind == wrote && at >= 0 && at < int64(len(o.bytes)) && o.bytes[at] == b
				possible = possible || o.kind == truncated && at >= 0
			}
			if !possible {
				t.Fatalf("byte %d is %q, durable %q, never written there", i, b, durable[i])
			}
		}
	})
}

// TestCrashIsDeterministic: the image depends on the seed and the cut, not on the way to it.
func TestCrashIsDeterministic(t *testing.T) {
	l := &Log{files: map[string][]byte{"a": []byte("1"), "b": []byte("2")}}
	for i := range int64(40) {
		l.ops = append(l.ops, op{kind: opened, file: i, path: string(rune('a' + i%5))}, writing(i, i*100, strings.Repeat("x", 900)))
	}
	walking := l.Replay()
	for _, cut := range []int{10, 40, 80, 33, 0, 80} {
		want := crashAt(l.Replay(), seeded(uint64(cut)), cut)
		got := crashAt(walking, seeded(uint64(cut)), cut)
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("cut %d differs after other cuts", cut)
		}
	}
}

// TestAcknowledgedBeforeTheCut: marks count from the cut on, in order.
func TestAcknowledgedBeforeTheCut(t *testing.T) {
	l := &Log{ops: []op{{kind: acknowledged, mark: 7}, {kind: opened, file: 1, path: "f"}, {kind: acknowledged, mark: 3}}}
	for cut, want := range [][]int64{nil, {7}, {7}, {7, 3}} {
		image, err := l.Replay().Crash(seeded(1), cut, t.TempDir())
		if err != nil || !slices.Equal(image.Acknowledged, want) {
			t.Errorf("cut %d: %v, %v; want %v", cut, image.Acknowledged, err, want)
		}
	}
}

// TestCrashRefuses: a cut outside the log, and a folder that holds something.
func TestCrashRefuses(t *testing.T) {
	l := &Log{files: map[string][]byte{"f": nil}}
	for _, cut := range []int{-1, 1} {
		if _, err := l.Replay().Crash(seeded(1), cut, t.TempDir()); err == nil {
			t.Errorf("cut %d of an empty log was accepted", cut)
		}
	}
	folder := t.TempDir()
	if _, err := l.Replay().Crash(seeded(1), 0, folder); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay().Crash(seeded(1), 0, folder); err == nil {
		t.Error("a second image was written over the first")
	}
}

// TestCuts: in range, ascending, as many as asked, and half of them close behind a mark.
func TestCuts(t *testing.T) {
	l := &Log{}
	for i := range 1000 {
		l.ops = append(l.ops, op{kind: opened, path: "f"})
		if i == 500 {
			l.ops = append(l.ops, op{kind: acknowledged})
		}
	}
	cuts := l.Cuts(seeded(1), 200)
	near := 0
	for _, cut := range cuts {
		if cut >= 502 && cut <= 505 {
			near++
		}
		if cut < 0 || cut > l.Len() {
			t.Errorf("cut %d is out of range", cut)
		}
	}
	if len(cuts) != 200 || !slices.IsSorted(cuts) || near < 100 {
		t.Errorf("%d cuts, sorted %v, %d near the mark", len(cuts), slices.IsSorted(cuts), near)
	}
	if got := (&Log{}).Cuts(seeded(1), 3); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("cuts of an empty log: %v", got)
	}
}
