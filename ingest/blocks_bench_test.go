package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"recalld/blocks"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// BenchmarkBackfill builds the blocks of records of twenty sentences with the
// static model, and reports the rate beside that of splitting and embedding the
// same texts without a store in the same run. The rate per second of processor time
// is what one core that nobody else uses gives.
func BenchmarkBackfill(b *testing.B) {
	const records = 2_000
	ctx := context.Background()
	model, err := embed.Open(embed.Config{Backend: "static"})
	if err != nil {
		b.Fatal(err)
	}
	identity, err := model.Identity(ctx)
	if err != nil {
		b.Fatal(err)
	}
	texts := proseOf(records, 20)
	found := 0
	var whole, bare, cpu time.Duration
	for b.Loop() {
		store, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "recall.db"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		id, err := store.PutModel(ctx, sqlite.Model{Backend: "static", Name: identity.Name, Dims: identity.Dims, Probes: identity.Probes, State: sqlite.ModelActive})
		if err != nil {
			b.Fatal(err)
		}
		for i := 0; i < records; i += 250 {
			items := make([]sqlite.NewMemory, 250)
			for j := range items {
				items[j] = sqlite.NewMemory{Cell: memory.Cell{Agent: "mia"}, Content: texts[i+j]}
			}
			if _, err := store.StoreMemories(ctx, items); err != nil {
				b.Fatal(err)
			}
		}
		worker := NewQueueWorker(QueueOptions{Queue: embedded{store}, Blocks: store, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
			Model: func(context.Context) (embed.Model, int64, error) { return model, id, nil }})
		began, used := time.Now(), processorTime(b)
		if err := worker.Drain(ctx); err != nil {
			b.Fatal(err)
		}
		whole, cpu = whole+time.Since(began), cpu+processorTime(b)-used
		p, err := store.BlockProgress(ctx, id)
		if err != nil || p.Sets != records || p.Waiting != 0 {
			b.Fatal(p, err)
		}
		found = int(p.Blocks)
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		for _, text := range texts {
			all, err := blocks.Split(text, nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := model.Embed(ctx, embed.Document, textsOf(text, all)); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(began)
	}
	b.ReportMetric(float64(records*b.N)/whole.Seconds(), "records/s")
	b.ReportMetric(float64(records*b.N)/cpu.Seconds(), "records/cpu-s")
	b.ReportMetric(float64(found)/records, "blocks/record")
	b.ReportMetric(bare.Seconds()/whole.Seconds(), "×bare")
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// proseOf makes records of n sentences of five to fourteen words.
func proseOf(records, n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the a server moved to rack because nobody had time for backup of our staging database which keeps invoices from spring until autumn while Ken reads logs and Mei writes letters about garden tomatoes bread music trains weather")
	texts := make([]string, records)
	for i := range texts {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "On day %d", r.IntN(900))
			for range 5 + r.IntN(10) {
				b.WriteString(" " + words[r.IntN(len(words))])
			}
			b.WriteString(". ")
		}
		texts[i] = strings.TrimSpace(b.String())
	}
	return texts
}
