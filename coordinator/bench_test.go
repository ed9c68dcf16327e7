package coordinator

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/embed"
	"recalld/memory"
)

// language draws words by rank as people use them: few often, most rarely.
type language struct {
	random *rand.Rand
	ranks  *rand.Zipf
}

func newLanguage(seed uint64) *language {
	r := rand.New(rand.NewPCG(seed, 7))
	return &language{random: r, ranks: rand.NewZipf(r, 1.1, 8, 20_000)}
}

// frequent are the words of the lowest ranks.
var frequent = strings.Fields("the and was for that with did you what when have are about went will how our they from not")

// sentence is a random text of n words.
func (l *language) sentence(n int) string {
	words := make([]string, n)
	for i := range words {
		rank := int(l.ranks.Uint64())
		if rank < len(frequent) {
			words[i] = frequent[rank]
			continue
		}
		w := rand.New(rand.NewPCG(uint64(rank), 11))
		for range 2 + w.IntN(3) {
			words[i] += string("bdfgklmnprstvz"[w.IntN(14)]) + string("aeiou"[w.IntN(5)])
		}
	}
	return strings.Join(words, " ")
}

// BenchmarkRecall6000 answers questions over 6,000 records in one project and
// reports the median without the embedding of the query and of that embedding,
// and how many times as long as scoring the same vectors in a bare loop it is.
func BenchmarkRecall6000(b *testing.B) {
	for _, arms := range [][]string{nil, {"vector"}, {"fts"}} {
		b.Run("arms="+strings.Join(arms, ","), func(b *testing.B) {
			s := open(b, nil)
			l := newLanguage(1)
			for range 60 {
				items := make([]StoreItem, 100)
				for i := range items {
					items[i] = StoreItem{Project: "atlas", Content: l.sentence(12 + l.random.IntN(30)), Time: start.Add(-time.Duration(l.random.IntN(1e6)) * time.Minute).Format(time.RFC3339)}
				}
				s.put("mia", items...)
			}
			model, err := embed.Open(embed.Config{})
			if err != nil {
				b.Fatal(err)
			}
			var whole, embedding, bare []time.Duration
			s.recall(RecallRequest{Agent: "mia", Project: pointer("atlas"), Query: "warm up the cache", Arms: arms})
			values, dims := matrixOf(s, "mia")
			if len(values) != 6_000*dims {
				b.Fatalf("%d numbers", len(values))
			}
			b.ResetTimer()
			for range b.N {
				query := l.sentence(9)
				t0 := time.Now()
				if _, err := model.Embed(context.Background(), embed.Query, []string{query}); err != nil {
					b.Fatal(err)
				}
				t1 := time.Now()
				s.recall(RecallRequest{Agent: "mia", Project: pointer("atlas"), Query: query, Arms: arms})
				embedding, whole = append(embedding, t1.Sub(t0)), append(whole, time.Since(t1)-t1.Sub(t0)) // the recall embeds it once more
				best, took := bareLoop(values, dims)
				if best < .99 {
					b.Fatalf("a vector is not its own nearest: %v", best)
				}
				bare = append(bare, took)
			}
			slices.Sort(whole)
			slices.Sort(embedding)
			slices.Sort(bare)
			b.ReportMetric(float64(whole[len(whole)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(whole[len(whole)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(embedding[len(embedding)/2].Microseconds())/1000, "embed-p50-ms")
			b.ReportMetric(float64(bare[len(bare)/2].Microseconds())/1000, "bare-ms")
			b.ReportMetric(float64(whole[len(whole)/2])/float64(bare[len(bare)/2]), "x-bare")
		})
	}
}

// matrixOf is every vector of the agent, one behind the other, as a bare loop
// likes them best.
func matrixOf(b *bench, agent string) (values []float32, dims int) {
	b.t.Helper()
	view, err := b.store.View(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	defer view.Close()
	active, ok, err := view.ActiveModel(agent)
	if err != nil || !ok {
		b.t.Fatal("no model", err)
	}
	cells, err := view.Cells(memory.Scope{Agent: agent})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, cell := range cells {
		err := view.Vectors(active.ID, []int64{cell.ID}, func(_ memory.Ref, _ int64, v []float32) error {
			values = append(values, v...)
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return values, active.Dims
}

// bareLoop scores every row of a matrix against its first and returns how long
// that took.
func bareLoop(values []float32, dims int) (best float32, took time.Duration) {
	begin := time.Now()
	for at := 0; at < len(values); at += dims {
		best = max(best, memory.Dot(values[:dims], values[at:at+dims]))
	}
	return best, time.Since(begin)
}
