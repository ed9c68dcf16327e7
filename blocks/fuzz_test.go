package blocks

import (
	"errors"
	"testing"
	"unicode/utf8"

	"recalld/memory"
)

func seeds(f *testing.F) {
	for _, s := range []string{
		"", " ", "a\xff", adoptedEnglish, adoptedJapanese, adoptedChinese, "```\nx\n```", "Not if:\n- a. B\n\n- c", "(\"「『. a", "\r\n\r\n.\u0301",
		"| a |\n|---|\n", "👩\u200d👩. 🇯🇵", "1. x\n  \u200d2) y", "# h\n---\n> q\n", "“a. b” said. C", "！と言う。", "...\n…", "~~~~\n~~~\n~~~~",
	} {
		f.Add(s, uint16(3), uint16(40))
	}
}

// cutAt divides a text into nodes at two places.
func cutAt(n int, a, b uint16) []memory.Span {
	var nodes []memory.Span
	at := 0
	for _, cut := range []int{min(int(a), n), min(int(a)+int(b), n), n} {
		if cut > at {
			nodes = append(nodes, span(at, cut))
			at = cut
		}
	}
	return nodes
}

// Any bytes give a cover or a clear error.
//
// BR-140
func FuzzSplit(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		nodes := cutAt(utf8.RuneCountInString(text), a, b)
		all, err := Split(text, nodes)
		if !utf8.ValidString(text) {
			if !errors.Is(err, ErrInvalidText) {
				t.Fatalf("invalid text gives %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(memory.Len(text), nodes, all); err != nil {
			t.Fatal(err)
		}
	})
}

// BR-145
func FuzzContext(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string, hit, limit uint16) {
		all, err := Split(text, cutAt(utf8.RuneCountInString(text), hit, limit))
		if err != nil || len(all) == 0 {
			return
		}
		checkQuote(t, text, all, int(hit)%len(all), 1+int(limit)%1600)
	})
}

// RR-092
func FuzzNodes(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string, window, kind uint16) {
		if !utf8.ValidString(text) || len(text) > 4_000 {
			return
		}
		counts := []func(string) int{words, bytesPerToken(1), bytesPerToken(4), jumpy}
		checkNodes(t, text, 1+int(window)%100, counts[int(kind)%len(counts)])
	})
}
