package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"recalld/memory"
)

// corpusVersion names the rules of this file. A rung that was built by others is
// not taken up again.
const corpusVersion = 1

// corpus makes records of three languages. A record follows from the seed and
// from its number alone, so that a build that was stopped goes on anywhere.
//
// A text is a topic's sentences of the written slice of [Reach], whose places a
// seed fills, and sentences made of shared words around rare names: blocks tie by
// the thousand, postings have a head and a tail, and every text is another one.
// Lengths are log-normal, about twenty blocks on average and thirteen at the
// median, as those of the ledger (BR-157, BR-158).
type corpus struct {
	seed    uint64
	tongues []*corpusTongue
	needles []needle
}

// corpusTongue is one language of the corpus.
type corpusTongue struct {
	language string
	gap      string // between sentences
	opening  string // of a record, with its number
	median   float64
	bank     *reachBank
	forms    []string // sentences with places
	lists    map[string][]string
	names    []string // rare words, by rank
	topics   [][]string
}

// The kinds of questions about needles.
const (
	askExact          = "exact"           // in the needle's words
	askParaphrase     = "paraphrase"      // in others
	askTailExact      = "tail_exact"      // the same about a needle that stands
	askTailParaphrase = "tail_paraphrase" // beyond the embedding window
)

// needleKinds are the kinds in the order of reports.
func needleKinds() []string {
	return []string{askExact, askParaphrase, askTailExact, askTailParaphrase}
}

// needle is one statement that no other record makes, and what is asked about it.
type needle struct {
	tongue    int
	topic     int
	tail      bool
	statement reachTarget
}

// newCorpus reads the written slice. Needles take turns: languages, then head and
// tail.
func newCorpus(seed uint64) (*corpus, error) {
	banks, err := readReachBanks()
	if err != nil {
		return nil, err
	}
	c := &corpus{seed: seed}
	most := 0
	targets := make([][]needle, len(banks))
	for i, b := range banks {
		t := newCorpusTongue(b)
		for topic, written := range b.topics {
			var sentences []string
			for _, p := range written.paragraphs {
				for _, s := range reachSentences(p) {
					sentences = append(sentences, strings.TrimSpace(s))
				}
			}
			t.topics = append(t.topics, sentences)
			for _, target := range written.targets {
				targets[i] = append(targets[i], needle{tongue: i, topic: topic, statement: target})
			}
		}
		c.tongues = append(c.tongues, t)
		most = max(most, len(targets[i]))
	}
	for n := range most {
		for i := range banks {
			if n < len(targets[i]) {
				one := targets[i][n]
				one.tail = n%2 == 1
				c.needles = append(c.needles, one)
			}
		}
	}
	return c, nil
}

// random is the source of one record.
func (c *corpus) random(stream, number int) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, uint64(stream)<<48|uint64(number)))
}

// The streams of records that answer nothing and of needles.
const (
	plainStream  = 1
	needleStream = 2
)

// plain is the text of a record that holds no needle.
func (c *corpus) plain(number int) string {
	t := c.tongues[number%len(c.tongues)]
	r := c.random(plainStream, number)
	n := t.median * math.Exp(corpusSpread*r.NormFloat64())
	w := t.writer(r, number, r.IntN(len(t.topics)))
	for range max(1, int(n+.5)) {
		if !w.sentence() {
			break
		}
	}
	return w.text()
}

// corpusSpread is the standard deviation of the logarithm of a length: a mean of
// 1.53 medians.
const corpusSpread = .92

// mostCorpusChars ends a record below the limit of a content, in code points.
const mostCorpusChars = memory.DefaultMaxContent - 1_000

// hold is the text of a record with a needle. Head needles stand early in a
// record of a dozen sentences, tail needles behind more text than the embedding
// window takes, and before the cap of a record's blocks.
func (c *corpus) hold(n needle, number int) string {
	t := c.tongues[n.tongue]
	r := c.random(needleStream, number)
	w := t.writer(r, number, n.topic)
	before := 1 + r.IntN(4)
	if n.tail {
		from := t.tailFrom()
		for w.length < from {
			w.sentence()
		}
		before = r.IntN(4)
	}
	for range before {
		w.sentence()
	}
	w.add(n.statement.Statement)
	for range 3 + r.IntN(5) {
		w.sentence()
	}
	return w.text()
}

// tailFrom is where text begins, in code points, that the 512 pieces of the
// embedding window do not reach.
func (t *corpusTongue) tailFrom() int {
	switch t.language {
	case "en":
		return 2_200
	case "ja":
		return 860
	}
	return 740
}

// question asks about a needle.
func (n needle) question(kind string) string {
	if kind == askParaphrase || kind == askTailParaphrase {
		return n.statement.Paraphrase
	}
	return n.statement.Copy
}

// kinds are what is asked about a needle.
func (n needle) kinds() [2]string {
	if n.tail {
		return [2]string{askTailExact, askTailParaphrase}
	}
	return [2]string{askExact, askParaphrase}
}

// corpusWriter puts one text together.
type corpusWriter struct {
	t      *corpusTongue
	r      *rand.Rand
	topic  int
	names  *rand.Zipf
	out    strings.Builder
	length int // code points
	until  int // sentences left in the paragraph
}

func (t *corpusTongue) writer(r *rand.Rand, number, topic int) *corpusWriter {
	w := &corpusWriter{t: t, r: r, topic: topic, names: rand.NewZipf(r, 1.15, 4, uint64(len(t.names)-1)), until: 3 + r.IntN(5)}
	w.add(fmt.Sprintf(t.opening, number))
	return w
}

// sentence adds one, of the topic or of the forms; false when the text is full.
func (w *corpusWriter) sentence() bool {
	if w.length > mostCorpusChars {
		return false
	}
	from := w.t.forms
	if w.r.IntN(5) < 2 {
		from = w.t.topics[w.topic]
	}
	w.add(w.fill(from[w.r.IntN(len(from))]))
	return true
}

func (w *corpusWriter) add(sentence string) {
	gap := w.t.gap
	switch {
	case w.length == 0:
		gap = ""
	case w.until == 0:
		gap, w.until = "\n\n", 3+w.r.IntN(5)
	}
	w.until--
	w.out.WriteString(gap)
	w.out.WriteString(sentence)
	w.length += memory.Len(gap) + memory.Len(sentence)
}

func (w *corpusWriter) text() string { return w.out.String() }

// fill replaces the places of a sentence: {a|b} by one of the two, {n} by one of
// the list n, {name} by a rare name.
func (w *corpusWriter) fill(form string) string {
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(form, "{")
		text.WriteString(before)
		if !found {
			return text.String()
		}
		place, after, _ := strings.Cut(rest, "}")
		form = after
		if place == "name" {
			text.WriteString(w.t.names[w.names.Uint64()])
			continue
		}
		choices := w.t.lists[place]
		if choices == nil {
			choices = w.t.bank.lists[place]
		}
		if choices == nil {
			choices = strings.Split(place, "|")
		}
		text.WriteString(choices[w.r.IntN(len(choices))])
	}
}
