package scanner

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// reason is what an error says of itself on the wire.
func reason(err error) *scannerv1.Problem {
	for _, d := range status.Convert(err).Details() {
		if p, ok := d.(*scannerv1.Problem); ok {
			return p
		}
	}
	return &scannerv1.Problem{}
}

// small is a world of one segment with a record of one block.
func small(t *testing.T) (*world, *scannerv1.ScanRequest) {
	w := newWorld(t, 5, 64)
	rec := record{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 1}, []block{{code: w.code(), values: w.vector()}}}
	w.addSegment([]record{rec}, nil)
	return w, &scannerv1.ScanRequest{Sequence: 10, Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1},
		Queries: []*scannerv1.Query{{Code: w.code(), Values: w.vector(), Rows: 3, Parents: 3}}}
}

// A flipped bit is an error that names the file, never an answer.
func TestDamageIsNoAnswer(t *testing.T) {
	for what, at := range map[string]int64{"codes": layout.HeaderBytes, "header": 200} {
		w, r := small(t)
		name := w.publish.GetSegments()[0].GetName()
		w.damage(name, at)
		_, err := w.server.Publish(t.Context(), w.publish)
		if what == "codes" {
			w.must(err)
			_, err = w.server.Scan(t.Context(), r)
		}
		if p := reason(err); p.GetReason() != scannerv1.Reason_REASON_FILE || p.GetFile() != name {
			t.Errorf("%s: %v", what, err)
		}
	}
	w, r := small(t)
	name := w.publish.GetValues()[0].GetName()
	w.damage(name, layout.HeaderBytes)
	w.doPublish()
	_, err := w.server.Scan(t.Context(), r)
	if p := reason(err); p.GetReason() != scannerv1.Reason_REASON_FILE || p.GetFile() != name {
		t.Errorf("values: %v", err)
	}
}

// A file that was cut after it was published is noticed before it is read.
func TestCutFileIsNoAnswer(t *testing.T) {
	w, r := small(t)
	w.doPublish()
	_, err := w.server.Scan(t.Context(), r) // so that nothing is left to verify
	w.must(err)
	name := w.publish.GetSegments()[0].GetName()
	path := filepath.Join(w.dir, name)
	w.must(os.Chmod(path, 0o600))
	w.must(os.Truncate(path, 0))
	_, err = w.server.Scan(t.Context(), r)
	if p := reason(err); p.GetReason() != scannerv1.Reason_REASON_FILE || p.GetFile() != name {
		t.Error(err)
	}
}

// ARCHITECTURE 6: a file that somebody wrote to after all of it was verified is no
// answer, and neither is it once a file with the same bytes as before, and so with
// the same name, was made in its place: that one is read.
func TestWrittenFileIsNoAnswer(t *testing.T) {
	w, r := small(t)
	w.doPublish()
	want, err := w.server.Scan(t.Context(), r)
	w.must(err)
	name := w.publish.GetSegments()[0].GetName()
	path := filepath.Join(w.dir, name)
	good, err := os.ReadFile(path)
	w.must(err)
	w.damage(name, layout.HeaderBytes)
	later := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) // clocks of file systems are coarse
	w.must(os.Chtimes(path, later, later))
	_, err = w.server.Scan(t.Context(), r)
	if p := reason(err); p.GetReason() != scannerv1.Reason_REASON_FILE || p.GetFile() != name {
		t.Errorf("written to: %v", err)
	}
	w.must(os.Remove(path))
	w.must(os.WriteFile(path, good, 0o400))
	w.publish.Generation++
	w.doPublish()
	got, err := w.server.Scan(t.Context(), r)
	w.must(err)
	if !proto.Equal(got.GetAnswers()[0], want.GetAnswers()[0]) {
		t.Errorf("in its place: %v, not %v", got, want)
	}
}

// Files of another store or model, and numbers that are not the file's, are
// refused; the generation before stands.
func TestForeignFilesAreRefused(t *testing.T) {
	w, r := small(t)
	w.doPublish()
	want, err := w.server.Scan(t.Context(), r)
	w.must(err)
	for what, spoil := range map[string]func(*scannerv1.PublishRequest){
		"identity": func(p *scannerv1.PublishRequest) { p.Models[0].Identity[0] ^= 1 },
		"width":    func(p *scannerv1.PublishRequest) { p.Models[0].Dims = 128 },
		"number":   func(p *scannerv1.PublishRequest) { p.Values[0].Number = 9 },
		"name":     func(p *scannerv1.PublishRequest) { p.Segments[0].Name = "../" + p.Segments[0].GetName() },
		"missing":  func(p *scannerv1.PublishRequest) { p.Segments[0].Name = "missing.bits" },
	} {
		p := proto.CloneOf(w.publish)
		p.Generation = 2
		spoil(p)
		if _, err := w.server.Publish(t.Context(), p); reason(err).GetReason() != scannerv1.Reason_REASON_FILE {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := w.server.Scan(t.Context(), r); err != nil || !proto.Equal(got, want) {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// What does not fit is refused by name, and changes nothing.
func TestBadRequestsAreRefused(t *testing.T) {
	w, r := small(t)
	w.doPublish()
	for what, spoil := range map[string]func(*scannerv1.ScanRequest){
		"model": func(r *scannerv1.ScanRequest) { r.Model = 9 }, "scope": func(r *scannerv1.ScanRequest) { r.Scope = nil },
		"no query": func(r *scannerv1.ScanRequest) { r.Queries = nil }, "code": func(r *scannerv1.ScanRequest) { r.Queries[0].Code = make([]byte, 9) },
		"values": func(r *scannerv1.ScanRequest) { r.Queries[0].Values = make([]byte, 9) }, "rows": func(r *scannerv1.ScanRequest) { r.Queries[0].Rows = maxWanted + 1 },
	} {
		bad := proto.CloneOf(r)
		spoil(bad)
		if _, err := w.server.Scan(t.Context(), bad); reason(err).GetReason() != scannerv1.Reason_REASON_INVALID {
			t.Errorf("scan, %s: %v", what, err)
		}
	}
	ref, cell := memory.Ref{Kind: memory.KindMemory, ID: 2}, layout.Cell{Agent: 1}
	low := w.vector()
	low[0] = 0x80
	good := change(cell, ref, []block{{code: w.code()}})
	for what, bad := range map[string]*scannerv1.Change{
		"kind": change(cell, memory.Ref{ID: 2}, nil), "id": change(cell, memory.Ref{Kind: memory.KindMemory}, nil),
		"code": change(cell, ref, []block{{code: []byte{1}}}), "values": change(cell, ref, []block{{values: []byte{1}}}), "-128": change(cell, ref, []block{{values: low}}),
	} {
		a := &scannerv1.ApplyRequest{Generation: 1, Sequence: 11, Changes: []*scannerv1.Change{good, bad}}
		if _, err := w.server.Apply(t.Context(), a); reason(err).GetReason() != scannerv1.Reason_REASON_INVALID {
			t.Errorf("apply, %s: %v", what, err)
		}
	}
	for what, a := range map[string]*scannerv1.ApplyRequest{"generation": {Generation: 2, Sequence: 11}, "sequence": {Generation: 1, Sequence: 9}} {
		if _, err := w.server.Apply(t.Context(), a); reason(err).GetReason() != scannerv1.Reason_REASON_INVALID {
			t.Errorf("apply, %s: %v", what, err)
		}
	}
	if stats, err := w.server.Stats(t.Context(), nil); err != nil || stats.GetDeltaRows() != 0 || stats.GetState().GetSequence() != 10 {
		t.Errorf("something was changed: %v, %v", stats, err)
	}
}

// A state that does not reach as far as was asked gives no answer.
//
// DECISIONS 4
func TestBehindIsNoAnswer(t *testing.T) {
	w, r := small(t)
	if _, err := w.server.Scan(t.Context(), r); reason(err).GetReason() != scannerv1.Reason_REASON_BEHIND {
		t.Errorf("before the first generation: %v", err)
	}
	w.doPublish()
	r.Sequence = 11
	if _, err := w.server.Scan(t.Context(), r); reason(err).GetReason() != scannerv1.Reason_REASON_BEHIND {
		t.Errorf("one change ahead: %v", err)
	}
}

// Scans that run beside new generations and changes see one state or another,
// whole; files that no generation has any more are let go.
func TestScansBesideChanges(t *testing.T) {
	w, r := small(t)
	w.doPublish()
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for range 200 {
				reply, err := w.server.Scan(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				// Each state has the first record, and the second from change 11 on.
				want := 1 + int(reply.GetState().GetSequence()-10)
				if n := len(reply.GetAnswers()[0].GetRows().GetIds()); n != want {
					t.Errorf("%d rows at change %d", n, reply.GetState().GetSequence())
				}
			}
		})
	}
	second := change(layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 2}, []block{{code: w.code()}})
	for generation := range uint64(60) {
		p := proto.CloneOf(w.publish)
		p.Generation = generation + 2
		_, err := w.server.Publish(t.Context(), p)
		w.must(err)
		_, err = w.server.Apply(t.Context(), &scannerv1.ApplyRequest{Generation: p.GetGeneration(), Sequence: 11, Changes: []*scannerv1.Change{second}})
		w.must(err)
	}
	wait.Wait()
	w.publish.Segments, w.publish.Values = nil, nil
	w.doPublish()
	w.server.tasks.Wait()
	if n := len(w.server.files); n != 0 {
		t.Errorf("%d files are open that nobody needs", n)
	}
}
