package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"recalld/blocks"
	"recalld/coordinator"
	"recalld/ingest"
	"recalld/memory"
)

// SplitReport is the distribution of blocks over the records of one input, beside
// the figures of the reference's deployment (BR-157 to BR-159). Lengths are code
// points. Every division was checked (BR-023, BR-160).
type SplitReport struct {
	Format   string        `json:"format"`
	Policy   int           `json:"policy"`
	Families []SplitFamily `json:"families"`
	Ledger   SplitFamily   `json:"ledger"`
	Machine  Machine       `json:"machine"`
}

// SplitFamily is one way to make records of the input: as they are, or the records
// of one source joined by line breaks. MBPerS is the splitter's rate over all of
// them, one core; Bare that of a read loop over the same bytes in the same run.
type SplitFamily struct {
	Name      string      `json:"name"`
	Records   int         `json:"records"`
	Bytes     int64       `json:"bytes,omitempty"`
	Points    int64       `json:"code_points,omitempty"`
	Blocks    int         `json:"blocks"`
	PerRecord SplitSpread `json:"blocks_per_record"`
	Length    SplitSpread `json:"length"`
	Forced    int         `json:"forced"`
	Share     float64     `json:"forced_share"`
	MBPerS    float64     `json:"mb_per_s,omitempty"`
	Bare      float64     `json:"bare_mb_per_s,omitempty"`
}

// SplitSpread describes a distribution of whole numbers; 0 is also not given.
type SplitSpread struct {
	Mean   float64 `json:"mean,omitempty"`
	Median int     `json:"median,omitempty"`
	P90    int     `json:"p90,omitempty"`
	P99    int     `json:"p99,omitempty"`
	Max    int     `json:"max,omitempty"`
}

// SplitOptions of [Split].
type SplitOptions struct {
	Format string // of the input, one of [ingest.Formats]
	Path   string
	// Progress counts the code points that are divided; may be nil.
	Progress coordinator.Progress
	Clock    func() time.Time
}

// ledgerSplit are the reference's figures.
func ledgerSplit() SplitFamily {
	return SplitFamily{
		Name: "reference deployment (BR-157 to BR-159)", Records: 5_387, Blocks: 107_428,
		PerRecord: SplitSpread{Mean: 19.9, Median: 13},
		Length:    SplitSpread{Median: 45, P90: 133, P99: 285, Max: blocks.MaxLen},
		Forced:    42, Share: .0004,
	}
}

// Split divides every record of an input and checks each division. The first one
// that is not a cover is the error; it names the record by its number from 1.
func Split(ctx context.Context, o SplitOptions) (*SplitReport, error) {
	records, joined, err := readRecords(ctx, o.Format, o.Path)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, &memory.FieldError{Field: "path", Problem: "holds no record with text", Next: "name an input that --format fits"}
	}
	families := []struct {
		name  string
		texts []string
	}{{"records", records}}
	if len(joined) < len(records) {
		families = append(families, struct {
			name  string
			texts []string
		}{"records of one source joined", joined})
	}
	report := &SplitReport{Format: o.Format, Policy: blocks.PolicyVersion, Ledger: ledgerSplit()}
	for _, f := range families {
		family, err := splitFamily(ctx, f.name, f.texts, o)
		if err != nil {
			return nil, err
		}
		report.Families = append(report.Families, family)
	}
	return report, nil
}

func splitFamily(ctx context.Context, name string, texts []string, o SplitOptions) (SplitFamily, error) {
	f := SplitFamily{Name: name, Records: len(texts)}
	var lengths, perRecord []int
	start := o.Clock()
	all := make([][]blocks.Block, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = blocks.Split(text, nil); err != nil {
			return f, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	took := o.Clock().Sub(start)
	start = o.Clock()
	f.Bytes = int64(read(texts))
	bare := o.Clock().Sub(start)
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		n := memory.Len(text)
		if err := blocks.Check(n, nil, all[i]); err != nil {
			return f, fmt.Errorf("record %d: %w", i+1, err)
		}
		f.Points += int64(n)
		perRecord = append(perRecord, len(all[i]))
		for _, b := range all[i] {
			lengths = append(lengths, b.Len())
			if b.Forced {
				f.Forced++
			}
		}
		if o.Progress != nil {
			o.Progress(int64(i+1), int64(len(texts)))
		}
	}
	f.Blocks = len(lengths)
	f.PerRecord, f.Length = spread(perRecord), spread(lengths)
	f.Share = round(float64(f.Forced) / float64(max(f.Blocks, 1)))
	f.MBPerS = round(float64(f.Bytes) / took.Seconds() / 1e6)
	f.Bare = round(float64(f.Bytes) / bare.Seconds() / 1e6)
	return f, nil
}

// spread sorts the values.
func spread(values []int) SplitSpread {
	if len(values) == 0 {
		return SplitSpread{}
	}
	slices.Sort(values)
	sum := 0
	for _, v := range values {
		sum += v
	}
	at := func(percent int) int { return values[(len(values)-1)*percent/100] }
	return SplitSpread{
		Mean: round(float64(sum) / float64(len(values))), Median: at(50), P90: at(90), P99: at(99), Max: values[len(values)-1],
	}
}

// readRecords returns the texts of an input, and the same with consecutive records
// of one source joined by line breaks.
func readRecords(ctx context.Context, format, path string) (records, joined []string, err error) {
	in, err := ingest.OpenFile(ctx, format, path)
	if err != nil {
		return nil, nil, missing("--path", "a file or folder of records", err)
	}
	defer in.Close()
	var source string
	var parts []string
	flush := func() {
		if len(parts) > 0 {
			joined = append(joined, strings.Join(parts, "\n"))
		}
		parts = parts[:0]
	}
	for {
		item, _, err := in.Next()
		if errors.Is(err, io.EOF) {
			flush()
			return records, joined, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read records: %w", err)
		}
		text := item.Content + item.Summary
		if text == "" {
			continue
		}
		records = append(records, text)
		if from := item.Project + "\x00" + item.Source.ID; from != source || item.Source.ID == "" {
			flush()
			source = from
		}
		parts = append(parts, text)
	}
}
