package blocks

import (
	"errors"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// spansOf drops the flags.
func spansOf(all []Block) []memory.Span {
	spans := []memory.Span{}
	for _, b := range all {
		spans = append(spans, b.Span)
	}
	return spans
}

func span(start, end int) memory.Span { return memory.Span{Start: start, End: end} }

// Example 1: the first block holds the condition and the negation.
//
// BR-013, BR-014, BR-140, BR-002
func TestFirstBlockHoldsNegation(t *testing.T) {
	for _, c := range []struct {
		text string
		want []memory.Span
		both []string
	}{
		{
			"If the nightly export has finished, do not restart the importer. Run it by hand from the console.",
			[]memory.Span{span(0, 65), span(65, 97)}, []string{"has finished", "do not"},
		},
		{
			"夜間の書き出しが終わっている場合は、取り込みを再起動してはいけない。画面から手動で実行する。",
			[]memory.Span{span(0, 34), span(34, 46)}, []string{"場合は", "いけない"},
		},
		{
			"如果夜间导出已经结束，就不要重启导入程序。请在控制台手动执行。",
			[]memory.Span{span(0, 21), span(21, 31)}, []string{"如果", "不要"},
		},
	} {
		all := mustSplit(t, c.text)
		if got := spansOf(all); !reflect.DeepEqual(got, c.want) {
			t.Fatalf("spans %v, expected %v", got, c.want)
		}
		joined := ""
		for i, b := range all {
			part, ok := b.Slice(c.text)
			if !ok || b.Forced {
				t.Errorf("block %d: inside %v, forced %v", i, ok, b.Forced)
			}
			joined += part
		}
		first, _ := all[0].Slice(c.text)
		for _, words := range c.both {
			if !strings.Contains(first, words) {
				t.Errorf("first_block_holds_negation: %q has no %q", first, words)
			}
		}
		if joined != c.text {
			t.Errorf("joined %q", joined)
		}
		if again := mustSplit(t, c.text); !reflect.DeepEqual(again, all) {
			t.Error("a second run gives other blocks")
		}
	}
}

// Example 2: cut exactly at the limit, only there, never at a comma.
//
// BR-016, BR-017, BR-014
func TestForcedBoundary(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []Block
	}{
		{"list of commas", "Inventory: " + strings.Repeat("rack-17, ", 90) + "end.", []Block{{span(0, 739), true, true}, {span(739, 825), false, false}}},
		{"読点", "棚番の一覧は" + strings.Repeat("甲乙丙、", 200) + "以上。", []Block{{span(0, 739), true, true}, {span(739, 809), false, false}}},
		{"full-width commas", "清单：" + strings.Repeat("甲乙丙，", 200) + "完。", []Block{{span(0, 739), true, true}, {span(739, 805), false, false}}},
		{"at the limit", strings.Repeat("x", 738) + ".", []Block{{span(0, 739), false, true}}},
		{"one below", strings.Repeat("x", 737) + ".", []Block{{span(0, 738), false, true}}},
		{"one above", strings.Repeat("あ", 739) + "。", []Block{{span(0, 739), true, true}, {span(739, 740), false, false}}},
		{"twice", strings.Repeat("x", 1500), []Block{{span(0, 739), true, true}, {span(739, 1478), true, false}, {span(1478, 1500), false, false}}},
		// The unit ends by itself; only its white space does not fit.
		{"white space past the limit", strings.Repeat("x", 738) + ".  Next.", []Block{{span(0, 739), false, true}, {span(739, 741), false, false}, {span(741, 746), false, false}}},
		{"white space alone", "Go." + strings.Repeat(" ", 1000) + "On.", []Block{{span(0, 739), false, true}, {span(739, 1003), false, false}, {span(1003, 1006), false, false}}},
		// Exactly at the limit even inside a character of several code points.
		{"inside a character", strings.Repeat("e\u0301", 400), []Block{{span(0, 739), true, true}, {span(739, 800), false, false}}},
		// A longer unit is first divided where it can be.
		{"line ends", strings.Repeat("y", 700) + "\n" + strings.Repeat("z", 700), []Block{{span(0, 701), false, true}, {span(701, 1401), false, false}}},
		{"undecided stop", strings.Repeat("y", 700) + ". " + strings.Repeat("z", 700), []Block{{span(0, 702), false, true}, {span(702, 1402), false, false}}},
	} {
		if got := mustSplit(t, c.text); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

// An enclosure binds while it fits in a block, and not beyond.
//
// BR-013, BR-016
func TestEnclosureBindsWhileItFits(t *testing.T) {
	sentence := strings.Repeat("w", 99) + ". " // 101
	for _, c := range []struct {
		name   string
		text   string
		blocks int
	}{
		{"short quotation", "(" + strings.Repeat("Wait. ", 3) + ") end.", 1},
		{"long quotation", "“" + strings.Repeat("W"+sentence, 9) + "” end.", 10},
		{"never closed", "(" + strings.Repeat("W"+sentence, 3) + "End.", 4},
		{"never closed, next paragraph", "(Wait. Go.\n\nStop. On.)", 4},
		{"short fence", "```\n" + strings.Repeat("line\n", 3) + "```", 1},
		{"long fence", "```\n" + strings.Repeat(strings.Repeat("c", 99)+"\n", 10) + "```", 2},
		{"long list under a condition", "Not if:\n" + strings.Repeat("- "+strings.Repeat("c", 99)+"\n", 10), 11},
	} {
		all := mustSplit(t, c.text)
		if len(all) != c.blocks {
			t.Errorf("%s: %d blocks, expected %d:\n%s", c.name, len(all), c.blocks, show(c.text, all))
		}
		for _, b := range all {
			if b.Forced {
				t.Errorf("%s: forced at %d", c.name, b.End)
			}
		}
	}
}

// Ten thousand documents with random nodes: a cover, every node's end a block's
// end, the same again, and every boundary of the policy kept whatever the nodes.
//
// BR-139, BR-140, BR-018, BR-019, BR-023, BR-016, BR-017
func TestTenThousandDocuments(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 140))
	blocks := 0
	for range 10_000 {
		text := document(r, 1+r.IntN(90))
		n := memory.Len(text)
		nodes := layout(r, n)
		all := mustSplit(t, text, nodes...)
		blocks += len(all)
		again, err := Split(text, slices.Clone(nodes))
		if err != nil || !reflect.DeepEqual(all, again) {
			t.Fatalf("%q: a second run gives other blocks (%v)", text, err)
		}
		ends := map[int]bool{}
		for _, b := range all {
			ends[b.End] = true
		}
		for _, node := range nodes {
			if !ends[node.End] {
				t.Fatalf("%q: node end %d is no block end", text, node.End)
			}
		}
		for i, b := range mustSplit(t, text) {
			if next := i + 1; !b.Forced && b.Len() < MaxLen && !ends[b.End] {
				t.Fatalf("%q: the boundary %d before block %d is gone with nodes", text, b.End, next)
			}
		}
	}
	if blocks < 100_000 {
		t.Errorf("%d blocks of ten thousand documents: the generator does not exercise the splitter", blocks)
	}
}

// BR-140, BR-139
func TestSplitCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts(60).Draw(t, "text")
		n := memory.Len(text)
		nodes := layouts(n).Draw(t, "nodes")
		all, err := Split(text, nodes)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(n, nodes, all); err != nil {
			t.Fatal(err)
		}
	})
}

// Outside of forced cuts and node ends, a block starts neither with white space nor
// inside a character, and the block before ends a unit: no comma is the last thing
// before its white space unless the line ends there.
//
// BR-014, BR-018
func TestBoundariesAreClean(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 14))
	for range 3_000 {
		text := document(r, 1+r.IntN(60))
		all := mustSplit(t, text)
		for i, b := range all[:max(0, len(all)-1)] {
			part, _ := b.Slice(text)
			next, _ := all[i+1].Slice(text)
			if b.Forced || b.Len() == MaxLen {
				continue
			}
			first, rest := prefix(next, 1), next[len(prefix(next, 1)):]
			if extendsAt(first, 0) && !strings.HasSuffix(part, "\n") || trailing(first) > 0 && !extendsAt(rest, 0) {
				t.Fatalf("after …%q a block starts as %q", part[max(0, len(part)-40):], prefix(next, 20))
			}
			trimmed := strings.TrimRight(part, " \t　\u00a0")
			if strings.HasSuffix(trimmed, ",") || strings.HasSuffix(trimmed, "、") || strings.HasSuffix(trimmed, "，") {
				t.Fatalf("a block ends at a comma: %q", part)
			}
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	if _, err := Split("a\xffb", nil); !errors.Is(err, ErrInvalidText) {
		t.Errorf("invalid UTF-8: %v", err)
	}
	for name, nodes := range map[string][]memory.Span{
		"short": {span(0, 2)}, "gap": {span(0, 1), span(2, 3)}, "overlap": {span(0, 2), span(1, 3)},
		"empty": {span(0, 0), span(0, 3)}, "late": {span(1, 3)}, "long": {span(0, 4)}, "backwards": {span(0, 3), span(3, 2)},
	} {
		if all, err := Split("abc", nodes); err == nil {
			t.Errorf("%s: nodes %v give %v", name, nodes, all)
		}
	}
	if all, err := Split("", nil); err != nil || len(all) != 0 {
		t.Errorf("empty text: %v, %v", all, err)
	}
}

// Check refuses every kind of wrong division.
//
// BR-140, BR-016, BR-019
func TestCheckRefuses(t *testing.T) {
	nodes := []memory.Span{span(0, 10), span(10, 1000)}
	good := []Block{{span(0, 10), false, true}, {span(10, 749), true, true}, {span(749, 1000), false, false}}
	if err := Check(1000, nodes, good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]Block) []Block{
		"gap":         func(b []Block) []Block { b[2].Start++; return b },
		"overlap":     func(b []Block) []Block { b[2].Start--; return b },
		"short":       func(b []Block) []Block { b[2].End--; return b },
		"long":        func(b []Block) []Block { b[2].End++; return b },
		"missing":     func(b []Block) []Block { return b[:2] },
		"none":        func([]Block) []Block { return nil },
		"empty":       func(b []Block) []Block { return slices.Insert(b, 1, Block{Span: span(10, 10)}) },
		"too long":    func(b []Block) []Block { b[1].End++; b[1].Forced = false; b[2].Start++; return b },
		"across":      func(b []Block) []Block { b[0].End++; b[1].Start++; b[1].Node, b[1].Forced = false, false; return b },
		"node flag":   func(b []Block) []Block { b[1].Node = false; return b },
		"node flag 2": func(b []Block) []Block { b[2].Node = true; return b },
		"forced":      func(b []Block) []Block { b[0].Forced = true; return b },
	} {
		if err := Check(1000, nodes, change(slices.Clone(good))); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	for _, nodes := range [][]memory.Span{{span(0, 10)}, {span(0, 10), span(20, 1000)}, {span(0, 1001)}} {
		if err := Check(1000, nodes, good); err == nil {
			t.Errorf("nodes %v pass", nodes)
		}
	}
}

// The package imports nothing that could ask a model.
//
// BR-011, BR-139
func TestImportsNoModel(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"errors", "fmt", "sort", "strings", "unicode", "unicode/utf8", "recalld/memory"}
	read := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, spec := range f.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
	if read < 5 {
		t.Errorf("only %d files were read", read)
	}
}
