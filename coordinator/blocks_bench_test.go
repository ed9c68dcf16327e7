package coordinator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkRecallBesideBackfill asks at a quarter of what one client can ask, while
// nothing else happens and while the blocks of the corpus are being built, and
// reports the ratio of the two 95th percentiles. Both take turns.
func BenchmarkRecallBesideBackfill(b *testing.B) {
	const records = 4_000
	ctx := context.Background()
	var alone, beside []time.Duration
	for b.Loop() {
		r := rand.New(rand.NewPCG(1, 2))
		c := open(b, map[string]string{"embedding.backend": "static"})
		building := func(on string) {
			if _, err := c.SetSetting(ctx, "blocks.build", on); err != nil {
				b.Fatal(err)
			}
		}
		building("false")
		for i := 0; i < records; i += 200 {
			items := make([]StoreItem, 200)
			for j := range items {
				items[j] = say(sentencesOf(r, 20))
			}
			c.put("mia", items...)
		}
		c.drain()
		ask := func() time.Duration {
			began := time.Now()
			c.recall(RecallRequest{Agent: "mia", Query: sentencesOf(r, 1)})
			return time.Since(began)
		}
		var bare time.Duration
		for range 50 {
			bare += ask()
		}
		phase := func(more func(n int) bool) (times []time.Duration) {
			for n := 0; more(n); n++ {
				took := ask()
				times = append(times, took)
				time.Sleep(max(0, 4*bare/50-took))
			}
			return times
		}
		alone = append(alone, phase(func(n int) bool { return n < 100 })...)
		building("true")
		c.worker.Wake()
		beside = append(beside, phase(func(int) bool { return c.blockState().Waiting > 0 })...)
		if state := c.blockState(); state.Records != records {
			b.Fatalf("%+v", state)
		}
		c.down()
	}
	p95 := func(times []time.Duration) float64 {
		slices.Sort(times)
		return times[len(times)*95/100].Seconds() * 1_000
	}
	b.ReportMetric(p95(beside)/p95(alone), "×alone")
	b.ReportMetric(p95(alone), "alone-p95-ms")
	b.ReportMetric(p95(beside), "beside-p95-ms")
	b.ReportMetric(float64(len(beside)), "recalls-beside")
}

func sentencesOf(r *rand.Rand, n int) string {
	words := strings.Fields("the a server moved to rack because nobody had time for backup of our staging database which keeps invoices from spring until autumn while Ken reads logs and Mei writes letters about garden tomatoes bread music trains weather")
	var text strings.Builder
	for range n {
		fmt.Fprintf(&text, "On day %d", r.IntN(900))
		for range 5 + r.IntN(10) {
			text.WriteString(" " + words[r.IntN(len(words))])
		}
		text.WriteString(". ")
	}
	return strings.TrimSpace(text.String())
}
