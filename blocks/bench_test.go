package blocks

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"recalld/memory"
)

// mixed is realistic text of three languages: prose, lists, a table and code.
func mixed() string {
	paragraphs := []string{
		"If the nightly export has finished, do not restart the importer. Run it by hand from the console, e.g. with the old flag (see the notes; they are short). Dr. Ito said \"Wait for the log.\" and left at 5 p.m. on Monday.\n\n",
		"- moved the staging database to db-7\n- told the team, and asked them to wait\n- wrote https://example.org/runbook/a?step=3 down\n\n",
		"夜間の書き出しが終わっている場合は、取り込みを再起動してはいけない。画面から手動で実行する。ただし、月曜は除く。彼は「ログを待つ。」と言った。\n\n",
		"如果夜间导出已经结束，就不要重启导入程序。请在控制台手动执行，并把结果写进记录（不要删除旧的）。但是周一除外。\n\n",
		"```go\nfor i := range rows {\n\tsum += rows[i].n\n}\n```\n\n",
		"| step | owner |\n|---|---|\n| export | mia |\n| import | 健 |\n\n",
		"We talked about the trip for a while and she told me that the old station is closed now, which is sad because we met there. Great! 🎉 See you on Friday then.\n",
	}
	r := rand.New(rand.NewPCG(20, 1))
	var b strings.Builder
	for b.Len() < 1<<20 {
		b.WriteString(paragraphs[r.IntN(len(paragraphs))])
	}
	return b.String()
}

// BenchmarkSplit splits records of about 4,000 bytes; BenchmarkRead decodes the same
// bytes, for comparison.
func BenchmarkSplit(b *testing.B) {
	parts := records(mixed())
	b.SetBytes(size(parts))
	for b.Loop() {
		for _, part := range parts {
			if _, err := Split(part, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	parts := records(mixed())
	b.SetBytes(size(parts))
	n := 0
	for b.Loop() {
		for _, part := range parts {
			for _, r := range part {
				if r == utf8.RuneError {
					n++
				}
			}
		}
	}
	if n > 0 {
		b.Fatal("invalid text")
	}
}

// BenchmarkContext quotes a block in the middle of a record.
func BenchmarkContext(b *testing.B) {
	part := records(mixed())[0]
	all, err := Split(part, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(part)))
	for b.Loop() {
		Context(part, all, len(all)/2, QuoteLimit)
	}
}

// BenchmarkNodes counts four bytes as a token and reports how often it asks.
func BenchmarkNodes(b *testing.B) {
	text, _ := memory.Prefix(mixed(), 16_000)
	calls, nodes := 0, 0
	count := func(texts []string) ([]int, error) {
		calls++
		tokens := make([]int, len(texts))
		for i, t := range texts {
			tokens[i] = len(t)/4 + 1
		}
		return tokens, nil
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		spans, err := Nodes(text, 512, count)
		if err != nil {
			b.Fatal(err)
		}
		nodes += len(spans)
	}
	b.ReportMetric(float64(calls)/float64(nodes), "calls/node")
}

func records(text string) []string {
	var parts []string
	for text != "" {
		part, _ := memory.Prefix(text, 2_500)
		parts = append(parts, part)
		text = text[len(part):]
	}
	return parts
}

func size(parts []string) int64 {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	return int64(n)
}
