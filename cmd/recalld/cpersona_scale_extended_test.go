//go:build extended

package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/embed"
)

const (
	scaleRows   = 100_000 // records of the large file
	scaleAsked  = 50      // questions put to both
	scaleCount  = 10      // rows that an answer has
	scaleWindow = 10_000  // newest records that the package's vectors come from, unless told otherwise
)

// A large file of the package's own schema, no two texts alike: how long it takes
// until everything is searched, and how the top tens differ and why. The vectors are
// used as they came, and every question finds its record. Durations and counts of
// differences are logged, never asserted.
func TestCPersonaAtScale(t *testing.T) {
	url := embedServer(t)
	c := newCPersona(t, url)
	corpus := scaleCorpus(scaleRows)
	queries := scaleQueries(corpus, scaleAsked)
	fillCPersona(t, c.path, corpus)
	info, err := os.Stat(c.path)
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--data", filepath.Join(t.TempDir(), "data"), "--embed-backend", "embed", "--embed-url", url}
	began := time.Now()
	r := importReport(t, append(slices.Clone(flags), c.path)...)
	took := time.Since(began)
	if r.Stored != scaleRows || len(r.Vectors) != 1 || r.Vectors[0].Kept != scaleRows || r.IDs == nil || r.IDs.Kept != scaleRows {
		t.Fatalf("%+v, vectors %+v, numbers %+v", r, r.Vectors, r.IDs)
	}
	s := openScale(t, flags)
	first := s.ask(t, coordinator.RecallRequest{Query: queries[0].text})
	t.Logf("%d records, a file of %.1f MB: imported in %.1f s, the first answer, of all records, after %.1f s", scaleRows, float64(info.Size())/1e6, took.Seconds(), time.Since(began).Seconds())
	if !first.Coverage.Full || first.Coverage.Records != scaleRows || first.Coverage.Embedded != scaleRows {
		t.Errorf("coverage %+v", first.Coverage)
	}
	s.compare(t, c, queries)
}

// scaleService is the folder that the file was imported into, opened once.
type scaleService struct{ *session }

func openScale(t *testing.T, flags []string) scaleService {
	t.Helper()
	a := &app{in: strings.NewReader(""), out: io.Discard, errOut: io.Discard}
	if err := a.root().PersistentFlags().Parse(flags); err != nil {
		t.Fatal(err)
	}
	s, err := a.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return scaleService{s}
}

func (s scaleService) ask(t *testing.T, request coordinator.RecallRequest) *coordinator.RecallResponse {
	t.Helper()
	request.Agent, request.Count = "scale", scaleCount
	answer, err := s.Recall(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// fillCPersona writes the corpus with its vectors into the package's own tables.
func fillCPersona(t *testing.T, path string, corpus []scaleFacts) {
	t.Helper()
	model, err := embed.Open(embed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", path+"?_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	insert, err := tx.Prepare("INSERT INTO memories (agent_id, content, source, timestamp, created_at, embedding) VALUES ('scale', ?, ?, ?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; i < len(corpus); i += 1000 {
		batch := make([]string, min(1000, len(corpus)-i))
		for j := range batch {
			batch[j] = corpus[i+j].text()
		}
		vectors, err := model.Embed(context.Background(), embed.Document, batch)
		if err != nil {
			t.Fatal(err)
		}
		for j, text := range batch {
			blob := make([]byte, 0, 4*len(vectors[j]))
			for _, x := range vectors[j] {
				blob = binary.LittleEndian.AppendUint32(blob, math.Float32bits(x))
			}
			source := fmt.Sprintf(`{"type": "User", "id": "session-%d", "name": "Ken"}`, (i+j)/20)
			at := start.Add(time.Duration(i+j) * time.Minute)
			if _, err := insert.Exec(text, source, at.Format(time.RFC3339), at.Format(time.DateTime), blob); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
