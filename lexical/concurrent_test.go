package lexical

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
)

// TestSearchesSeeWholeChanges searches while rows come and go and files are
// merged. Each change replaces a pair of rows at once, so that a search that saw
// half a change would find one row of a pair alone.
//
// ARCHITECTURE 5: a search sees one state.
func TestSearchesSeeWholeChanges(t *testing.T) {
	pair := func(n int) []Doc {
		text := fmt.Sprintf("kettle number%dx", n)
		return []Doc{{Cell: 1, Ref: mem(1), Session: "s", Text: text}, {Cell: 1, Ref: mem(2), Session: "s", Text: text}}
	}
	others := corpus(6, 300, 1)
	for i := range others {
		others[i].Ref.ID += 10
	}
	x := NewIndex(seal(t, append(others, pair(0)...)...))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				res, err := x.Search(context.Background(), Query{Text: "kettle", Cells: []Cell{1}, Kind: 2, K: 3})
				if err != nil || len(res.Hits) != 2 || res.Hits[0].Score != res.Hits[1].Score || res.Rows != 302 {
					t.Errorf("%+v, %v", res, err)
					return
				}
			}
		})
	}
	for n := 1; n <= 200; n++ {
		if err := x.Put(pair(n)...); err != nil {
			t.Fatal(err)
		}
		if n%20 == 0 {
			files := x.files
			coded, err := x.Merge(files, true)
			if err != nil {
				t.Fatal(err)
			}
			f, err := Open(coded)
			if err != nil {
				t.Fatal(err)
			}
			if err := x.Replace(files, true, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	readers.Wait()
	q := Query{Text: "kettle number200x", Cells: []Cell{1}, Kind: 2, K: 10, Explain: true}
	want, err := Scan(context.Background(), each(append(others, pair(200)...)), q)
	if err != nil {
		t.Fatal(err)
	}
	got := mustSearch(t, x, q)
	want.PostingsTouched = got.PostingsTouched
	if !reflect.DeepEqual(got, want) {
		t.Errorf("afterwards %+v, want %+v", got, want)
	}
	if rows, deleted := x.Recent(); rows != 0 || deleted != 0 {
		t.Errorf("%d recent rows and %d deleted ones after the last merge", rows, deleted)
	}
}
