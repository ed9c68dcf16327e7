package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/memory"
)

// FidelityOptions of [Fidelity].
type FidelityOptions struct {
	Folder   string // of conversations and sentence pairs; "" takes the texts written for the project
	Rows     int    // blocks at most
	Queries  int    // at most
	Scan     int    // rows of the timed scans; 0 times nothing
	Repeat   int    // rounds of the timed scans, of which the best are taken
	Progress coordinator.Progress
	Clock    func() time.Time
}

// FidelityReport says how well short codes of a model's vectors stand for the
// vectors (BR-196, BR-197). Truth is the float vectors' cosine, ties in row order.
// Angles are degrees.
type FidelityReport struct {
	Model   string         `json:"model"`
	Dims    int            `json:"dims"`
	Rows    int            `json:"rows"`
	Read    int            `json:"rows_from_path"`
	Queries int            `json:"queries"`
	Sizes   []int          `json:"sizes"`
	Angles  FidelityAngles `json:"angles"`
	Codes   []FidelityCode `json:"codes"`
	Machine Machine        `json:"machine"`
}

// FidelityCode is one code. Guesses are the angles that it gives, by the classes
// and at the size of the report's Angles.
type FidelityCode struct {
	Name    string          `json:"name"`
	Bytes   int             `json:"bytes_per_row"`
	Depths  []FidelityDepth `json:"depths"`
	Guesses FidelityAngles  `json:"guesses"`
	Bins    []FidelityBin   `json:"bins"`
	Scan    *FidelityScan   `json:"scan,omitempty"`
}

// FidelityDepth is how far down the code's order one must read, at one size of
// corpus, for such a share of all true top tens, and the share above two depths.
type FidelityDepth struct {
	Rows   int     `json:"rows"`
	Keep90 int     `json:"depth_90"`
	Keep95 int     `json:"depth_95"`
	Keep99 int     `json:"depth_99"`
	At50   float64 `json:"kept_at_50"`
	At200  float64 `json:"kept_at_200"`
}

const (
	fidelitySeed = 1
	fidelityTop  = 10
	embedChunk   = 256
)

// fidelitySizes are the corpora, in rows; the last one is all rows.
func fidelitySizes(rows int) []int {
	sizes := []int{1_000, 3_000, 10_000, 30_000, 100_000}
	i, _ := slices.BinarySearch(sizes, rows)
	return append(sizes[:i], rows)
}

// fidelityWidths are the sign codes' bits: 256, 512, 1,024 and the dimensions.
func fidelityWidths(dims int) []int {
	widths := []int{256, 512, 1_024, dims}
	slices.Sort(widths)
	return slices.Compact(widths)
}

type namedCode struct {
	name string
	code code
}

func fidelityCodes(dims int) (all []namedCode) {
	for _, w := range fidelityWidths(dims) {
		if w <= dims {
			all = append(all, namedCode{fmt.Sprintf("signs %d", w), &signCode{width: w}})
		}
	}
	for _, w := range fidelityWidths(dims) {
		name := "rotated signs %d"
		if w > dims {
			name = "hyperplanes %d"
		}
		all = append(all, namedCode{fmt.Sprintf(name, w), &signCode{width: w, turned: true}})
	}
	for _, turned := range []bool{false, true} {
		for _, w := range []int{1, 2, 4} {
			name := fmt.Sprintf("%d bits of int8", w)
			if turned {
				name += ", rotated"
			}
			all = append(all, namedCode{name, &levelCode{width: w, turned: turned}})
		}
	}
	return append(all, namedCode{"int8", &byteCode{}})
}

// Fidelity embeds blocks and queries and compares codes of them with the vectors.
// Options that nothing can be measured with are a *[memory.FieldError].
func Fidelity(ctx context.Context, m embed.Model, o FidelityOptions) (*FidelityReport, error) {
	if err := errors.Join(atLeastOne("rows", o.Rows), atLeastOne("queries", o.Queries)); err != nil {
		return nil, err
	}
	texts, err := readFidelity(ctx, o.Folder, o.Rows, o.Queries)
	if err != nil {
		return nil, err
	}
	name, err := nameOf(ctx, m)
	if err != nil {
		return nil, err
	}
	total := int64(len(texts.Rows) + 2*len(texts.Queries))
	var at int64
	step := func(n int) {
		if at += int64(n); o.Progress != nil {
			o.Progress(at, total)
		}
	}
	rows, err := embedAll(ctx, m, embed.Document, texts.Rows, step)
	if err != nil {
		return nil, err
	}
	queries, err := embedAll(ctx, m, embed.Query, texts.Queries, step)
	if err != nil {
		return nil, err
	}
	if len(rows) <= fidelityTop || len(queries) == 0 {
		return nil, &memory.FieldError{Field: "rows", Problem: fmt.Sprintf("give %d vectors and %d queries", len(rows), len(queries)),
			Limit: fmt.Sprintf("more than %d, and at least one query", fidelityTop), Next: "raise it, or name a larger folder with --path"}
	}
	report, err := compareCodes(ctx, rows, queries, step)
	if err != nil {
		return nil, err
	}
	report.Model, report.Read = name, texts.Read
	return report, timeCodes(ctx, report, o)
}

// embedAll leaves out what the model cannot embed.
func embedAll(ctx context.Context, m embed.Model, p embed.Purpose, texts []string, step func(int)) (out [][]float32, err error) {
	for part := range slices.Chunk(texts, embedChunk) {
		vectors, err := m.Embed(ctx, p, part)
		if err != nil {
			return nil, err
		}
		for _, v := range vectors {
			if v != nil {
				out = append(out, v)
			}
		}
		step(len(part))
	}
	return out, nil
}
