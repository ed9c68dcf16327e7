package coordinator

import (
	"context"
	"fmt"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// RR-420: a flush is one transaction, each record once in it, however many
// answers returned it; what is too much to wait is lost, never what waits.
func TestFlushIsOneTransaction(t *testing.T) {
	var writes [][]sqlite.Recalls
	r := &recalled{write: func(_ context.Context, all []sqlite.Recalls) error {
		writes = append(writes, all)
		return nil
	}}
	mem := func(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }
	r.add([]memory.Ref{mem(7), mem(3)}, 2_000)
	r.add([]memory.Ref{mem(7)}, 1_000)
	r.add(nil, 9_000)
	r.add([]memory.Ref{mem(3)}, 3_000)
	if err := r.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, w := range writes {
		for _, x := range w {
			got += fmt.Sprint(x.Ref, " ", x.Count, " times, last at ", x.Last.Milli, "; ")
		}
		got += "written\n"
	}
	if want := "mem:3 2 times, last at 3000; mem:7 2 times, last at 2000; written\n"; got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if err := r.flush(t.Context()); err != nil || len(writes) != 1 {
		t.Errorf("nothing waits, %d writes, %v", len(writes), err)
	}
	for id := range int64(maxWaiting + 5) {
		r.add([]memory.Ref{mem(id + 1), mem(1)}, 1)
	}
	if err := r.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := writes[len(writes)-1]; len(last) != maxWaiting || last[0].Count != maxWaiting+6 {
		t.Errorf("%d records, the first %d times", len(last), last[0].Count)
	}
}
