package platforms

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"recalld/coordinator"
	"recalld/coordinator/arm"
	"recalld/coordinator/fusion"
	"recalld/embed"
	"recalld/lexical"
	"recalld/memory"
)

const (
	agent = "engineer"
	depth = 50
)

var now = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// DECISIONS 6: the golden was written on amd64 and holds on every processor.
// After a change of scores on purpose, rewrite it with -rewrite.
func TestBitsAreTheSameEverywhere(t *testing.T) {
	c := load(t)
	datadriven.RunTest(t, "testdata/bits", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		switch d.Cmd {
		case "vectors":
			c.writeVectors(&b, backendOf(t, d))
		case "postings":
			fmt.Fprintf(&b, "%d bytes %s\n", len(c.postings), digest(c.postings))
		case "lexical":
			c.writeRankings(&b, strings.Split(d.Input, "\n"), c.lexicalHits)
		case "cosine":
			c.writeRankings(&b, strings.Split(d.Input, "\n"), c.nearest(backendOf(t, d)))
		case "match":
			c.writeRankings(&b, strings.Split(d.Input, "\n"), c.matching())
		case "fuse":
			c.writeRankings(&b, strings.Split(d.Input, "\n"), c.fused(d))
		case "prior":
			writePriors(&b)
		case "confidence":
			writeConfidences(&b)
		case "gate":
			writeGates(&b)
		case "threshold":
			c.writeThresholds(&b)
		case "recall":
			c.writeAnswers(&b, d)
		default:
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		return b.String()
	})
}

func backendOf(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var backend string
	d.ScanArgs(t, "backend", &backend)
	return backend
}

// exact is a float with all its bits.
func exact(x float64) string { return strconv.FormatFloat(x, 'x', -1, 64) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// corpus is one agent's part of the sample corpus, and what is made of it once.
type corpus struct {
	t         *testing.T
	items     []coordinator.StoreItem
	questions []string
	models    map[string]embed.Model
	postings  []byte
	index     *lexical.Index
}

func load(t *testing.T) *corpus {
	t.Helper()
	c := &corpus{t: t, models: make(map[string]embed.Model)}
	for _, item := range lines[coordinator.StoreItem](t, "corpus.jsonl") {
		if item.Agent == agent {
			c.items = append(c.items, item)
		}
	}
	for _, q := range lines[struct{ Agent, Question string }](t, "questions.jsonl") {
		if q.Agent == agent {
			c.questions = append(c.questions, q.Question)
		}
	}
	for _, backend := range []string{"static", "hash"} {
		model, err := embed.Open(embed.Config{Backend: backend})
		if err != nil {
			t.Fatal(err)
		}
		c.models[backend] = model
	}
	builder := lexical.NewBuilder()
	for i, item := range c.items {
		if item.Type == "profile" {
			continue
		}
		when, err := memory.ParseTime("time", cmp.Or(item.Time, item.Start))
		if err != nil {
			t.Fatal(err)
		}
		builder.Add(lexical.Doc{Cell: 1, Ref: refOf(i, item), Session: item.Source.ID, Time: when, Text: text(item)})
	}
	var err error
	if c.postings, err = builder.Seal(); err != nil {
		t.Fatal(err)
	}
	file, err := lexical.Open(c.postings)
	if err != nil {
		t.Fatal(err)
	}
	c.index = lexical.NewIndex(file)
	return c
}

func lines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "cmd", "recalld", "sample", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var one T
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// text is what an item is searched by.
func text(item coordinator.StoreItem) string { return cmp.Or(item.Summary, item.Content) }

// refOf numbers the items by their place in the file.
func refOf(i int, item coordinator.StoreItem) memory.Ref {
	kind := memory.KindMemory
	if item.Type == "episode" {
		kind = memory.KindEpisode
	}
	return memory.Ref{Kind: kind, ID: int64(i + 1)}
}

func (c *corpus) embed(backend string, purpose embed.Purpose, texts ...string) [][]float32 {
	c.t.Helper()
	vectors, err := c.models[backend].Embed(context.Background(), purpose, texts)
	if err != nil {
		c.t.Fatal(err)
	}
	return vectors
}

func (c *corpus) texts() []string {
	texts := make([]string, len(c.items))
	for i, item := range c.items {
		texts[i] = text(item)
	}
	return texts
}

func (c *corpus) writeVectors(b *strings.Builder, backend string) {
	var bits []byte
	vectors := c.embed(backend, embed.Document, c.texts()...)
	vectors = append(vectors, c.embed(backend, embed.Query, c.questions...)...)
	for _, v := range vectors {
		for _, x := range v {
			bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(x))
		}
	}
	fmt.Fprintf(b, "%d vectors of %d: %s\n", len(vectors), len(vectors[0]), digest(bits))
}

// writeRankings writes the best rows of each question, and one digest of the
// rankings of all questions of the corpus to their whole depth.
func (c *corpus) writeRankings(b *strings.Builder, questions []string, rank func(string) []memory.Candidate) {
	write := func(to *strings.Builder, rows []memory.Candidate) {
		for _, row := range rows {
			fmt.Fprintf(to, "  %s %s\n", row.Ref, exact(row.Key))
		}
	}
	for _, q := range questions {
		fmt.Fprintln(b, q)
		rows := rank(q)
		write(b, rows[:min(4, len(rows))])
	}
	var all strings.Builder
	count := 0
	for _, q := range c.questions {
		rows := rank(q)
		count += len(rows)
		write(&all, rows)
	}
	fmt.Fprintf(b, "%d questions, %d rows: %s\n", len(c.questions), count, digest([]byte(all.String())))
}

func (c *corpus) lexicalHits(question string) []memory.Candidate {
	c.t.Helper()
	found, err := c.index.Search(context.Background(), lexical.Query{Text: question, Cells: []lexical.Cell{1}, Kind: memory.KindMemory, K: depth})
	if err != nil {
		c.t.Fatal(err)
	}
	rows := make([]memory.Candidate, len(found.Hits))
	for i, h := range found.Hits {
		rows[i] = memory.Candidate{Ref: h.Ref, Key: h.Bits()}
	}
	return rows
}

// nearest ranks every item by its cosine to a question.
func (c *corpus) nearest(backend string) func(question string) []memory.Candidate {
	documents := c.embed(backend, embed.Document, c.texts()...)
	return func(question string) []memory.Candidate {
		query := c.embed(backend, embed.Query, question)[0]
		var rows []memory.Candidate
		for i, item := range c.items {
			if item.Type != "profile" {
				rows = append(rows, memory.Candidate{Ref: refOf(i, item), Key: float64(memory.Dot(query, documents[i]))})
			}
		}
		return best(rows)
	}
}

// fused merges words and vectors, with weights that are no powers of two.
func (c *corpus) fused(d *datadriven.TestData) func(question string) []memory.Candidate {
	var mode string
	d.ScanArgs(c.t, "mode", &mode)
	near := c.nearest(backendOf(c.t, d))
	return func(question string) []memory.Candidate {
		rows := fusion.Fuse(fusion.Mode(mode), fusion.DefaultK, []fusion.Ranking{
			{Arm: arm.VectorName, Weight: .3, Candidates: near(question)},
			{Arm: "lexical", Weight: .7, Candidates: c.lexicalHits(question)},
		})
		out := make([]memory.Candidate, len(rows))
		for i, r := range rows {
			out[i] = memory.Candidate{Ref: r.Ref, Key: r.Score}
		}
		return out
	}
}
