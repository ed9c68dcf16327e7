package lexical

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestTwoCharacterWordsAreFound asks for each of two hundred words of two
// characters, in Japanese and in Chinese, among rows that hold its characters
// apart, in the other order, and beside other words.
//
// RT-100, DECISIONS 16
func TestTwoCharacterWordsAreFound(t *testing.T) {
	text, err := os.ReadFile("testdata/two_characters.txt")
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string][]string{
		"ja": {"昨日は%sの話を%sでした", "%sと%sについて相談したい", "%sのことを忘れないで、%sも", "次の%sまでに%sを終える"},
		"zh": {"昨晚我们谈到%s和%s", "关于%s，请先看%s", "别忘了%s，还有%s", "在%s之前完成%s"},
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		language, words := words[0], words[1:]
		if len(words) < 200 {
			t.Fatalf("%s: %d words", language, len(words))
		}
		r := rand.New(rand.NewPCG(5, 5))
		var docs []Doc
		add := func(session int, a, b string) {
			frame := frames[language][r.IntN(len(frames[language]))]
			docs = append(docs, Doc{Cell: 1, Ref: mem(int64(len(docs) + 1)), Session: fmt.Sprint(session), Text: fmt.Sprintf(frame, a, b)})
		}
		for i, w := range words {
			add(i, w, words[r.IntN(len(words))])
			for range 10 {
				a, b := []rune(words[r.IntN(len(words))]), []rune(words[r.IntN(len(words))])
				add(i, string([]rune{a[1], b[0]}), string([]rune{b[1], a[0]}))
			}
		}
		x := NewIndex(seal(t, docs...))
		hits := 0
		for _, w := range words {
			for _, h := range mustSearch(t, x, Query{Text: w, Cells: []Cell{1}, Kind: 2, K: 10}).Hits {
				if strings.Contains(docs[h.Ref.ID-1].Text, w) {
					hits++
					break
				}
			}
		}
		if share := float64(hits) / float64(len(words)); share < .99 {
			t.Errorf("%s: %d of %d words are found within ten hits", language, hits, len(words))
		} else {
			t.Logf("%s: %d of %d words are found within ten hits", language, hits, len(words))
		}
	}
}
