package blocks

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"recalld/memory"
)

// words counts runs between white space, and CJK code points singly.
func words(text string) int {
	n, inside := 0, false
	for _, r := range text {
		switch {
		case eastAsian(r):
			n, inside = n+1, false
		case r <= ' ' || r == '　':
			inside = false
		default:
			if !inside {
				n++
			}
			inside = true
		}
	}
	return n
}

// bytesPerToken counts n bytes as a token.
func bytesPerToken(n int) func(string) int {
	return func(text string) int { return (len(text) + n - 1) / n }
}

// each makes a counter of many texts of one of a single text.
func each(count func(string) int) func([]string) ([]int, error) {
	return func(texts []string) ([]int, error) {
		tokens := make([]int, len(texts))
		for i, t := range texts {
			tokens[i] = count(t)
		}
		return tokens, nil
	}
}

// plainNodes is the rule of RR-092, word for word: try every prefix.
func plainNodes(text string, window int, count func(string) int) []memory.Span {
	d := divider{text: text, n: memory.Len(text)}
	for i := range text {
		d.at = append(d.at, i)
	}
	d.at = append(d.at, len(text))
	var nodes []memory.Span
	for start := 0; start < d.n; {
		reach := start + 1
		for reach < d.n && count(d.slice(start, reach+1)) <= window {
			reach++
		}
		end := reach
		if reach < d.n {
			var class nodeEnd
			if end, class = d.boundary(start, reach); class == hard {
				end = d.whole(start, end)
			}
		}
		nodes = append(nodes, span(start, end))
		start = end
	}
	return nodes
}

// RR-092
func TestNodesTakeTheBestBoundary(t *testing.T) {
	for _, c := range []struct {
		name, text string
		window     int
		want       []string
	}{
		{"fits", "one two three", 3, []string{"one two three"}},
		{"paragraph before line", "aa bb cc dd\n\ne f\ng h i j k", 9, []string{"aa bb cc dd\n\n", "e f\ng h i j k"}},
		{"line before sentence", "aa bb cc dd\ne f. G h i j", 8, []string{"aa bb cc dd\n", "e f. G h i j"}},
		{"sentence before white space", "aa bb cc. D e f g h", 5, []string{"aa bb cc. ", "D e f g h"}},
		{"white space", "a b c d e f", 4, []string{"a b c d ", "e f"}},
		{"abbreviation", "see Dr. Smith at the old house now", 4, []string{"see Dr. Smith at ", "the old house now"}},
		{"not below half", "a\n\nb c d e f g h i j", 8, []string{"a\n\nb c d e f g h ", "i j"}},
		{"Japanese", "灯りが赤い。扉を開けない。守衛を呼ぶ。", 12, []string{"灯りが赤い。扉を開けない。", "守衛を呼ぶ。"}},
		{"Chinese", "红灯亮了。不要开门。请呼叫门卫来。", 9, []string{"红灯亮了。不要开门。", "请呼叫门卫来。"}},
		{"no boundary", strings.Repeat("漢", 25), 10, []string{strings.Repeat("漢", 10), strings.Repeat("漢", 10), strings.Repeat("漢", 5)}},
	} {
		// A word is a token, a CJK character is one, marks are none.
		got, err := Nodes(c.text, c.window, each(func(text string) int {
			return words(strings.NewReplacer("。", "", "、", "").Replace(text))
		}))
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, node := range got {
			part, _ := node.Slice(c.text)
			parts = append(parts, part)
		}
		if !slices.Equal(parts, c.want) {
			t.Errorf("%s: %q, expected %q", c.name, parts, c.want)
		}
	}
}

// A cut in a run without boundaries keeps characters of several code points whole.
//
// RR-092
func TestNodesKeepCharactersWhole(t *testing.T) {
	for _, unit := range []string{"👩\u200d👩\u200d👧", "e\u0301", "👍🏽", "🇯🇵", "か\u3099", "1️⃣"} {
		text := strings.Repeat(unit, 40)
		nodes, err := Nodes(text, 50, each(bytesPerToken(1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := covers(nodes, memory.Len(text)); err != nil {
			t.Fatal(err)
		}
		for _, node := range nodes {
			if part, _ := node.Slice(text); strings.Trim(part, unit) != "" || len(part)%len(unit) != 0 {
				t.Errorf("%q is divided: %q", unit, part)
			}
		}
	}
}

// A cover, every node fits unless it is one code point, the same again, and where
// more text never has fewer tokens the rule word for word.
//
// RR-092, BR-139
func TestNodesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts(30).Draw(t, "text")
		window := rapid.IntRange(1, 60).Draw(t, "window")
		count := rapid.SampledFrom([]func(string) int{words, bytesPerToken(1), bytesPerToken(4), utf8.RuneCountInString}).Draw(t, "count")
		nodes := checkNodes(t, text, window, count)
		if want := plainNodes(text, window, count); len(text) < 3_000 && !reflect.DeepEqual(nodes, want) {
			t.Fatalf("nodes %v, by the rule %v", nodes, want)
		}
	})
}

func checkNodes(t fataler, text string, window int, count func(string) int) []memory.Span {
	nodes, err := Nodes(text, window, each(count))
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := covers(nodes, memory.Len(text)); err != nil {
		t.Fatalf("%v", err)
	}
	for _, node := range nodes {
		if part, _ := node.Slice(text); count(part) > window && node.Len() > 1 {
			t.Fatalf("node %v has %d tokens, the window is %d", node, count(part), window)
		}
	}
	again, err := Nodes(text, window, each(count))
	if err != nil || !reflect.DeepEqual(nodes, again) {
		t.Fatalf("nodes %v, then %v (%v)", nodes, again, err)
	}
	return nodes
}

// jumpy is a tokeniser that makes more of some parts than of a longer text.
func jumpy(text string) int {
	n := words(text)
	if len(text)%7 == 3 {
		n += len(text) % 11
	}
	return n
}

// An odd tokeniser costs questions, never a node that does not fit.
//
// RR-092
func TestNodesWithAnOddTokeniser(t *testing.T) {
	r := rand.New(rand.NewPCG(92, 7))
	for range 400 {
		checkNodes(t, document(r, 1+r.IntN(80)), 1+r.IntN(40), jumpy)
	}
}

// A node takes few questions.
func TestNodesAskLittle(t *testing.T) {
	text, _ := memory.Prefix(mixed(), 16_000)
	calls, asked := 0, 0
	nodes, err := Nodes(text, 512, func(texts []string) ([]int, error) {
		calls++
		for _, t := range texts {
			asked += len(t)
		}
		return each(bytesPerToken(4))(texts)
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls > 6*len(nodes) || asked > 12*len(text) {
		t.Errorf("%d nodes took %d calls with %d bytes of a text of %d", len(nodes), calls, asked, len(text))
	}
}

func TestNodesRefuse(t *testing.T) {
	count := each(words)
	if _, err := Nodes("a\xff", 5, count); !errors.Is(err, ErrInvalidText) {
		t.Errorf("invalid UTF-8: %v", err)
	}
	if _, err := Nodes("a b", 0, count); err == nil {
		t.Error("a window of 0 passes")
	}
	gone := errors.New("gone")
	if _, err := Nodes("a b", 1, func([]string) ([]int, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("failing counter: %v", err)
	}
	if _, err := Nodes("a b", 1, func([]string) ([]int, error) { return nil, nil }); err == nil {
		t.Error("a counter without answers passes")
	}
	if nodes, err := Nodes("", 1, count); err != nil || len(nodes) != 0 {
		t.Errorf("empty text: %v, %v", nodes, err)
	}
}
