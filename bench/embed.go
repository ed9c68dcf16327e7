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

// embedPart is how many texts are asked for at once.
const embedPart = 256

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
		var took, bare time.Duration
		size := 0
		// In parts, so that the memory is the model's and not the bench's.
		for first := 0; first < n; first += embedPart {
			texts := embedTexts(first, min(embedPart, n-first), length)
			start := o.Clock()
			vectors, err := m.Embed(ctx, embed.Document, texts)
			took += o.Clock().Sub(start)
			if err != nil {
				return nil, err
			}
			report.Dims = len(vectors[0])
			start = o.Clock()
			size += read(texts)
			bare += o.Clock().Sub(start)
		}
		report.Lengths = append(report.Lengths, EmbedLength{
			CodePoints: length, Texts: n, PerSecond: round(float64(n) / took.Seconds()),
			MBPerS: round(float64(size) / took.Seconds() / 1e6), Bare: round(float64(size) / bare.Seconds() / 1e6),
		})
	}
	report.Peak = round(peakMemory())
	return report, nil
}

// read is the loop that embedding is compared with. It returns the bytes.
func read(texts []string) (size int) {
	var sum byte
	for _, text := range texts {
		for i := range len(text) {
			sum ^= text[i]
		}
		size += len(text)
	}
	runtime.KeepAlive(sum)
	return size
}

// embedTexts are n different texts of one length, numbered from first on;
// English, Japanese and Chinese in turns.
func embedTexts(first, n, length int) (texts []string) {
	phrases := []string{
		"The nightly export finished late, so the importer on db-7 waited for Mei to look at the queue. ",
		"夜間の書き出しが遅れたので、取り込みは待たされ、火曜日に会議で共有することになった。",
		"夜间导出晚了一些,导入程序一直在等待,数据库备份在凌晨三点自动开始。",
	}
	for i := first; i < first+n; i++ {
		text := []rune(strconv.Itoa(i) + " ")
		for phrase := []rune(phrases[i%len(phrases)]); len(text) < length; {
			text = append(text, phrase...)
		}
		texts = append(texts, string(text[:length]))
	}
	return texts
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
