package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// rot changes bytes of a closed file where they stand, like a failing disk.
func rot(t *testing.T, path, from, to string) {
	t.Helper()
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(from) != len(to) || !strings.Contains(string(contents), from) {
		t.Fatalf("%q is not in the file, or %q is not as long", from, to)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(contents), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedRecordsAreLeftOut: a record whose bytes changed under the program is
// no part of an answer, is named by the view and by the check, is not blessed by
// a repair or by an update that leaves its text, and lives again with a new text.
// The others stay, and pages of a list stay full.
// DECISIONS 11, 13
func TestDamagedRecordsAreLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		kind     memory.Kind
		id       int64
	}{
		"another text":       {"password: hunter2", "password: hunter3", memory.KindMemory, 2},
		"no UTF-8":           {"会議は火曜日", "会議は火曜\xe6\x97\xff", memory.KindMemory, 3},
		"no UTF-8, metadata": {`{"room":"blue"}`, "{\"room\":\"blu\xff\"}", memory.KindMemory, 3},
		"metadata no JSON":   {`{"room":"blue"}`, `{"room":"blue"]`, memory.KindMemory, 3},
		"no UTF-8, source":   {"session-白", "session-\xff\xff\xff", memory.KindMemory, 3},
		"no UTF-8, keywords": {"迁移", "迁\xe7\xa7\xff", memory.KindEpisode, 1},
		"an episode":         {"The database moved", "The database mooed", memory.KindEpisode, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := openStore(t, sqlite.Options{Clock: fixed})
			ctx := context.Background()
			store(t, s,
				sqlite.NewMemory{Cell: cell("a", "", ""), Content: "first"},
				sqlite.NewMemory{Cell: cell("a", "", ""), Content: "password: hunter2"},
				sqlite.NewMemory{Cell: cell("a", "", ""), Content: "会議は火曜日", Metadata: []byte(`{"room":"blue"}`), Source: memory.Source{ID: "session-白"}},
				sqlite.NewMemory{Cell: cell("a", "", ""), Content: "last"})
			if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: "The database moved", Keywords: []string{"迁移"}}, {Cell: cell("a", "", ""), Summary: "another"}}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			rot(t, path, c.from, c.to)
			s = reopen(t, path, sqlite.Options{Clock: fixed})
			bad, all := memory.Ref{Kind: c.kind, ID: c.id}, int64(4)
			if c.kind == memory.KindEpisode {
				all = 2
			}
			var refs []memory.Ref
			for id := range all {
				refs = append(refs, memory.Ref{Kind: c.kind, ID: id + 1})
			}
			v := view(t, s)
			got, err := v.Hydrate(memory.Scope{Agent: "a"}, refs)
			if err != nil || int64(len(got)) != all-1 {
				t.Errorf("%+v, %v", got, err)
			}
			for _, r := range got {
				if r.Ref == bad {
					t.Errorf("served: %+v", r)
				}
			}
			if d := v.Damaged(); fmt.Sprint(d) != fmt.Sprint([]memory.Ref{bad}) {
				t.Errorf("damaged: %v", d)
			}
			page, err := v.List(memory.Scope{Agent: "a"}, sqlite.Filter{Kind: c.kind, Limit: int(all) - 1})
			if err != nil || int64(len(page)) != all-1 {
				t.Errorf("a page of %d, %v", len(page), err)
			}
			v.Close()

			for _, check := range s.Checks() {
				if check.Name == "full_text" {
					// The index knows the former text.
					if _, err := check.Fix(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if check.Name != "digests" {
					continue
				}
				f, err := check.Run(ctx)
				if err != nil || f.OK || check.Fix != nil || !strings.Contains(fmt.Sprint(f.Evidence), bad.String()) || !strings.Contains(f.Fix, "recalld restore") {
					t.Errorf("%+v, %v, can be repaired: %v", f, err, check.Fix != nil)
				}
			}
			when := memory.TimeOf(fixed())
			if _, err := s.Update(ctx, "a", bad, sqlite.Patch{Time: &when}); !errors.Is(err, memory.ErrCorrupt) {
				t.Errorf("an update of its time: %v", err)
			}
			text := "whole again"
			patch := sqlite.Patch{Content: &text}
			if c.kind == memory.KindMemory {
				patch.Metadata, patch.Source = &json.RawMessage{}, &memory.Source{}
			} else {
				patch.Keywords = &[]string{"moved"}
			}
			if _, err := s.Update(ctx, "a", bad, patch); err != nil {
				t.Fatal(err)
			}
			if got := recall(t, s, "a", bad); len(got) != 1 || got[0].Content != text {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestBackupOfADamagedFile: a copy that could not be restored does not pass for a
// backup, and nothing of it stays.
// DECISIONS 15
func TestBackupOfADamagedFile(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	for i := range 300 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i, strings.Repeat(" filling", 100))})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(contents), "200 filling") / 16384 * 16384
	copy(contents[at:], strings.Repeat("\xff", 64)) // the header of one page of texts
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, sqlite.Options{Clock: fixed})
	dst := filepath.Join(filepath.Dir(path), "copy.db")
	if err := s.Backup(t.Context(), dst, nil); !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(err.Error(), "recalld restore") {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(dst + "*"); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWaitsEndWithTheProcess: a wait that was set by a clock that was ahead does
// not outlive the process.
func TestWaitsEndWithTheProcess(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: func() time.Time { return fixed().AddDate(1, 0, 0) }})
	m := model(t, s, 1)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "waits", Queue: []int64{m}})
	tasks, err := s.Claim(t.Context(), m, 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	if err := s.Fail(t.Context(), []int64{tasks[0].ID}, "nobody listens", fixed().AddDate(1, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if tasks, err := s.Claim(t.Context(), m, 1, time.Minute); err != nil || len(tasks) != 0 {
		t.Fatalf("it does not wait: %v, %v", tasks, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, sqlite.Options{Clock: fixed})
	if tasks, err := s.Claim(t.Context(), m, 1, time.Minute); err != nil || len(tasks) != 1 || tasks[0].Attempts != 1 {
		t.Errorf("%v, %v", tasks, err)
	}
}
