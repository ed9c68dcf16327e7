package embed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The model hash-v1: signed character n-grams of 1 to 4 code points over
// NFKC-normalised, lower-cased text, 512 dimensions. It knows spellings, not
// meanings, and nothing across languages. All arithmetic before the one
// normalisation is on integers, so that every platform gets the same bits.
// Any change of a constant below is a new name.
const (
	hashName = "hash-v1"
	hashDims = 512
	maxGram  = 4
)

// hashing embeds by character n-grams.
type hashing struct{ known *localIdentity }

func newHashing() Model { return hashing{&localIdentity{}} }

func (hashing) Local() bool    { return true }
func (hashing) Window() Window { return Window{Limit: 512, Unit: "piece", Known: true} }
func (hashing) Close() error   { return nil }

// CountTokens implements [TokenCounter]. A piece is one ideograph or kana, or four
// code points of anything else, which is what a subword tokenizer comes to.
func (h hashing) CountTokens(_ context.Context, texts []string) ([]TokenCount, error) {
	limit := h.Window().Limit
	counts := make([]TokenCount, len(texts))
	for i, text := range texts {
		quarters, length, end := 0, 0, 0
		for _, r := range text {
			quarters++
			if isCJK(r) {
				quarters += 3
			}
			length++
			if quarters <= 4*limit {
				end = length
			}
		}
		counts[i] = TokenCount{Tokens: (quarters + 3) / 4, Window: limit, WindowEnd: end}
	}
	return counts, nil
}

func isCJK(r rune) bool {
	return r >= 0x2E80 && (r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana))
}

// Embed implements [Model]. Query and document are treated alike; only a text of
// no characters has no vector.
func (hashing) Embed(ctx context.Context, _ Purpose, texts []string) ([][]float32, error) {
	var sketch gramSketch
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("embed: %w", err)
		}
		vectors[i] = sketch.embed(text)
	}
	return vectors, nil
}

// Identity implements [Model].
func (h hashing) Identity(ctx context.Context) (Identity, error) {
	return h.known.of(ctx, h, "hash", hashName, hashDims)
}

// localIdentity is what a model in this process is known by. Its answers never
// change, so its probes are embedded once and not with every query, whose cache
// asks for the identity.
type localIdentity struct {
	once     sync.Once
	identity Identity
	err      error
}

func (l *localIdentity) of(ctx context.Context, m Model, backend, name string, dims int) (Identity, error) {
	if err := ctx.Err(); err != nil {
		return Identity{}, fmt.Errorf("embed: %w", err)
	}
	l.once.Do(func() {
		var vectors [][]float32
		vectors, l.err = m.Embed(context.WithoutCancel(ctx), Document, probes())
		l.identity = Identity{Backend: backend, Name: name, Dims: dims, ProbeVersion: ProbeVersion, Probes: vectors}
	})
	id := l.identity
	id.Probes = slices.Clone(id.Probes) // the caller's to replace, not to change
	return id, l.err
}

// gramSketch is the reusable state of embedding one text after another.
type gramSketch struct {
	normal []byte
	runes  []rune
	sum    [hashDims]int64
}

func (s *gramSketch) embed(text string) []float32 {
	if text == "" {
		return nil
	}
	s.fold(text)
	clear(s.sum[:])
	s.count()
	s.rotate()
	return unitSum(s.sum[:])
}

// fold writes the text's code points with every run of spaces, controls and
// punctuation as one space, and a space at both ends.
func (s *gramSketch) fold(text string) {
	s.normal = norm.NFKC.AppendString(s.normal[:0], text)
	s.runes = append(s.runes[:0], ' ')
	gap := true
	for b := s.normal; len(b) > 0; {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		if unicode.IsSpace(r) || unicode.IsControl(r) || unicode.IsPunct(r) {
			if !gap {
				s.runes = append(s.runes, ' ')
			}
			gap = true
			continue
		}
		gap = false
		s.runes = append(s.runes, unicode.ToLower(r))
	}
	if !gap {
		s.runes = append(s.runes, ' ')
	}
}

// count adds every n-gram to the sketch with its weight and sign.
func (s *gramSketch) count() {
	for i := range s.runes {
		var cjk, hiragana int
		h := uint64(0x9e3779b97f4a7c15)
		for n := 1; n <= maxGram && i+n <= len(s.runes); n++ {
			r := s.runes[i+n-1]
			h = scramble(h ^ uint64(r))
			if isCJK(r) {
				cjk++
				if unicode.Is(unicode.Hiragana, r) {
					hiragana++
				}
			}
			if weight := gramWeight(n, r, cjk, hiragana); weight != 0 {
				s.add(h, weight)
			}
		}
	}
	// Text of nothing but punctuation, or whose grams happen to cancel out, has its
	// bytes as its only feature.
	if s.sum == [hashDims]int64{} {
		h := uint64(1)
		for _, c := range s.normal {
			h = scramble(h ^ uint64(c))
		}
		s.add(h, 1)
	}
}

// gramWeight weighs an n-gram that ends in r. Where words are written without
// spaces, short grams carry meaning and hiragana mostly grammar; elsewhere a
// letter alone says nothing. The weights were chosen on JSTS and LoCoMo.
func gramWeight(n int, r rune, cjk, hiragana int) int64 {
	switch {
	case r == ' ' && n == 1:
		return 0
	case cjk == 0:
		return [maxGram + 1]int64{0, 0, 4, 8, 8}[n]
	case hiragana == n:
		return [maxGram + 1]int64{0, 4, 4, 2, 1}[n]
	case n == 1:
		return 16
	default:
		return [maxGram + 1]int64{0, 0, 8, 4, 2}[n]
	}
}

func (s *gramSketch) add(h uint64, weight int64) {
	if h>>63 == 0 {
		weight = -weight
	}
	s.sum[h%hashDims] += weight
}

// rotate turns the sketch by a fixed orthogonal matrix, scaled to stay on
// integers: twice random signs, then a Walsh-Hadamard transform. Cosines do not
// change; what changes is that every coordinate of even a short text is used, so
// that signs of coordinates keep neighbours (DECISIONS 21).
func (s *gramSketch) rotate() {
	for round := range uint64(2) {
		for i := range s.sum {
			if scramble(round*hashDims+uint64(i)+1)>>63 == 0 {
				s.sum[i] = -s.sum[i]
			}
		}
		for half := 1; half < hashDims; half *= 2 {
			for i := 0; i < hashDims; i += 2 * half {
				for j := i; j < i+half; j++ {
					s.sum[j], s.sum[j+half] = s.sum[j]+s.sum[j+half], s.sum[j]-s.sum[j+half]
				}
			}
		}
	}
}

// scramble is the finaliser of splitmix64 after its increment.
func scramble(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
