package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// whole opens a coordinator over a new file in a folder of its own.
func whole(t testing.TB) *coordinator.Coordinator {
	t.Helper()
	clock := func() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }
	store, err := sqlite.Open(t.Context(), filepath.Join(folder(t), "recall.db"), sqlite.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	model, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := coordinator.New(t.Context(), coordinator.Config{Store: store, Model: model, Clock: clock, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), store.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// filled has two agents' memories, episodes and a profile in three languages.
func filled(t testing.TB) (*coordinator.Coordinator, *Client) {
	t.Helper()
	service := whole(t)
	client := connected(t, service)
	texts := []string{
		"The float switch on pump P2 was jammed; Anna pushed it free.", "ポンプP2は九時十二分に停止した。", "水泵P2在九点十二分停了。",
		"Root cause: lime scale on the float arm, not the breaker.", "来週の会議は木曜の三時から。", "合同定在周五签。", "Prefers tea, never coffee. 😀",
	}
	for _, agent := range []string{"ann", "bob"} {
		request := coordinator.StoreRequest{Agent: agent}
		for i := range 60 {
			request.Items = append(request.Items, coordinator.StoreItem{
				Content: fmt.Sprintf("%s #%d of %s", texts[i%len(texts)], i, agent),
				Project: []string{"", "plant", "home"}[i%3], Channel: []string{"", "chat"}[i%2],
				MessageID: fmt.Sprintf("m%d", i), Time: fmt.Sprintf("2026-10-%02dT09:00:00+09:00", 1+i%28),
				Source: memory.Source{Type: "chat", ID: fmt.Sprintf("s%d", i/10), Name: "Anna"}, Metadata: json.RawMessage(`{"z":1.50,"a":"値"}`),
			})
		}
		request.Items = append(request.Items,
			coordinator.StoreItem{Type: "episode", Summary: "Pump P2 was repaired. ポンプを直した。", Keywords: []string{"pump", "水泵"}, Start: "2026-10-01T08:00:00Z", End: "2026-10-01T12:00:00Z", Resolved: true},
			coordinator.StoreItem{Type: "profile", UserID: "u", Content: "An engineer. 技術者。"},
			coordinator.StoreItem{Content: strings.Repeat("A long report about pump P2. ", 100)},
		)
		response, err := client.Store(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range response.Results {
			if r.Outcome != "stored" {
				t.Fatalf("item %d: %+v", i, r)
			}
		}
	}
	if err := service.Drain(t.Context()); err != nil { // blocks that wait are counted in answers
		t.Fatal(err)
	}
	return service, client
}

// both asks the service and the client the same and demands the same JSON
// bytes, or the same error.
func both[A any](t *testing.T, what string, direct, remote coordinator.Service, ask func(coordinator.Service) (A, error)) A {
	t.Helper()
	want, wantErr := ask(direct)
	got, gotErr := ask(remote)
	sameError(t, what, wantErr, gotErr)
	wantJSON, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	gotJSON, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if wantErr == nil && string(wantJSON) != string(gotJSON) {
		t.Errorf("%s\nin process %s\nby socket  %s", what, wantJSON, gotJSON)
	}
	return want
}

func sameError(t *testing.T, what string, want, got error) {
	t.Helper()
	if (want == nil) != (got == nil) || want != nil && want.Error() != got.Error() {
		t.Errorf("%s\nin process: %v\nby socket:  %v", what, want, got)
	}
	for _, k := range kinds() {
		if errors.Is(want, k.err) != errors.Is(got, k.err) {
			t.Errorf("%s: %v is %s in process: %v, by socket: %v", what, want, k.name, errors.Is(want, k.err), errors.Is(got, k.err))
		}
	}
	var a, b *memory.FieldError
	if errors.As(want, &a) != errors.As(got, &b) || a != nil && *a != *b {
		t.Errorf("%s: field %+v in process, %+v by socket", what, a, b)
	}
}

// DECISIONS 5: an answer has the same bytes whichever way it came.
func TestAnswersAreTheSameInProcessAndBySocket(t *testing.T) {
	direct, remote := filled(t)
	plant, pool, chat, user := "plant", "", "chat", "u"
	long := strings.Repeat("p", 100_000)
	found := 0
	for i, query := range []string{"why did pump P2 stop?", "ポンプ", "", "水泵", "会議", "?", "\"AND OR NEAR(", "😀", long} {
		requests := []coordinator.RecallRequest{
			{}, {Project: &plant}, {Project: &pool}, {Channel: &chat}, {Project: &plant, Channel: &chat, UserID: &user},
			{Count: 3, Order: coordinator.BestLast}, {FullContent: true, Explain: true}, {Deep: true, SourceID: "s1"},
			{Exclude: []string{"The float switch"}}, {Fusion: "rrf", Gate: "off"}, {Arms: []string{"vector"}},
		}
		if i > 2 {
			requests = requests[:1]
		}
		for _, request := range requests {
			request.Agent, request.Query = "ann", query
			response := both(t, fmt.Sprintf("recall %.60s %+v", query, request), direct, remote, func(s coordinator.Service) (*coordinator.RecallResponse, error) {
				return s.Recall(t.Context(), request)
			})
			if response != nil {
				found += len(response.Rows)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d rows were compared", found)
	}
	both(t, "contents", direct, remote, func(s coordinator.Service) (*coordinator.ContentsResponse, error) {
		return s.GetContents(t.Context(), coordinator.ContentsRequest{Agent: "ann", Refs: []string{"mem:61", "mem:1#chars=4-9", "ep:1", "mem:99999", "nonsense", "mem:1#chars=4-9&rev=00"}})
	})
	for _, request := range []coordinator.ListRequest{{}, {Type: "episode"}, {Project: &plant, Limit: 5}, {SourceID: "s2"}} {
		request.Agent = "ann"
		both(t, "list", direct, remote, func(s coordinator.Service) (*coordinator.ListResponse, error) {
			return s.List(t.Context(), request)
		})
	}
	both(t, "profiles", direct, remote, func(s coordinator.Service) ([]memory.Profile, error) { return s.Profiles(t.Context(), "ann", nil) })
	if none, err := remote.Profiles(t.Context(), "ann", &pool); err != nil || none == nil || len(none) != 0 {
		t.Errorf("nobody's profiles are %#v, %v, want an empty list", none, err)
	}
	both(t, "settings", direct, remote, func(s coordinator.Service) ([]coordinator.Setting, error) { return s.Settings(t.Context()) })
	both(t, "models", direct, remote, func(s coordinator.Service) ([]coordinator.ModelState, error) { return s.Models(t.Context()) })
	both(t, "status", direct, remote, func(s coordinator.Service) (*coordinator.Status, error) { return s.Status(t.Context()) })
	both(t, "doctor", direct, remote, func(s coordinator.Service) (*coordinator.DoctorResponse, error) {
		return s.Doctor(t.Context(), coordinator.DoctorRequest{})
	})
	both(t, "calibrate", direct, remote, func(s coordinator.Service) (*coordinator.CalibrateResponse, error) {
		return s.Calibrate(t.Context(), coordinator.CalibrateRequest{Agent: "ann", DryRun: true})
	})
	both(t, "export", direct, remote, func(s coordinator.Service) (lines []string, err error) {
		err = s.Export(t.Context(), coordinator.ExportRequest{Agent: "ann"}, func(line json.RawMessage) error {
			lines = append(lines, string(line))
			return nil
		})
		return lines, err
	})
}

// A refusal is the same refusal, whichever way it came.
func TestRefusalsAreTheSameInProcessAndBySocket(t *testing.T) {
	direct, remote := filled(t)
	bad := "a\x00b"
	for _, request := range []coordinator.RecallRequest{
		{}, {Agent: bad}, {Agent: " ann"}, {Agent: "an\u202en"}, {Agent: strings.Repeat("a", 201)}, {Agent: "ann", Project: &bad},
		{Agent: "ann", Query: bad}, {Agent: "ann", Query: "caf\xe9"}, {Agent: "\xff"}, {Agent: "ann", Query: strings.Repeat("q", 200_001)}, {Agent: "ann", Count: -1}, {Agent: "ann", Count: 1 << 40},
		{Agent: "ann", Arms: []string{"psychic"}}, {Agent: "ann", Fusion: "x"}, {Agent: "ann", Gate: "x"}, {Agent: "ann", Order: "x"},
		{Agent: "ann", Exclude: make([]string, 201)},
	} {
		both(t, fmt.Sprintf("recall %.80v", request), direct, remote, func(s coordinator.Service) (*coordinator.RecallResponse, error) {
			response, err := s.Recall(t.Context(), request)
			if err == nil {
				t.Errorf("%.80v was not refused", request)
			}
			return response, err
		})
	}
	text := "new"
	for _, request := range []coordinator.UpdateRequest{
		{Agent: "ann", Ref: "mem:99999", Content: &text}, {Agent: "bob", Ref: "mem:1", Content: &text}, {Agent: "ann", Ref: "x"}, {Agent: "ann", Ref: "mem:1"},
		{Agent: "ann", Ref: "mem:1", Keywords: []string{}}, {Agent: "ann", Ref: "mem:1", Metadata: json.RawMessage(`[]`)},
	} {
		both(t, fmt.Sprintf("update %+v", request), direct, remote, func(s coordinator.Service) (*coordinator.Row, error) {
			row, err := s.Update(t.Context(), request)
			if err == nil {
				t.Errorf("%+v was not refused", request)
			}
			return row, err
		})
	}
	if response, err := remote.Lock(t.Context(), coordinator.LockRequest{Agent: "ann", Refs: []string{"mem:1"}, Locked: true}); err != nil || !reflect.DeepEqual(response.Done, []string{"mem:1"}) {
		t.Fatalf("lock: %+v, %v", response, err)
	}
	locked := coordinator.UpdateRequest{Agent: "ann", Ref: "mem:1", Content: &text}
	if _, err := remote.Update(t.Context(), locked); !errors.Is(err, memory.ErrLocked) {
		t.Errorf("update of a locked record: %v", err)
	}
	both(t, "update locked", direct, remote, func(s coordinator.Service) (*coordinator.Row, error) { return s.Update(t.Context(), locked) })
	both(t, "setting", direct, remote, func(s coordinator.Service) (coordinator.Setting, error) {
		return s.SetSetting(t.Context(), "no.such", "1")
	})
	both(t, "delete nothing", direct, remote, func(s coordinator.Service) (*coordinator.DeleteResponse, error) {
		return s.Delete(t.Context(), coordinator.DeleteRequest{Agent: "ann"})
	})
	both(t, "store nothing", direct, remote, func(s coordinator.Service) (coordinator.StoreResponse, error) {
		return s.Store(t.Context(), coordinator.StoreRequest{Agent: "ann"})
	})
	both(t, "store what cannot travel", direct, remote, func(s coordinator.Service) (coordinator.StoreResponse, error) {
		return s.Store(t.Context(), coordinator.StoreRequest{Agent: "ann", Items: []coordinator.StoreItem{{Content: "caf\xe9"}}})
	})
	if response, err := remote.Store(t.Context(), coordinator.StoreRequest{Agent: "ann", Items: []coordinator.StoreItem{{Content: "good"}}}); err != nil || response.Results[0].Outcome != "stored" {
		t.Errorf("store: %+v, %v", response, err)
	}
	both(t, "store bad items", direct, remote, func(s coordinator.Service) (coordinator.StoreResponse, error) {
		return s.Store(t.Context(), coordinator.StoreRequest{Agent: "ann", Items: []coordinator.StoreItem{{}, {Content: bad}, {Content: "x", Time: "0000-01-01"}, {Content: "x", Metadata: json.RawMessage(`7`)}, {Type: "dream", Content: "x"}, {Content: "caf\xe9"}, {Content: "good"}, {Content: "x", Source: memory.Source{Name: "\xff"}}}})
	})
	nowhere := filepath.Join(folder(t), "gone", "copy.db")
	both(t, "refused backup", direct, remote, func(s coordinator.Service) (bool, error) {
		return true, s.Backup(t.Context(), nowhere, nil)
	})
}

// Sixteen clients store and recall at once: nothing that was acknowledged is
// missing, and nobody sees another agent's row.
func TestManyClientsLoseNothing(t *testing.T) {
	service := whole(t)
	socket := start(t, service)
	const clients, each = 16, 25
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			client := NewClient(socket)
			defer client.Close()
			agent := fmt.Sprintf("agent-%d", c)
			for i := range each {
				response, err := client.Store(t.Context(), coordinator.StoreRequest{Agent: agent, Items: []coordinator.StoreItem{{Content: fmt.Sprintf("note %d of %s", i, agent)}}})
				if err != nil || len(response.Results) != 1 || response.Results[0].Outcome != "stored" {
					t.Errorf("%s: %+v, %v", agent, response, err)
					return
				}
				recalled, err := client.Recall(t.Context(), coordinator.RecallRequest{Agent: agent, Query: "note", Gate: "off"})
				if err != nil {
					t.Errorf("%s: %v", agent, err)
					return
				}
				for _, row := range recalled.Rows {
					if !strings.HasSuffix(row.Content, " of "+agent) {
						t.Errorf("%s saw %q", agent, row.Content)
					}
				}
			}
			page, err := client.List(t.Context(), coordinator.ListRequest{Agent: agent})
			if err != nil || len(page.Rows) != each {
				t.Errorf("%s has %d of %d rows: %v", agent, len(page.Rows), each, err)
			}
		})
	}
	running.Wait()
}

// A backup and a compaction over the socket do what they do in process.
func TestBackupBySocket(t *testing.T) {
	_, remote := filled(t)
	copied := filepath.Join(folder(t), "copy.db")
	var last [2]int64
	if err := remote.Backup(t.Context(), copied, func(done, total int64) { last = [2]int64{done, total} }); err != nil {
		t.Fatal(err)
	}
	if last[0] == 0 || last[0] != last[1] {
		t.Errorf("progress ended at %d of %d", last[0], last[1])
	}
	store, err := sqlite.Open(context.Background(), copied, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := remote.Vacuum(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
