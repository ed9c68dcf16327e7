package scanner

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// However records are cut into segments, dead rows and a delta, and whatever
// happened to them since, an answer is what looking at every record gives.
//
// DECISIONS 1, 2, 3, 22, BR-033, BR-035, BR-037, BR-038, BR-044, BR-092
func TestAnyCutGivesTheSameAnswer(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, []int{64, 100, 256}[seed%3])
		for range w.r.IntN(4) {
			var records, gone []record
			for range 1 + w.r.IntN(40) {
				if rec := w.record(); w.r.IntN(6) == 0 {
					gone = append(gone, rec)
				} else {
					records = append(records, rec)
				}
			}
			w.addSegment(records, gone)
		}
		w.doPublish()
		for round := range 4 {
			for range 6 {
				w.check(w.request())
			}
			if t.Failed() {
				t.Fatalf("seed %d, round %d", seed, round)
			}
			apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: 11 + int64(round), Changes: w.someChanges(w.r.IntN(12))}
			for range 1 + w.r.IntN(2) { // a repetition changes nothing
				if _, err := w.server.Apply(t.Context(), apply); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// check compares an answer with that of the oracle.
func (w *world) check(r *scannerv1.ScanRequest) {
	w.t.Helper()
	reply, err := w.server.Scan(w.t.Context(), r)
	w.must(err)
	for i, q := range r.GetQueries() {
		want, scanned := w.nearest(r, q)
		if reply.GetRowsScanned() != scanned {
			w.t.Errorf("%d rows scanned, not %d: %s", reply.GetRowsScanned(), scanned, prototext.Format(r))
		}
		if got := reply.GetAnswers()[i]; !proto.Equal(got, want) {
			w.t.Errorf("for %s\ngot  %s\nwant %s", prototext.Format(r), prototext.Format(got), prototext.Format(want))
		}
	}
}

// Perfect matches in every neighbouring cell are neither found nor read, in
// files as in the delta.
//
// DECISIONS 1, 3, BR-092
func TestNeighboursAreNotRead(t *testing.T) {
	for _, delta := range []bool{false, true} {
		w := newWorld(t, 1, 64)
		needle := make([]byte, 8)
		far := []byte{255, 255, 255, 255, 255, 255, 255, 255}
		var records []record
		cell := layout.Cell{Agent: 5, Project: 50, Channel: 500}
		for i := range int64(1000) {
			records = append(records, record{cell, memory.Ref{Kind: memory.KindMemory, ID: 1 + i}, []block{{code: far}}})
		}
		for i, c := range []layout.Cell{{Agent: 4, Project: 50, Channel: 500}, {Agent: 6, Project: 50, Channel: 500}, {Agent: 5, Project: 49, Channel: 500},
			{Agent: 5, Project: 51, Channel: 500}, {Agent: 5, Project: 50, Channel: 499}, {Agent: 5, Project: 50, Channel: 501}} {
			for j := range int64(300) {
				records = append(records, record{c, memory.Ref{Kind: memory.KindMemory, ID: int64(i+2)*1000 + j}, []block{{code: needle}}})
			}
		}
		if delta {
			w.doPublish()
			apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: 11}
			for _, rec := range records {
				apply.Changes = append(apply.Changes, change(rec.cell, rec.ref, rec.blocks))
			}
			if _, err := w.server.Apply(t.Context(), apply); err != nil {
				t.Fatal(err)
			}
		} else {
			w.addSegment(records, nil)
			w.doPublish()
		}
		reply, err := w.server.Scan(t.Context(), &scannerv1.ScanRequest{Model: modelNumber, Queries: []*scannerv1.Query{{Code: needle, Rows: 5, Parents: 5}},
			Scope: &scannerv1.Scope{Agent: 5, Project: proto.Uint64(50), Channel: proto.Uint64(500)}})
		if err != nil {
			t.Fatal(err)
		}
		if reply.GetRowsScanned() != 1000 || reply.GetRowsRead() != 1000 {
			t.Errorf("delta %v: %d rows scanned, %d read", delta, reply.GetRowsScanned(), reply.GetRowsRead())
		}
		rows := reply.GetAnswers()[0].GetRows()
		if len(rows.GetIds()) != 5 || slices.Max(rows.GetIds()) > 5 || slices.Min(rows.GetDistances()) != 64 || slices.Max(rows.GetDistances()) != 64 {
			t.Errorf("delta %v: found %s", delta, prototext.Format(rows))
		}
	}
}

// A scope with more blocks than the caller wants compared is said to be over, and
// nothing is compared.
//
// BR-039
func TestMostIsNotExceeded(t *testing.T) {
	w := newWorld(t, 3, 64)
	rec := record{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 1}, []block{{code: w.code()}, {code: w.code()}, {}}}
	w.addSegment([]record{rec}, nil)
	w.doPublish()
	for most, over := range map[uint64]bool{0: false, 1: true, 2: false, 3: false} {
		reply, err := w.server.Scan(t.Context(), &scannerv1.ScanRequest{Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Most: most,
			Queries: []*scannerv1.Query{{Code: w.code(), Rows: 3}}})
		if err != nil || reply.GetOver() != over || over != (len(reply.GetAnswers()) == 0) {
			t.Errorf("most %d: %v, %v", most, reply, err)
		}
	}
}
