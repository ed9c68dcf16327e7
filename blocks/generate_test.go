package blocks

import (
	"math/rand/v2"
	"strings"

	"pgregory.net/rapid"

	"recalld/memory"
)

// pieces are what generated documents are made of: words, marks, structure and
// everything that is easily cut wrongly, in three languages.
var pieces = []string{
	"the importer ", "restarts, ", "unless ", "it has finished", "However, ", "but ", "not ", "e.g. ", "Dr. ", "3.14 ", "v2.0.1 ",
	"https://example.org/a?b=c.d#e ", "rack-17, ", "Why", "Only if ", "she said ", "U.S. ", "No. 5 ", "end", "A", "x",
	"取り込みは", "再起動しない", "場合は、", "ただし、", "と言った", "わけではない", "もっとも、", "夜間に", "ログ", "ｶﾞ", "か\u3099",
	"导出完成", "不要重启", "除非", "但是，", "如果", "他说", "的情况下", "然后",
	". ", "! ", "? ", "... ", ".", "!", "?", "。", "！", "？", "…", "……", "．", "、", "，", ", ", ": ", "：", "; ", "・",
	"(", ")", "[", "]", "{", "}", "「", "」", "『", "』", "（", "）", "【", "】", "“", "”", "‘", "’", "\"", "'", "`", "**", "«", "»",
	"\n", "\n\n", "\r\n", "\r\n\r\n", "\n\n\n", "\n- ", "\n* ", "\n1. ", "\n  ", "\n| a. b | c |", "\n|---|---|", "\n# ", "\n> ", "\n---\n",
	"\n```\n", "\n```go\n", "\n~~~\n", "\n・", "\n一、", "\n① ", "only when:\n- ", "次の場合を除く：\n・", " ", "  ", "\t", "　", "\u00a0",
	"👩‍👩‍👧", "👍🏽", "🇯🇵", "🇩", "⚠️", "1️⃣", "é", "e\u0301", "नी", "ทำ", "\u200d", "\u200b", "\ufeff", "\x00", "𠮷", "한글 ",
}

// document makes a text of n pieces. Now and then a run has no boundary at all, or
// nothing but white space.
func document(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		switch r.IntN(150) {
		case 0:
			b.WriteString(strings.Repeat(pieces[r.IntN(len(pieces))], r.IntN(900)))
		default:
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
	}
	return b.String()
}

// layout divides n code points into nodes at random.
func layout(r *rand.Rand, n int) []memory.Span {
	if n == 0 || r.IntN(3) == 0 {
		return nil
	}
	var nodes []memory.Span
	for at := 0; at < n; {
		end := min(n, at+1+r.IntN(1+r.IntN(2*n)))
		nodes = append(nodes, memory.Span{Start: at, End: end})
		at = end
	}
	return nodes
}

// texts draws documents for properties.
func texts(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String()), 0, most).Draw(t, "parts")
		if rapid.IntRange(0, 3).Draw(t, "long") == 0 && len(parts) > 0 {
			parts[0] = strings.Repeat(parts[0], rapid.IntRange(1, 400).Draw(t, "times"))
		}
		return strings.ToValidUTF8(strings.Join(parts, ""), "?")
	})
}

// layouts draws divisions of n code points into nodes.
func layouts(n int) *rapid.Generator[[]memory.Span] {
	return rapid.Custom(func(t *rapid.T) []memory.Span {
		if rapid.Bool().Draw(t, "one") || n == 0 {
			return nil
		}
		var nodes []memory.Span
		for at := 0; at < n; {
			end := min(n, at+rapid.IntRange(1, n).Draw(t, "length"))
			nodes = append(nodes, memory.Span{Start: at, End: end})
			at = end
		}
		return nodes
	})
}
