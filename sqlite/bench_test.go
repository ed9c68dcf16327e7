package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"recalld/memory"
	"recalld/sqlite"
)

// words make texts of about 200 bytes that look like what agents store.
func text(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		w := r.IntN(30_000)
		for i := 0; i < 3+w%5; i++ {
			b.WriteByte("etaoinshrdlucmfwypvbgkjqxz"[(w*(i+7)+w>>i)%26])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func unit(r *rand.Rand, dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = r.Float32() - 0.5
	}
	return v
}

// plainTable is what the machine gives: single-row inserts into a plain table,
// each one durable, in the same journal mode.
func plainTable(b testing.TB) (insert func(string)) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(b.TempDir(), "plain.db")+"?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE plain (id INTEGER PRIMARY KEY, content TEXT)"); err != nil {
		b.Fatal(err)
	}
	statement, err := db.Prepare("INSERT INTO plain (content) VALUES (?)")
	if err != nil {
		b.Fatal(err)
	}
	return func(text string) {
		if _, err := statement.Exec(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStore measures durable stores of 200-byte texts with a vector of 256
// components, one record per call, and their ratio to plain inserts. Blocks of
// both take turns, so that a disk that others use slows both.
func BenchmarkStore(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s, _ := openStore(b, sqlite.Options{})
			ctx := context.Background()
			model, err := s.PutModel(ctx, sqlite.Model{Backend: "static", Name: "m", Dims: 256, State: sqlite.ModelActive})
			if err != nil {
				b.Fatal(err)
			}
			insert := plainTable(b)
			const block = 64
			var plain, ours time.Duration
			r := rand.New(rand.NewPCG(1, 2))
			items := make([]sqlite.NewMemory, block)
			b.ResetTimer()
			for done := 0; done < b.N; done += block {
				for i := range items {
					items[i] = sqlite.NewMemory{
						Cell: cell("agent", "project", ""), Content: text(r, 200), Source: memory.Source{ID: "session"},
						Time: memory.Time{Milli: int64(done+i) * 1000, Known: true}, Vector: unit(r, 256), Model: model,
					}
				}
				began := time.Now()
				for i := range items {
					insert(items[i].Content)
				}
				plain += time.Since(began)
				began = time.Now()
				var wg sync.WaitGroup
				for c := range clients {
					wg.Go(func() {
						for i := c; i < block; i += clients {
							if _, err := s.StoreMemories(ctx, items[i:i+1]); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				ours += time.Since(began)
			}
			blocks := float64((b.N + block - 1) / block * block)
			b.ReportMetric(blocks/ours.Seconds(), "stores/s")
			b.ReportMetric(plain.Seconds()/ours.Seconds(), "×plain")
			b.ReportMetric(blocks/plain.Seconds(), "plain/s")
		})
	}
}

// filled returns a store with n records of 200 bytes and vectors, in one cell of
// each of two agents by turns.
func filled(b testing.TB, n, dims int) (s *sqlite.Store, path string, model int64) {
	s, path = openStore(b, sqlite.Options{})
	ctx := context.Background()
	model, err := s.PutModel(ctx, sqlite.Model{Backend: "static", Name: "m", Dims: dims, State: sqlite.ModelActive})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for done := 0; done < n; done += 1000 {
		items := make([]sqlite.NewMemory, min(1000, n-done))
		for i := range items {
			items[i] = sqlite.NewMemory{
				Cell: cell("agent", "project", ""), Content: text(r, 200), Source: memory.Source{ID: fmt.Sprint("session", (done+i)/50)},
				Time: memory.Time{Milli: int64(done+i) * 1000, Known: true}, Vector: unit(r, dims), Model: model,
			}
		}
		for _, x := range store(b, s, items...) {
			if x.Outcome != sqlite.OutcomeStored {
				b.Fatal(x)
			}
		}
	}
	return s, path, model
}

// BenchmarkRead measures, on 100,000 records, what each read costs: opening the
// file, streaming all vectors and all texts, a page of the newest, a full-text
// match and a substring that nothing has.
func BenchmarkRead(b *testing.B) {
	const n = 100_000
	s, path, model := filled(b, n, 256)
	ctx := context.Background()
	scope := memory.Scope{Agent: "agent"}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			again, err := sqlite.Open(ctx, path, sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := again.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	read := func(name string, f func(v *sqlite.View, cells []int64) error) {
		b.Run(name, func(b *testing.B) {
			v := view(b, s)
			defer v.Close()
			cells, err := v.Cells(scope)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := f(v, []int64{cells[0].ID}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	read("vectors", func(v *sqlite.View, cells []int64) error {
		count := 0
		err := v.Vectors(model, cells, func(memory.Ref, int64, []float32) error { count++; return nil })
		if count != n {
			b.Fatal(count)
		}
		return err
	})
	read("texts", func(v *sqlite.View, cells []int64) error {
		return v.Texts(cells, func(sqlite.Text) error { return nil })
	})
	read("newest", func(v *sqlite.View, _ []int64) error {
		_, err := v.List(scope, sqlite.Filter{Kind: memory.KindMemory, Limit: 50, NewestFirst: true})
		return err
	})
	read("match", func(v *sqlite.View, _ []int64) error {
		_, _, err := v.MatchFTS(scope, memory.KindMemory, sqlite.BuildFTSQuery("which word etaoin was hidden"), 200, "")
		return err
	})
	read("substring", func(v *sqlite.View, _ []int64) error {
		_, _, err := v.Substring(scope, "no text has this", 50, "")
		return err
	})
	refs := make([]memory.Ref, 200)
	for i := range refs {
		refs[i] = memory.Ref{Kind: memory.KindMemory, ID: int64(i*499 + 1)}
	}
	read("hydrate", func(v *sqlite.View, _ []int64) error {
		_, err := v.Hydrate(scope, refs)
		return err
	})
}
