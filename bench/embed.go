package bench

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"recalld/embed"
)

// EmbedReport counts texts embedded per second by length. Peak is the resident
// memory of the whole process in MiB, 0 where the system does not tell.
type EmbedReport struct {
	Model   string        `json:"model"`
	Dims    int           `json:"dims"`
	Lengths []EmbedLength `json:"lengths"`
	Peak    float64       `json:"rss_peak_mib"`
	Machine Machine       `json:"machine"`
}

// EmbedLength is one length of text. Bare is the rate of a read loop over the
// bytes of the same texts in the same run, for comparison.
type EmbedLength struct {
	CodePoints int     `json:"code_points"`
	Texts      int     `json:"texts"`
	PerSecond  float64 `json:"texts_per_s"`
	MBPerS     float64 `json:"mb_per_s"`
	Bare       float64 `json:"bare_mb_per_s"`
}

// EmbedOptions of [Embedding].
type EmbedOptions struct {
	Texts int // of the shortest length; longer ones take fewer, by their length
	Clock func() time.Time
}

// embedLengths are the lengths that are measured, in code points.
func embedLengths() []int { return []int{20, 80, 400, 2_000} }

// Embedding measures one model, one caller, texts of three languages.
func Embedding(ctx context.Context, m embed.Model, o EmbedOptions) (*EmbedReport, error) {
	if err := atLeastOne("texts", o.Texts); err != nil {
		return nil, err
	}
	name, err := nameOf(ctx, m)
	if err != nil {
		return nil, err
	}
	report := &EmbedReport{Model: name}
	for _, length := range embedLengths() {
		n := max(1, o.Texts*embedLengths()[0]/length)
		texts, size := embedTexts(n, length)
		start := o.Clock()
		vectors, err := m.Embed(ctx, embed.Document, texts)
		if err != nil {
			return nil, err
		}
		took := o.Clock().Sub(start).Seconds()
		start = o.Clock()
		var sum byte
		for _, text := range texts {
			for i := range len(text) {
				sum ^= text[i]
			}
		}
		bare := o.Clock().Sub(start).Seconds()
		runtime.KeepAlive(sum)
		report.Dims = len(vectors[0])
		report.Lengths = append(report.Lengths, EmbedLength{
			CodePoints: length, Texts: n, PerSecond: round(float64(n) / took),
			MBPerS: round(float64(size) / took / 1e6), Bare: round(float64(size) / bare / 1e6),
		})
	}
	report.Peak = round(peakMemory())
	return report, nil
}

// embedTexts are n different texts of one length.
func embedTexts(n, length int) (texts []string, size int) {
	for i := range n {
		var b []rune
		for k := i; len(b) < length; k++ {
			b = append(b, []rune(storeText(k)+" 数据库备份在凌晨三点自动开始。")...)
		}
		text := strconv.Itoa(i) + " " + string(b[:max(1, length-len(strconv.Itoa(i))-1)])
		texts = append(texts, text)
		size += len(text)
	}
	return texts, size
}

// peakMemory is the highest resident memory of this process in MiB.
func peakMemory() float64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(raw) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 64)
			return kib / 1024
		}
	}
	return 0
}
