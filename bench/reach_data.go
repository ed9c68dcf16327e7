package bench

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"recalld/memory"
)

//go:embed testdata/reach
var reachFiles embed.FS

// reachLanguages are the languages of the written slice, in their order.
func reachLanguages() []string { return []string{"en", "ja", "zh"} }

// reachBank is what was written in one language. Paragraphs have places that a
// seed fills: {a|b|c} is one of the three, {who} is one of a list of the bank.
type reachBank struct {
	language string
	lists    map[string][]string
	topics   []reachTopic
}

// reachTopic is a subject: paragraphs about it, and statements that are told
// nowhere in them.
type reachTopic struct {
	name       string
	paragraphs []string
	targets    []reachTarget
}

// reachTarget is one statement, a query in its words, and a query that means it
// and shares no content word with it.
type reachTarget struct {
	Statement  string `json:"target"`
	Copy       string `json:"copy"`
	Paraphrase string `json:"paraphrase"`
}

// readReachBank reads a file of the slice: lines that are a list, a paragraph or
// a target.
func readReachBank(language string) (*reachBank, error) {
	raw, err := reachFiles.ReadFile("testdata/reach/" + language + ".jsonl")
	if err != nil {
		return nil, fmt.Errorf("read the reach slice: %w", err)
	}
	bank := &reachBank{language: language, lists: map[string][]string{}}
	d := json.NewDecoder(bufio.NewReader(bytes.NewReader(raw)))
	d.DisallowUnknownFields()
	for n := 1; ; n++ {
		var line struct {
			List   string   `json:"slot"`
			Values []string `json:"values"`
			Topic  string   `json:"topic"`
			Text   string   `json:"text"`
			reachTarget
		}
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF):
			return bank, nil
		case err != nil:
			return nil, fmt.Errorf("read the reach slice: %s, line %d: %w", language, n, err)
		case line.List != "":
			bank.lists[line.List] = line.Values
			continue
		}
		if last := len(bank.topics) - 1; last < 0 || bank.topics[last].name != line.Topic {
			bank.topics = append(bank.topics, reachTopic{name: line.Topic})
		}
		topic := &bank.topics[len(bank.topics)-1]
		if line.Text != "" {
			topic.paragraphs = append(topic.paragraphs, line.Text)
		} else {
			topic.targets = append(topic.targets, line.reachTarget)
		}
	}
}

// fill replaces every place of a paragraph.
func (b *reachBank) fill(paragraph string, r *rand.Rand) string {
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(paragraph, "{")
		text.WriteString(before)
		if !found {
			return text.String()
		}
		place, after, _ := strings.Cut(rest, "}")
		choices := strings.Split(place, "|")
		if list := b.lists[place]; list != nil {
			choices = list
		}
		text.WriteString(choices[r.IntN(len(choices))])
		paragraph = after
	}
}

// reachCase is one record whose target lies in its tail, with its queries.
type reachCase struct {
	Language string
	Topic    string
	Text     string
	Target   memory.Span // code points of Text
	Queries  reachTarget
}

// The lengths of records in code points, from and below.
func reachLengths(language string) (from, below int) {
	if language == "en" {
		return 3_600, 8_000
	}
	return 1_600, 3_600
}

// cases makes the record of every target. A record is its topic's paragraphs and
// as many of the topics after it as its length asks for, shuffled; the target
// stands between two sentences of a paragraph of its own topic, in the last
// quarter. A record depends on the seed and on its target's place in the file
// alone.
func (b *reachBank) cases(seed uint64) []reachCase {
	var cases []reachCase
	for t, topic := range b.topics {
		for i, target := range topic.targets {
			r := rand.New(rand.NewPCG(seed, uint64(t)<<8|uint64(i)))
			from, below := reachLengths(b.language)
			paragraphs := b.about(t, from+r.IntN(below-from), r)
			at := len(paragraphs) - 1 - r.IntN(len(paragraphs)/4)
			carrier := b.fill(topic.paragraphs[r.IntN(len(topic.paragraphs))], r)
			sentences := reachSentences(carrier)
			middle := 1 + r.IntN(len(sentences)-1)
			head := strings.Join(paragraphs[:at], "\n\n") + "\n\n" + strings.Join(sentences[:middle], "")
			gap := ""
			if b.language == "en" {
				gap = " "
			}
			tail := gap + strings.Join(sentences[middle:], "") + "\n\n" + strings.Join(paragraphs[at:], "\n\n")
			start := memory.Len(head)
			cases = append(cases, reachCase{
				Language: b.language, Topic: topic.name, Text: head + target.Statement + tail,
				Target: memory.Span{Start: start, End: start + memory.Len(target.Statement)}, Queries: target,
			})
		}
	}
	return cases
}

// about returns shuffled paragraphs about a topic, and about those after it where
// one topic does not give the length.
func (b *reachBank) about(topic, length int, r *rand.Rand) []string {
	var paragraphs []string
	for n, at := 0, topic; n < length; at++ {
		for _, p := range b.topics[at%len(b.topics)].paragraphs {
			text := b.fill(p, r)
			paragraphs = append(paragraphs, text)
			if n += memory.Len(text) + 2; n >= length {
				break
			}
		}
	}
	r.Shuffle(len(paragraphs), func(i, j int) { paragraphs[i], paragraphs[j] = paragraphs[j], paragraphs[i] })
	return paragraphs
}

// reachSentences cuts a paragraph behind its full stops; the sentences put
// together are the paragraph.
func reachSentences(paragraph string) []string {
	var sentences []string
	for rest := paragraph; rest != ""; {
		end := len(rest)
		for _, stop := range []string{". ", "。"} {
			if i := strings.Index(rest, stop); i >= 0 {
				end = min(end, i+len(stop))
			}
		}
		sentences = append(sentences, rest[:end])
		rest = rest[end:]
	}
	return sentences
}

// distractors makes n different texts that tell no target, the languages in
// turns: four of five have one to four sentences, the fifth is as long as the
// records of the targets.
func distractors(banks []*reachBank, n int, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 1<<40))
	seen := make(map[string]bool, n)
	texts := make([]string, 0, n)
	for len(texts) < n {
		b := banks[len(texts)%len(banks)]
		topic := r.IntN(len(b.topics))
		var text string
		if r.IntN(5) == 0 {
			from, below := reachLengths(b.language)
			text = strings.Join(b.about(topic, from+r.IntN(below-from), r), "\n\n")
		} else {
			paragraphs := b.topics[topic].paragraphs
			sentences := reachSentences(b.fill(paragraphs[r.IntN(len(paragraphs))], r))
			first := r.IntN(len(sentences))
			last := min(len(sentences), first+1+r.IntN(4))
			text = strings.TrimSpace(strings.Join(sentences[first:last], ""))
		}
		if !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return texts
}

// readReachBanks reads the whole slice.
func readReachBanks() ([]*reachBank, error) {
	var banks []*reachBank
	for _, language := range reachLanguages() {
		b, err := readReachBank(language)
		if err != nil {
			return nil, err
		}
		banks = append(banks, b)
	}
	return slices.Clip(banks), nil
}

// reachSeed makes the slice that is registered in docs/benchmarks/reach.md.
const reachSeed = 1
