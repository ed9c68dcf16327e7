package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func readAll(t *testing.T, r *Reader) (items []Item, bad []LineError) {
	t.Helper()
	for {
		item, _, err := r.Next()
		var refused *LineError
		switch {
		case errors.Is(err, io.EOF):
			return items, bad
		case errors.As(err, &refused):
			bad = append(bad, *refused)
		case err != nil:
			t.Fatal(err)
		default:
			items = append(items, item)
		}
	}
}

func TestBadLinesAreListedByNumberAndReadingGoesOn(t *testing.T) {
	input := "\xef\xbb\xbf" + `{"content":"first"}` + "\r\n" +
		"\n" +
		`{"content":"unknown field","colour":"red"}` + "\n" +
		`{"content":"\ud800"}` + "\n" +
		`{"content":"a\u0000b"}` + "\n" +
		"{\"content\":\"\xff\"}\n" +
		`{"content":"two"} {"content":"values"}` + "\n" +
		`["not an object"]` + "\n" +
		`{"content":"` + strings.Repeat("x", MaxLine) + `"}` + "\n" +
		`{"content":"会議は火曜日\ud83d\ude00"}`
	items, bad := readAll(t, NewReader(strings.NewReader(input)))
	if len(items) != 2 || items[0].Content != "first" || items[1].Content != "会議は火曜日😀" {
		t.Errorf("items = %.200q", fmt.Sprint(items))
	}
	var lines []int
	for _, b := range bad {
		lines = append(lines, b.Line)
	}
	if want := []int{3, 4, 5, 6, 7, 8, 9}; fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("bad lines = %v, want %v: %v", lines, want, bad)
	}
	for i, want := range []string{"colour", "lone surrogate", "NUL", "UTF-8", "more than one", "not an item", "bytes (limit"} {
		if i < len(bad) && !strings.Contains(bad[i].Err, want) {
			t.Errorf("line %d says %q, want %q in it", bad[i].Line, bad[i].Err, want)
		}
	}
}

func TestLocomoTurnBecomesARecordOfItsConversation(t *testing.T) {
	folder := t.TempDir()
	line := `{"conversation":"chat_1","session":2,"dia_id":"D2:1","speaker":"Mei","time":"2023-05-25T13:14:00Z","text":"I ran a race."}`
	if err := os.WriteFile(filepath.Join(folder, "turns.jsonl"), []byte(line+"\n"+`{"conversation":"chat_1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenFile(context.Background(), "locomo", folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	items, bad := readAll(t, r)
	want := `[{"type":"memory","project":"chat_1","content":"Mei: I ran a race.","message_id":"D2:1","source":{"type":"chat","id":"chat_1/session-2","name":"Mei"},"time":"2023-05-25T13:14:00Z"}]`
	if got, _ := json.Marshal(items); string(got) != want {
		t.Errorf("items = %s\nwant    %s", got, want)
	}
	if len(bad) != 1 || bad[0].Line != 2 {
		t.Errorf("bad = %v, want line 2", bad)
	}
}

// sinkOf collects items and fails at the call of the given number.
func sinkOf(stored *[]string, failAt int) Sink {
	seen := map[string]bool{}
	for _, s := range *stored {
		seen[s] = true
	}
	calls := 0
	return func(_ context.Context, agent string, items []Item) ([]Outcome, error) {
		if calls++; calls == failAt {
			return nil, errors.New("killed")
		}
		var out []Outcome
		for _, item := range items {
			switch key := agent + "/" + item.Content; {
			case item.Content == "":
				out = append(out, Outcome{Word: "rejected", Err: "content: is empty"})
			case seen[key]:
				out = append(out, Outcome{Word: "skipped"})
			default:
				seen[key] = true
				*stored = append(*stored, key)
				out = append(out, Outcome{Word: "stored"})
			}
		}
		return out, nil
	}
}

func TestInterruptedRunsStoreEveryItemOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "items")
		var input strings.Builder
		var want []string
		for i := range n {
			agent := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "agent")
			fmt.Fprintf(&input, "{\"agent\":%q,\"content\":\"text %d\"}\n", agent, i)
			want = append(want, fmt.Sprintf("%s/text %d", agent, i))
		}
		slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
		folder, err := os.MkdirTemp("", "import")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(folder)
		path := filepath.Join(folder, "in.jsonl")
		if err := os.WriteFile(path, []byte(input.String()), 0o600); err != nil {
			rt.Fatal(err)
		}
		var stored []string
		read := 0
		for attempt := 0; ; attempt++ {
			r, err := OpenFile(context.Background(), "jsonl", path)
			if err != nil {
				rt.Fatal(err)
			}
			cursor, err := NewCursor(folder, "truth", "", "jsonl", path, [2]int64{})
			if err != nil {
				rt.Fatal(err)
			}
			failAt := 0
			if attempt < 3 {
				failAt = rapid.IntRange(0, 8).Draw(rt, "fail at")
			}
			report, err := Run(context.Background(), r, sinkOf(&stored, failAt), Options{Batch: rapid.IntRange(1, 7).Draw(rt, "batch"), Cursor: cursor})
			r.Close()
			read += report.Stored + report.Skipped
			if err == nil {
				break
			}
		}
		// Batches go to the sink agent by agent; of one agent, in the file's order.
		slices.SortStableFunc(stored, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
		if fmt.Sprint(stored) != fmt.Sprint(want) {
			rt.Fatalf("stored %v\nwant   %v", stored, want)
		}
		if read != n {
			rt.Fatalf("resumed runs went over %d items of %d: the cursor was not used", read, n)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, "import-*")); len(left) != 0 {
			rt.Fatalf("cursor left behind: %v", left)
		}
	})
}

func TestCursorOfAChangedInputOrStoreIsNotUsed(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "in.jsonl")
	if err := os.WriteFile(path, []byte(`{"content":"x"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(truth string) Position {
		c, err := NewCursor(folder, truth, "a", "jsonl", path, [2]int64{7, 2})
		if err != nil {
			t.Fatal(err)
		}
		want := [2]int64{7, 2}
		if p := c.load(); p != (Position{}) {
			want = [2]int64{3, 1} // those of the run that was interrupted
		}
		if c.Marks() != want {
			t.Errorf("marks %v, want %v", c.Marks(), want)
		}
		return c.load()
	}
	c, err := NewCursor(folder, "one", "a", "jsonl", path, [2]int64{3, 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.save(Position{Line: 1, Offset: 16}); err != nil {
		t.Fatal(err)
	}
	if got := at("one"); got.Line != 1 {
		t.Errorf("same input and store: %+v, want line 1", got)
	}
	if got := at("two"); got != (Position{}) {
		t.Errorf("another store: %+v, want the start", got)
	}
	if err := os.WriteFile(path, []byte(`{"content":"changed"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := at("one"); got != (Position{}) {
		t.Errorf("changed input: %+v, want the start", got)
	}
}

func TestRunSettlesTheAgent(t *testing.T) {
	input := `{"content":"one"}` + "\n" + `{"agent":"b","content":"two"}` + "\n" + `{"agent":"a","content":"three"}` + "\n" + `{"content":""}` + "\n"
	var stored []string
	report, err := Run(context.Background(), NewReader(strings.NewReader(input)), sinkOf(&stored, 0), Options{Agent: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(stored) != "[a/one a/three]" || report.Stored != 2 || report.Rejected != 2 || report.Bad[0].Line != 2 || report.Bad[1].Line != 4 {
		t.Errorf("stored %v, report %+v", stored, report)
	}
	report, err = Run(context.Background(), NewReader(strings.NewReader(input)), sinkOf(&stored, 0), Options{Agent: "a", DryRun: true})
	if err != nil || report.Read != 4 || report.Skipped != 2 || report.Rejected != 2 || !report.DryRun {
		t.Errorf("dry run: report %+v, %v", report, err)
	}
}

// A batch is cut by its bytes as well, whatever the lines are: none is lost, and
// one that alone is longer travels alone.
func TestBatchesAreBoundedInBytes(t *testing.T) {
	var input strings.Builder
	for i, size := range []int{3 << 20, 3 << 20, 3 << 20, 1, maxBatchBytes + 1, 1} {
		fmt.Fprintf(&input, "{\"content\":%q}\n", fmt.Sprint(i, strings.Repeat("x", size)))
	}
	var batches []int
	sink := func(_ context.Context, _ string, items []Item) ([]Outcome, error) {
		batches = append(batches, len(items))
		return make([]Outcome, len(items)), nil
	}
	if _, err := Run(context.Background(), NewReader(strings.NewReader(input.String())), sink, Options{Agent: "a"}); err != nil {
		t.Fatal(err)
	}
	if want := "[2 2 1 1]"; fmt.Sprint(batches) != want {
		t.Errorf("batches of %v, want %s", batches, want)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"content":"a"}` + "\n" + `{"type":"episode","summary":"週次レビュー"}`))
	f.Add([]byte("{\"content\":\"\\ud83d\\ude00\"}\r\n\xff"))
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, decode := range []func([]byte) (Item, error){decodeItem, decodeTurn} {
			r := newReader(strings.NewReader(string(input)), decode)
			last := Position{}
			for {
				_, at, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if at.Line <= last.Line || at.Offset <= last.Offset || at.Offset > int64(len(input)) {
					t.Fatalf("position went from %+v to %+v of %d bytes", last, at, len(input))
				}
				last = at
			}
		}
	})
}
