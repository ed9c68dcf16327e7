package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"recalld/blocks"
	"recalld/memory"
)

// fidelityTexts are the different blocks and queries of a run, each in an order
// drawn from a seed, so that any beginning of them is a fair sample.
type fidelityTexts struct {
	Rows, Queries []string
	Read          int // rows from the folder; the others were written for the project
}

// readFidelity reads the folder and its subfolders, if there is one, and fills up
// with the reach slice to the number of rows.
func readFidelity(ctx context.Context, folder string, rows, queries int) (*fidelityTexts, error) {
	t := &fidelityTexts{}
	r := rand.New(rand.NewPCG(fidelitySeed, 0))
	seen := map[string]bool{}
	if folder != "" {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, missing("--path", "a folder of conversations or sentence pairs", fmt.Errorf("read texts: %w", err))
		}
		folders := []string{folder}
		for _, e := range entries {
			if e.IsDir() {
				folders = append(folders, filepath.Join(folder, e.Name()))
			}
		}
		for _, f := range folders {
			if err := t.readFolder(f, seen); err != nil {
				return nil, err
			}
		}
		if len(t.Rows) == 0 {
			return nil, &memory.FieldError{Field: "path", Problem: "holds neither turns.jsonl nor pairs.jsonl", Limit: "in it or in a folder of it",
				Next: "name a folder of conversations or sentence pairs, or leave it out"}
		}
		shuffle(r, t.Rows)
		t.Rows = t.Rows[:min(rows, len(t.Rows))]
	}
	t.Read = len(t.Rows)
	if len(t.Rows) < rows || len(t.Queries) < queries {
		if err := t.readReach(ctx, rows, seen); err != nil {
			return nil, err
		}
	}
	shuffle(r, t.Rows)
	shuffle(r, t.Queries)
	t.Queries = t.Queries[:min(queries, len(t.Queries))]
	return t, nil
}

func shuffle(r *rand.Rand, texts []string) {
	r.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
}

// add divides a record and keeps the blocks that are new.
func (t *fidelityTexts) add(record string, seen map[string]bool) error {
	all, err := blocks.Split(record, nil)
	if err != nil {
		return err
	}
	points := []rune(record)
	for _, b := range all {
		text := string(points[b.Start:b.End])
		if !seen[text] {
			seen[text] = true
			t.Rows = append(t.Rows, text)
		}
	}
	return nil
}

// readFolder takes turns and questions of conversations, and of sentence pairs
// the first as a record and the second as a query.
func (t *fidelityTexts) readFolder(folder string, seen map[string]bool) error {
	turns, err := readTurns(filepath.Join(folder, "turns.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, turn := range turns {
		if err := t.add(turn.Text, seen); err != nil {
			return fmt.Errorf("read texts: %s: turn %s: %w", folder, turn.DiaID, err)
		}
	}
	asked, err := readQuestions(filepath.Join(folder, "questions.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, q := range asked {
		t.Queries = append(t.Queries, q.Question)
	}
	pairs, err := readPairs(filepath.Join(folder, "pairs.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i, p := range pairs {
		if err := t.add(p.A, seen); err != nil {
			return fmt.Errorf("read texts: %s: pair %d: %w", folder, i+1, err)
		}
		t.Queries = append(t.Queries, p.B)
	}
	return nil
}

// readReach adds the blocks of the written records and of as many others as it
// takes, and the queries of both families.
func (t *fidelityTexts) readReach(ctx context.Context, rows int, seen map[string]bool) error {
	banks, err := readReachBanks()
	if err != nil {
		return err
	}
	var records []string
	for _, b := range banks {
		for _, c := range b.cases(reachSeed) {
			t.Queries = append(t.Queries, c.Queries.Copy, c.Queries.Paraphrase)
			records = append(records, c.Text)
		}
	}
	shuffle(rand.New(rand.NewPCG(fidelitySeed, 1)), records)
	for _, text := range records {
		if len(t.Rows) >= rows {
			break
		}
		if err := t.add(text, seen); err != nil {
			return err
		}
	}
	for seed := uint64(fidelitySeed); len(t.Rows) < rows; seed++ {
		before := len(t.Rows)
		for _, text := range distractors(banks, 1_000, seed) {
			if err := t.add(text, seen); err != nil {
				return err
			}
			if len(t.Rows) >= rows {
				break
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(t.Rows) == before {
			break // the slice is used up
		}
	}
	t.Rows = t.Rows[:min(rows, len(t.Rows))]
	return nil
}
