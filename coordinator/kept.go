package coordinator

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"recalld/embed"
	"recalld/ingest"
	"recalld/memory"
	"recalld/sqlite"
)

// EmbedKept says that a vector that came along is used as it is.
const EmbedKept = ingest.EmbedKept

// BackendImport is the backend of models whose vectors came along with an import
// and that are not the configured one.
const BackendImport = "import"

// Of the vectors that came along, how many are compared with what the configured
// model makes of the same texts (DECISIONS 10).
const (
	sampleNamed   = 8 // once for every model that the importer names
	sampleUnnamed = 2 // of every batch without a name, which may hold several models
)

// keptVector is a vector that came along; values is nil for none.
type keptVector struct {
	label  string
	values []float32
}

// readKept checks what an item keeps.
func readKept(item StoreItem, above int64) (k sqlite.Kept, v keptVector, err error) {
	if item.Kept == nil {
		return k, v, nil
	}
	k.ID, k.Above, k.Recalls = item.Kept.ID, above, item.Kept.Recalls
	if k.ID < 0 || k.ID > sqlite.MaxKeptID {
		return k, v, &memory.FieldError{Field: "kept.id", Problem: fmt.Sprintf("is %d", k.ID), Limit: fmt.Sprintf("1 to %d", int64(sqlite.MaxKeptID)), Next: "leave it out"}
	}
	if k.Recalls < 0 {
		return k, v, &memory.FieldError{Field: "kept.recalls", Problem: fmt.Sprintf("is %d", k.Recalls), Limit: "0 or more", Next: "leave it out"}
	}
	for _, t := range []struct {
		field, text string
		into        *memory.Time
	}{{"kept.created", item.Kept.Created, &k.Created}, {"kept.updated", item.Kept.Updated, &k.Updated}, {"kept.recalled", item.Kept.Recalled, &k.Recalled}} {
		if *t.into, err = memory.ParseTime(t.field, t.text); err != nil {
			return k, v, err
		}
	}
	if err := memory.CheckText("kept.model", item.Kept.Model, memory.MaxName); err != nil {
		return k, v, err
	}
	v.label = item.Kept.Model
	v.values, err = readVector(item.Kept.Vector)
	return k, v, err
}

// maxDims bounds the dimension of a vector that comes along.
const maxDims = 65_536

// readVector reads the base64 of little-endian float32 and brings the vector to
// unit length. One without a direction is none: the text is embedded anew.
func readVector(text string) ([]float32, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw)%4 != 0 || len(raw) > 4*maxDims {
		return nil, &memory.FieldError{Field: "kept.vector", Problem: "is not a vector", Limit: fmt.Sprintf("the base64 of 1 to %d little-endian float32", maxDims), Next: "leave it out (import --vectors drop): the text is embedded then"}
	}
	values := make([]float32, len(raw)/4)
	square := 0.0
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		square += float64(float64(values[i]) * float64(values[i]))
	}
	length := math.Sqrt(square)
	switch {
	case math.IsNaN(length) || math.IsInf(length, 0) || length == 0:
		return nil, nil
	case math.Abs(length-1) <= 1e-4:
		return values, nil
	}
	for i := range values {
		values[i] = float32(float64(values[i]) / length)
	}
	return values, nil
}

// writeVector is the text that [readVector] reads.
func writeVector(values []float32) string {
	raw := make([]byte, 0, 4*len(values))
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// judged is what is known of vectors that came along under one name: the stored
// model that they belong to, and whether the configured model is that model.
type judged struct {
	model int64 // 0: they are of no use
	own   bool
}

// judgedKey is a name and a dimension beside the configured model as it was when
// they were compared with it.
type judgedKey struct {
	label  string
	dims   int
	writer int64
}

// group is the vectors of one batch that came along under one name.
type group struct {
	label string
	dims  int
	texts []int // which
}

// reuse finds, for every text that came with a vector, the model that it belongs
// to. In a dry run no model is registered.
func (m *models) reuse(ctx context.Context, texts []string, vectors []keptVector, dry bool) ([]judged, error) {
	m.importing.Lock()
	defer m.importing.Unlock()
	found := make([]judged, len(texts))
	for _, g := range groups(vectors) {
		j, err := m.judge(ctx, g, texts, vectors, dry)
		if err != nil {
			return nil, err
		}
		for _, i := range g.texts {
			found[i] = j
		}
	}
	return found, nil
}

// groups are the vectors by name and dimension, in the order in which these come.
func groups(vectors []keptVector) (all []group) {
	for i, v := range vectors {
		if v.values == nil {
			continue
		}
		at := slices.IndexFunc(all, func(g group) bool { return g.label == v.label && g.dims == len(v.values) })
		if at < 0 {
			at = len(all)
			all = append(all, group{label: v.label, dims: len(v.values)})
		}
		all[at].texts = append(all[at].texts, i)
	}
	return all
}

// judge compares a group with the configured model: with its dimension, and with
// the vectors that it makes of the group's shortest texts, which no window cuts.
func (m *models) judge(ctx context.Context, g group, texts []string, vectors []keptVector, dry bool) (judged, error) {
	k, err := m.identify(ctx, m.writer)
	var other *different
	switch {
	case errors.Is(err, embed.ErrNoModel), errors.As(err, &other):
		return m.foreign(ctx, g, errors.Is(err, embed.ErrNoModel), dry)
	case err != nil:
		return judged{}, cannotCompare(err)
	case k.identity.Dims != g.dims:
		return m.foreign(ctx, g, false, dry)
	}
	key := judgedKey{g.label, g.dims, k.id}
	if j, known := m.judged[key]; known {
		return j, nil
	}
	lowest, err := m.sample(ctx, g, texts, vectors)
	if err != nil {
		return judged{}, cannotCompare(err)
	}
	j := judged{model: k.id, own: true}
	if !(lowest >= embed.DifferentCosine) {
		if j, err = m.foreign(ctx, g, false, dry); err != nil {
			return j, err
		}
	}
	m.log.Info("vectors came along", "model", g.label, "dims", g.dims, "lowest_cosine", rounded(lowest), "used", j.own)
	if g.label != "" && !dry {
		if m.judged == nil {
			m.judged = map[judgedKey]judged{}
		}
		m.judged[key] = j
	}
	return j, nil
}

func cannotCompare(err error) error {
	return fmt.Errorf("the vectors that came along cannot be compared with the configured model's (start its server, or leave the vectors out: import --vectors drop): %w", err)
}

// sample is the lowest cosine between a vector that came along and the one that
// the configured model makes of its text.
func (m *models) sample(ctx context.Context, g group, texts []string, vectors []keptVector) (lowest float64, err error) {
	shortest := slices.Clone(g.texts)
	slices.SortStableFunc(shortest, func(a, b int) int { return cmp.Compare(len(texts[a]), len(texts[b])) })
	n := sampleNamed
	if g.label == "" {
		n = sampleUnnamed
	}
	shortest = shortest[:min(n, len(shortest))]
	asked := make([]string, len(shortest))
	for i, at := range shortest {
		asked[i] = texts[at]
	}
	model, _, _ := m.writer.now()
	fresh, err := model.Embed(ctx, embed.Document, asked)
	if err != nil {
		return 0, err
	}
	lowest = 1
	for i, at := range shortest {
		if len(fresh[i]) != g.dims {
			return 0, nil // the model has no vector for a text that came with one
		}
		lowest = min(lowest, float64(memory.Dot(fresh[i], vectors[at].values)))
	}
	return lowest, nil
}

// foreign is the stored model for vectors that are not the configured model's. It
// becomes the active one of a file that has none and no model configured: an
// operator who configures the right model says so with `recalld model accept`.
// Else its vectors are kept, and the texts are embedded beside.
func (m *models) foreign(ctx context.Context, g group, alone, dry bool) (judged, error) {
	name := g.label
	if name == "" {
		name = "unnamed"
	}
	stored, err := m.store.Models(ctx)
	if err != nil {
		return judged{}, err
	}
	state := sqlite.ModelKept
	if alone && !slices.ContainsFunc(stored, func(s sqlite.Model) bool { return s.State == sqlite.ModelActive }) {
		state = sqlite.ModelActive
	}
	for _, s := range stored {
		switch {
		case s.Backend != BackendImport || s.Name != name || s.Dims != g.dims:
		case s.State == sqlite.ModelRetired:
			return judged{}, nil // the operator gave its vectors up
		default:
			return judged{model: s.ID}, nil
		}
	}
	if dry {
		return judged{}, nil
	}
	id, err := m.store.PutModel(ctx, sqlite.Model{Backend: BackendImport, Name: name, Dims: g.dims, PromptPolicy: embed.PlainPolicy, State: state})
	if err != nil {
		return judged{}, err
	}
	m.log.Info("embedding model registered", "model", id, "backend", BackendImport, "name", name, "dims", g.dims)
	return judged{model: id}, nil
}
