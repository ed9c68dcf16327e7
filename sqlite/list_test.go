package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// TestListPages: pages in either direction, over several cells, hold every
// record once and in order, whatever the size of a page.
func TestListPages(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	for i := range 50 {
		store(t, s, sqlite.NewMemory{
			Cell: cell([]string{"a", "b"}[i%7/6], fmt.Sprint("p", i%3), fmt.Sprint("c", i%5)), Content: fmt.Sprint(i),
			Source: memory.Source{ID: []string{"chat_1", "chat%1", "chatX1", "chat_12"}[i%4]},
		})
	}
	v := view(t, s)
	defer v.Close()
	scope := memory.Scope{Agent: "a"}
	for _, prefix := range []string{"", "chat_1", "chat%", "nothing"} {
		var want []int64
		for i := range int64(50) {
			id := []string{"chat_1", "chat%1", "chatX1", "chat_12"}[i%4]
			if i%7 < 6 && len(id) >= len(prefix) && id[:len(prefix)] == prefix {
				want = append(want, i+1)
			}
		}
		for _, newest := range []bool{false, true} {
			for _, size := range []int{1, 3, 7, 50, 100} {
				var got []int64
				for after := int64(0); ; {
					page, err := v.List(scope, sqlite.Filter{Kind: memory.KindMemory, After: after, Limit: size, NewestFirst: newest, SourceIDPrefix: prefix})
					if err != nil {
						t.Fatal(err)
					}
					refs, err := v.Refs(scope, sqlite.Filter{Kind: memory.KindMemory, After: after, Limit: size, NewestFirst: newest, SourceIDPrefix: prefix})
					if err != nil || len(refs) != len(page) {
						t.Fatalf("%d references of %d records, %v", len(refs), len(page), err)
					}
					for i, r := range page {
						if refs[i] != r.Ref {
							t.Fatalf("reference %s of record %s", refs[i], r.Ref)
						}
						if newest {
							got = append([]int64{r.Ref.ID}, got...)
						} else {
							got = append(got, r.Ref.ID)
						}
						after = r.Ref.ID
					}
					if len(page) < size {
						break
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("prefix %q, newest first %v, pages of %d: %v, want %v", prefix, newest, size, got, want)
				}
			}
		}
	}
	if page, err := v.List(scope, sqlite.Filter{Kind: memory.KindMemory}); err != nil || len(page) != 0 {
		t.Errorf("a page of none holds %v, %v", page, err)
	}
}

// TestRecent: the newest records of both kinds by storing time, cut after the
// merge.
// RR-403
func TestRecent(t *testing.T) {
	now := fixed()
	s, _ := openStore(t, sqlite.Options{Clock: func() time.Time { return now }})
	for i := range 4 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i)})
		if i%2 == 0 {
			now = now.Add(time.Second)
		}
		if _, err := s.StoreEpisodes(context.Background(), []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	v := view(t, s)
	defer v.Close()
	got := ""
	both := []memory.Kind{memory.KindMemory, memory.KindEpisode}
	records, err := v.Recent(memory.Scope{Agent: "a"}, both, 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		got += r.Ref.String() + " "
	}
	// Memory 4 and episodes 3 and 4 share a second, and so do memory 2 and 3 and episodes 1 and 2.
	if want := "ep:4 ep:3 mem:4 ep:2 ep:1 mem:3 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTextsKeepConversationsTogether: by source, then time, then id, undated ones
// first, episodes before memories.
// DECISIONS 17
func TestTextsKeepConversationsTogether(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	for i, x := range []struct {
		source string
		time   int64
	}{{"s2", 5}, {"s1", 9}, {"s1", 3}, {"", 7}, {"s1", 0}, {"s1", 3}} {
		m := sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint("text ", i), Source: memory.Source{ID: x.source}}
		if x.time > 0 {
			m.Time = memory.Time{Milli: x.time, Offset: 540, Known: true}
		}
		store(t, s, m)
	}
	store(t, s, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "another cell"})
	if _, err := s.StoreEpisodes(context.Background(), []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: "episode", Keywords: []string{"k1", "k2"}}}); err != nil {
		t.Fatal(err)
	}
	v := view(t, s)
	defer v.Close()
	got := ""
	err := v.Texts([]int64{2, 1}, func(x sqlite.Text) error {
		got += fmt.Sprintf("%s cell %d %q %q %q %v\n", x.Ref, x.Cell, x.Content, x.Keywords, x.SourceID, x.Time.String())
		return nil
	})
	want := `mem:7 cell 2 "another cell" "" ""` + " \n" +
		`ep:1 cell 1 "episode" "k1\nk2" ""` + " \n" +
		`mem:4 cell 1 "text 3" "" "" 1970-01-01T09:00:00.007+09:00
mem:5 cell 1 "text 4" "" "s1"` + " \n" +
		`mem:3 cell 1 "text 2" "" "s1" 1970-01-01T09:00:00.003+09:00
mem:6 cell 1 "text 5" "" "s1" 1970-01-01T09:00:00.003+09:00
mem:2 cell 1 "text 1" "" "s1" 1970-01-01T09:00:00.009+09:00
mem:1 cell 1 "text 0" "" "s2" 1970-01-01T09:00:00.005+09:00
`
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}
