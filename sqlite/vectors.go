package sqlite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"recalld/memory"
)

// maxID bounds record ids: a vector's key has 40 bits for them.
const maxID = 1<<40 - 1

// vectorKey orders vectors by model, kind and parent in one integer, so that
// their table is dense, grows at its end, and needs no second index.
func vectorKey(model int64, ref memory.Ref) int64 {
	return model<<41 | int64(ref.Kind-1)<<40 | ref.ID
}

// Vectors streams the vectors of one model over cells: cell by cell in the order
// given, episodes before memories, ids ascending. values is overwritten by the
// next row.
func (v *View) Vectors(model int64, cells []int64, each func(ref memory.Ref, cell int64, values []float32) error) error {
	var values []float32
	for _, cell := range cells {
		for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
			base := vectorKey(model, memory.Ref{Kind: kind})
			err := v.query(vectorsSQL(kind), []any{base, cell}, func(r row) error {
				values = decodeVector(values[:0], r.blob(1))
				return each(memory.Ref{Kind: kind, ID: r.int(0)}, cell, values)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func vectorsSQL(kind memory.Kind) string {
	if kind == memory.KindEpisode {
		return "SELECT r.id, x.value FROM episode r INDEXED BY episode_cell CROSS JOIN vector x ON x.key = ? + r.id WHERE r.cell = ? ORDER BY r.id"
	}
	return "SELECT r.id, x.value FROM memory r INDEXED BY memory_cell CROSS JOIN vector x ON x.key = ? + r.id WHERE r.cell = ? ORDER BY r.id"
}

// VectorsOf returns the vectors of records, by ref; those without one are
// absent. It does not check the scope: the caller holds refs that passed it.
func (v *View) VectorsOf(model int64, refs []memory.Ref) (map[memory.Ref][]float32, error) {
	found := make(map[memory.Ref][]float32, len(refs))
	if len(refs) == 0 {
		return found, nil
	}
	asked, keys := make(map[int64]memory.Ref, len(refs)), make([]int64, len(refs))
	for i, ref := range refs {
		keys[i] = vectorKey(model, ref)
		asked[keys[i]] = ref
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	err = v.query("SELECT key, value FROM vector WHERE key IN (SELECT value FROM json_each(?))", []any{string(list)}, func(r row) error {
		found[asked[r.int(0)]] = decodeVector(nil, r.blob(1))
		return nil
	})
	return found, err
}

// Vector is one vector with the text that it was made from.
type Vector struct {
	Ref      memory.Ref
	Model    int64
	Revision string // [memory.Revision] of the text
	Values   []float32
}

// PutVectors stores vectors and removes their queue entries in one transaction.
// A vector whose record is gone or has another text by now is not stored and
// its queue entry stays (BR-103); written tells which were stored.
func (s *Store) PutVectors(ctx context.Context, vectors []Vector) (written []bool, err error) {
	written = make([]bool, len(vectors))
	err = s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			clear(written)
			for i, x := range vectors {
				digest, err := digestOfRevision(x.Revision)
				if err != nil {
					return err
				}
				if err := t.checkVector(x.Model, x.Values); err != nil {
					return err
				}
				r, err := t.first(context.Background(), textUnchangedSQL(x.Ref.Kind), x.Ref.ID, digest)
				if err != nil {
					return err
				}
				if r == nil {
					continue
				}
				if err := t.putVector(x.Ref, x.Model, x.Values); err != nil {
					return err
				}
				if _, _, err := t.exec("DELETE FROM queue WHERE kind = ? AND parent = ? AND model = ?", int64(x.Ref.Kind), x.Ref.ID, x.Model); err != nil {
					return err
				}
				written[i] = true
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store vectors: %w", err)
	}
	return written, nil
}

func textUnchangedSQL(kind memory.Kind) string {
	if kind == memory.KindEpisode {
		return "SELECT 1 FROM episode WHERE id = ? AND digest = ?"
	}
	return "SELECT 1 FROM memory WHERE id = ? AND digest = ?"
}

func (t *tx) putVector(ref memory.Ref, model int64, values []float32) error {
	_, _, err := t.exec("INSERT INTO vector (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
		vectorKey(model, ref), encodeVector(values))
	return err
}

// checkVector refuses a vector of another width than its model's, or with a
// component that is not a number.
func (t *tx) checkVector(model int64, values []float32) error {
	dims, ok := t.w.dims[model]
	if !ok {
		r, err := t.first(context.Background(), "SELECT dims FROM model WHERE id = ?", model)
		if err != nil {
			return err
		}
		if r == nil {
			return &memory.FieldError{Field: "model", Problem: "is unknown", Next: "register the model first"}
		}
		dims = int(r.int(0))
		t.w.dims[model] = dims
	}
	if len(values) != dims {
		return &memory.FieldError{Field: "vector", Problem: fmt.Sprintf("has %d components", len(values)), Limit: fmt.Sprintf("%d, the model's", dims), Next: "embed the text with the model that is named"}
	}
	for _, x := range values {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return &memory.FieldError{Field: "vector", Problem: "has a component that is not a finite number", Next: "check the embedding server"}
		}
	}
	return nil
}

func encodeVector(values []float32) []byte {
	b := make([]byte, 4*len(values))
	for i, x := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
	return b
}

func decodeVector(into []float32, b []byte) []float32 {
	into = slices.Grow(into, len(b)/4)
	for ; len(b) >= 4; b = b[4:] {
		into = append(into, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return into
}
