package shards

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/memory"
	"recalld/scanner/client"
	"recalld/sqlite"
)

// BenchmarkSearchElsewhere compares searches of 100,000 records in one cell in
// this process with the same through the scanner, in turns: medians, and the
// ratio.
func BenchmarkSearchElsewhere(b *testing.B) {
	const records = 100_000
	w := &world{t: b, folder: b.TempDir()}
	sockets, err := os.MkdirTemp("", "rs")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(sockets) })
	c, err := client.New(client.Options{Command: []string{os.Args[0]}, Folder: filepath.Join(w.folder, "derived", "codes"), TruthID: "truth-1", Runtime: sockets, Stderr: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	p := &process{Client: c}
	w.opts = Options{Folder: filepath.Join(w.folder, "derived", "lexical"), Remote: p}
	w.openStore()
	w.open()
	b.Cleanup(w.close)
	r := rand.New(rand.NewPCG(1, 1))
	common := rand.NewZipf(r, 1.1, 8, 40_000)
	text := func(n int) string {
		words := make([]string, n)
		for i := range words {
			words[i] = fmt.Sprint("word", common.Uint64())
		}
		return strings.Join(words, " ")
	}
	w.flood(cellOf("mia"), records, func(i int) string { return fmt.Sprint(text(30), " number", i) })
	if err := w.index.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	view := w.view()
	defer view.Close()
	cells, err := view.Cells(memory.Scope{Agent: "mia"})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.index.follow(view); err != nil {
		b.Fatal(err)
	}
	for range 6_000 { // thirty seconds
		if w.index.State().Copied {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	var here, there []time.Duration
	answered := p.answers.Load()
	for b.Loop() {
		q := memoriesOf(text(8), 201)
		q.Patient = true
		for _, one := range []struct {
			into *[]time.Duration
			ask  func(context.Context, *sqlite.View, []sqlite.CellStats, WordQuery) (Answer, error)
		}{{&here, w.index.here}, {&there, w.index.Search}} {
			start := time.Now()
			if _, err := one.ask(b.Context(), view, cells, q); err != nil {
				b.Fatal(err)
			}
			*one.into = append(*one.into, time.Since(start))
		}
	}
	if got := int(p.answers.Load() - answered); got != len(there) {
		b.Fatalf("the scanner answered %d of %d searches", got, len(there))
	}
	middle := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(middle(here), "here-ms")
	b.ReportMetric(middle(there), "scanner-ms")
	b.ReportMetric(middle(there)/middle(here), "ratio")
}
