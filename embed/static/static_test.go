package static

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func load(t testing.TB) *Table {
	t.Helper()
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// The artefact is the one that the name, the documents and NOTICE speak of.
func TestArtefact(t *testing.T) {
	if got := sha256.Sum256([]byte(artefact)); hex.EncodeToString(got[:]) != Checksum {
		t.Errorf("sha256 %x, want %s: a new artefact needs a new name", got, Checksum)
	}
	if len(artefact) > 25_000_000 {
		t.Errorf("%d bytes", len(artefact))
	}
	if err := Verify(); err != nil {
		t.Error(err)
	}
}

// The distilling script has its own implementation of segmentation and sum; both
// give the same pieces and the same bits. DECISIONS 6.
func TestGolden(t *testing.T) {
	table := load(t)
	f, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	n := 0
	var s Scratch
	for ; lines.Scan(); n++ {
		var want struct {
			Text   string
			Pieces []int32
			Bits   string
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		sum := table.Sum(&s, want.Text)
		if !slices.Equal(s.pieces, want.Pieces) {
			t.Errorf("%q: pieces %v, want %v", want.Text, s.pieces, want.Pieces)
		}
		var square float64
		for _, x := range sum {
			square += float64(float64(x) * float64(x))
		}
		h := sha256.New()
		for _, x := range sum {
			h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(float64(x)/math.Sqrt(square)))))
		}
		if bits := hex.EncodeToString(h.Sum(nil))[:16]; bits != want.Bits {
			t.Errorf("%q: bits %s, want %s", want.Text, bits, want.Bits)
		}
	}
	if err := lines.Err(); err != nil || n < 400 {
		t.Fatalf("%d lines: %v", n, err)
	}
}

// naive divides the whole text at once, trying every span of it against a map of
// pieces.
func naive(t *Table, byText map[string]int32, text string) []int32 {
	var s Scratch
	s.normalise(text)
	n := len(s.runes)
	best, from, piece := make([]int64, n+1), make([]int, n+1), make([]int32, n+1)
	for j := 1; j <= n; j++ {
		best[j] = math.MinInt64
		for i := 0; i < j; i++ {
			if id, ok := byText[string(s.runes[i:j])]; ok {
				if score := best[i] + int64(t.scores[id]); score > best[j] {
					best[j], from[j], piece[j] = score, i, id
				}
			}
			if i == j-1 {
				if score := best[i] + t.unknownScore; score > best[j] {
					best[j], from[j], piece[j] = score, i, -1-s.runes[i]
				}
			}
		}
	}
	var pieces []int32
	for j := n; j > 0; j = from[j] {
		pieces = append(pieces, piece[j])
	}
	slices.Reverse(pieces)
	return pieces
}

// strings reads the pieces back from the artefact.
func pieceStrings(t *Table) []string {
	lengths := artefact[headerSize+4*len(t.scores):][:len(t.scores)]
	at := headerSize + 5*len(t.scores)
	out := make([]string, len(t.scores))
	for i := range out {
		out[i] = artefact[at : at+int(lengths[i])]
		at += int(lengths[i])
	}
	return out
}

func pieceMap(t *Table) map[string]int32 {
	m := make(map[string]int32)
	for i, piece := range pieceStrings(t) {
		m[piece] = int32(i)
	}
	return m
}

// Words, the trie and reuse of memory change nothing about the segmentation.
func TestSegmentationEqualsTheNaiveOne(t *testing.T) {
	table := load(t)
	byText := pieceMap(table)
	if len(byText) != len(table.scores) || !slices.IsSorted(pieceStrings(table)) {
		t.Fatal("pieces are not distinct and sorted")
	}
	var s Scratch
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.OneOf(
			rapid.RuneFrom([]rune("aehinorst 　\n▁ \u00ad")),
			rapid.RuneFrom(nil, unicode.Hiragana, unicode.Katakana, unicode.Han),
			rapid.Rune(),
		), 0, 60, -1).Draw(t, "text")
		table.segment(&s, text)
		if want := naive(table, byText, text); !slices.Equal(s.pieces, want) {
			t.Fatalf("%q: %v, want %v", text, s.pieces, want)
		}
	})
}

// DECISIONS 26: every text but the empty one has a sum, and the pieces hold all of
// the normalised text.
func FuzzSum(f *testing.F) {
	for _, seed := range []string{"", " ", "a", "猫 と 犬", "\xff", "\u00ad", "한국어", "🙂", "ー", "\u0301", strings.Repeat("長い", 600)} {
		f.Add(seed)
	}
	table := load(f)
	names := pieceStrings(table)
	var s Scratch
	f.Fuzz(func(t *testing.T, text string) {
		sum := slices.Clone(table.Sum(&s, text))
		if zero := slices.Equal(sum, make([]int64, Dims)); zero != (text == "") {
			t.Fatalf("%q: zero %v", text, zero)
		}
		var b strings.Builder
		for _, piece := range s.pieces {
			if piece >= 0 {
				b.WriteString(names[piece])
			} else {
				b.WriteRune(-1 - piece)
			}
		}
		if b.String() != string(s.runes) {
			t.Fatalf("%q: the pieces spell %q, want %q", text, b.String(), string(s.runes))
		}
		if again := table.Sum(&Scratch{}, text); !slices.Equal(again, sum) {
			t.Fatalf("%q: another sum with fresh memory", text)
		}
		pieces, end := table.Count(&s, text)
		length := utf8.RuneCountInString(text)
		if pieces < 0 || end > length || (pieces <= Window) != (end == length) {
			t.Fatalf("%q: %d pieces, the window ends at %d of %d", text, pieces, end, length)
		}
	})
}

// The part of a long text that the window holds fits the window, and nearly fills
// it.
func TestWindowHolds(t *testing.T) {
	table := load(t)
	var s Scratch
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.StringOfN(rapid.OneOf(rapid.RuneFrom([]rune("etaoin shrdlu ㌔㍿½ﬁ")), rapid.RuneFrom(nil, unicode.Hiragana, unicode.Han)), 1, 12, -1).Draw(t, "unit")
		text := strings.Repeat(unit, 1+1200/utf8.RuneCountInString(unit))
		pieces, end := table.Count(&s, text)
		if pieces <= Window {
			return
		}
		held := string([]rune(text)[:end])
		if n, _ := table.Count(&s, held); n > Window || n < Window-8 {
			t.Fatalf("%q × n: the window of %d pieces holds %d", unit, Window, n)
		}
	})
}

// Text of 1 MB without a single space is embedded like any other.
func TestHugeText(t *testing.T) {
	table := load(t)
	var s Scratch
	one := slices.Clone(table.Sum(&s, "東京都"))
	words := slices.Clone(s.pieces)
	table.Sum(&s, strings.Repeat("東京都", 116_000))
	if len(s.pieces) < 116_000 {
		t.Errorf("%d pieces", len(s.pieces))
	}
	table.Sum(&s, "東京都")
	if !slices.Equal(s.sum[:], one) || !slices.Equal(s.pieces, words) {
		t.Error("a huge text left traces")
	}
}

// No allocation per token, nor per text.
func TestSumDoesNotAllocate(t *testing.T) {
	table := load(t)
	var s Scratch
	text := strings.Repeat("日本語 and English 中文, 한국어。 ", 50)
	table.Sum(&s, text)
	if n := testing.AllocsPerRun(5, func() { table.Sum(&s, text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A damaged table is refused, not read past its end.
func TestParseRefusesDamage(t *testing.T) {
	change := func(at int, b byte) string {
		raw := []byte(artefact)
		raw[at] ^= b
		return string(raw)
	}
	for name, raw := range map[string]string{
		"empty":          "",
		"header only":    artefact[:headerSize],
		"cut":            artefact[:len(artefact)-1],
		"longer":         artefact + "x",
		"magic":          change(0, 1),
		"version":        change(8, 1),
		"dimensions":     change(13, 1),
		"pieces":         change(16, 1),
		"pieces, huge":   change(19, 0x80),
		"string bytes":   change(33, 1),
		"a piece's size": change(headerSize+4*80_000+100, 0xff),
	} {
		if _, err := parse(raw); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Both ways of normalising agree, so that offsets count what was segmented.
func TestPrefixNormalisesAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		n := 0
		for _, r := range norm.NFKC.String(text) {
			if !divides(r) && !dropped(r) {
				n++
			}
		}
		if end := prefix(text, n); end != len(text) {
			t.Fatalf("%q: %d code points end at byte %d of %d", text, n, end, len(text))
		}
		if end := prefix(text, 0); n > 0 && end == len(text) {
			t.Fatalf("%q: nothing holds everything", text)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	table := load(b)
	var s Scratch
	for _, c := range []struct{ name, text string }{
		{"english", "The database backup runs at three in the morning."},
		{"japanese", "データベースのバックアップは午前三時に実行される。"},
		{"chinese", "数据库备份在凌晨三点运行。"},
		{"long", strings.Repeat("The backup runs at three. バックアップは三時に走る。", 50)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Sum(&s, c.text)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		load(b)
	}
}

// Equal scores are decided alike, which a small table of small scores makes common.
func TestSegmentationDecidesTies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := &Table{trie: newTrie(8), unknownScore: -5}
		byText := map[string]int32{}
		for i, piece := range rapid.SliceOfNDistinct(rapid.StringMatching(`▁?[ab]{1,3}`), 8, 14, rapid.ID[string]).Draw(t, "pieces") {
			table.trie.add(piece, int32(i))
			table.scores = append(table.scores, int16(-rapid.IntRange(1, 2).Draw(t, "score")))
			byText[piece] = int32(i)
		}
		text := rapid.StringMatching(`[ab ]{6,30}`).Draw(t, "text")
		var s Scratch
		table.segment(&s, text)
		if want := naive(table, byText, text); !slices.Equal(s.pieces, want) {
			t.Fatalf("%q: %v, want %v", text, s.pieces, want)
		}
	})
}

// The cut falls before a sign whose first letter ended the window's last piece, and
// what is left of that piece is three: the window gives up more code points.
func TestWindowStepsBack(t *testing.T) {
	table := load(t)
	var s Scratch
	text := strings.Repeat("a ", Window-1) + "ponedjelja㎏"
	pieces, end := table.Count(&s, text)
	if pieces != Window+1 {
		t.Fatalf("%d pieces", pieces)
	}
	if held, _ := table.Count(&s, string([]rune(text)[:end])); held != Window {
		t.Errorf("the window holds %d pieces", held)
	}
}
