package lexical

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// RR-402
func TestSurely(t *testing.T) {
	for query, want := range map[string]bool{
		"": false, "kettle": false, "ettle whis": false, "a kettle": false, "the kettle whistles": false, "the disk whistles": true, "the (Disk), whistles": true, "x the y": false, "x tHe y": false,
		"the githubs of": false, "the YouTube videos": false, "the v1.2 of": false, "x 3.14 y": true,
		"ettle\nlog\ta": true, "x 30 y": true, "☕ ☕ ☕": true, "x -- y": false, "Is 2026-11-30 it": true,
		"会議": false, "の会議は": false, "東の会議は": false, "東の会議は今": true, "がの会議は今": true, "a 会議 b": true, "a 茶 b": false,
		"会议在几点开始": true, "ｶﾞﾗｽｹｰｽ": true, "ｶﾞﾗｽ": false, "か\u3099の会議": false, "ab会議cd": true, "b会議c": false, "ab会c議d": false,
	} {
		if got := Surely(query); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
}

// anyCase changes the case of ASCII letters: a literal search does not see it.
func anyCase(t *rapid.T, text string) string {
	if !rapid.Bool().Draw(t, "change case") {
		return text
	}
	return strings.Map(func(r rune) rune {
		if asciiLetter(r) && rapid.IntRange(0, 3).Draw(t, "case") == 0 {
			return r ^ 0x20
		}
		return r
	}, text)
}

// A row that holds such a query is found by its words.
// RR-402
func TestWhatSurelyHasATermIsFound(t *testing.T) {
	pieces := []string{"deploys ", "Kyoto", "disk ", " gitHubs ", " loadedFiles ", "YouTube ", "May ", "the ", "C", "log", "cfg.MaxRetries", "-", "'", "2026-11-30 ", "Nov ", "30", "th ", "会議", "东", "京", "の", "ガ", "ｶﾞ", "か", "\u3099", "ᄀ", "ᅡ", "ᆨ",
		"각", "ไทย", "a", "A", "++", "#", ".", "。", "、", "（", " ", "  ", "\n", "　", "☕", "☕\ufe0f", "👍🏽", "\u200b", "\u00ad", "é", "e\u0301", "ß", "ﬁ", "①", "㌔", "ー", "・", "々"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String()), 1, 14).Draw(t, "text"), "")
		runes := []rune(strings.ToValidUTF8(text, " "))
		if len(runes) == 0 {
			return
		}
		from := rapid.IntRange(0, len(runes)-1).Draw(t, "from")
		query := anyCase(t, string(runes[from:rapid.IntRange(from+1, len(runes)).Draw(t, "to")]))
		if !Surely(query) {
			return
		}
		x := NewIndex()
		if err := x.Put(Doc{Cell: 1, Ref: mem(1), Text: string(runes)}); err != nil {
			t.Fatal(err)
		}
		res, err := x.Search(t.Context(), Query{Text: query, Cells: []Cell{1}, Kind: memory.KindMemory, K: 1})
		if err != nil || len(res.Hits) == 0 && !res.QueryTruncated {
			t.Fatalf("%q is in %q and not found: %v", query, string(runes), err)
		}
	})
}
