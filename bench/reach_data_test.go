package bench

import (
	"strings"
	"testing"
	"unicode"

	"recalld/embed/static"
	"recalld/lexical"
	"recalld/memory"
)

// grammar are Chinese characters that say how words hang together and what is
// asked, not what is talked about.
const grammar = "的了在是我们你他她它这那有没和就都不个一会要把被给到也还很上下里后前之以为因而与及从对向时候什么哪谁怎样几多少请问吗呢该能可得着过去来只才才由其所于用做当将再已经人中"

// contentWords returns the distinct words of a text that are not grammar: for
// English what the analyser keeps, for Japanese its bigrams but those of hiragana
// alone, for Chinese its bigrams but those of grammar alone.
func contentWords(language, text string) map[string]bool {
	words := map[string]bool{}
	terms, _ := lexical.Terms(text)
	for _, term := range terms {
		function := strings.IndexFunc(term.Term, func(r rune) bool {
			return !(language == "ja" && unicode.Is(unicode.Hiragana, r) || language == "zh" && strings.ContainsRune(grammar, r))
		}) < 0
		if !function {
			words[term.Term] = true
		}
	}
	return words
}

func shared(a, b map[string]bool) (words []string) {
	for word := range a {
		if b[word] {
			words = append(words, word)
		}
	}
	return words
}

// The written slice keeps its own rules: enough of every language, a paraphrase
// shares no content word with the statement, a copy has no other, and what is
// told is told in one record alone.
//
// BR-167
func TestReachQueriesCopyOrParaphrase(t *testing.T) {
	banks, err := readReachBanks()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, b := range banks {
		paragraphs, targets := 0, 0
		for _, topic := range b.topics {
			paragraphs += len(topic.paragraphs)
			targets += len(topic.targets)
			for _, target := range topic.targets {
				statement := contentWords(b.language, target.Statement)
				if common := shared(contentWords(b.language, target.Paraphrase), statement); len(common) > 0 {
					t.Errorf("%s: %q shares %q with %q", b.language, target.Paraphrase, common, target.Statement)
				}
				words := contentWords(b.language, target.Copy)
				if common := shared(words, statement); len(words) < 3 || 5*len(common) < 4*len(words) {
					t.Errorf("%s: %q has %d words, %d of them of %q", b.language, target.Copy, len(words), len(common), target.Statement)
				}
				for _, text := range []string{target.Statement, target.Copy, target.Paraphrase} {
					if told[text] {
						t.Errorf("%s: %q is there twice", b.language, text)
					}
					told[text] = true
				}
			}
		}
		if paragraphs < 60 || targets < 50 {
			t.Errorf("%s: %d paragraphs, %d targets", b.language, paragraphs, targets)
		}
	}
}

// Every target begins where the static model's window, and with it the first
// node, has ended; its span holds the statement, which the record has once.
//
// BR-167, BR-185
func TestReachTargetsLieBehindTheFirstNode(t *testing.T) {
	banks, err := readReachBanks()
	if err != nil {
		t.Fatal(err)
	}
	table, err := static.Load()
	if err != nil {
		t.Fatal(err)
	}
	var scratch static.Scratch
	records, statements := map[string]bool{}, map[string]bool{}
	for _, b := range banks {
		from, below := reachLengths(b.language)
		cases := b.cases(reachSeed)
		again := b.cases(reachSeed)
		for i, c := range cases {
			if c.Text != again[i].Text {
				t.Errorf("%s %d: two texts of one seed", b.language, i)
			}
			if _, window := table.Count(&scratch, c.Text); c.Target.Start < window {
				t.Errorf("%s %d: the target begins at %d, the window ends at %d", b.language, i, c.Target.Start, window)
			}
			if got, ok := c.Target.Slice(c.Text); !ok || got != c.Queries.Statement || strings.Count(c.Text, got) != 1 {
				t.Errorf("%s %d: %q at %v, want %q once", b.language, i, got, c.Target, c.Queries.Statement)
			}
			// The carrier and the statement come on top of the length asked for, and the
			// last paragraph may pass it.
			if n := memory.Len(c.Text); n < from || n > below+1_500 {
				t.Errorf("%s %d: %d code points", b.language, i, n)
			}
			if strings.ContainsAny(c.Text, "{|}") {
				t.Errorf("%s %d: a place is not filled: %q", b.language, i, c.Text)
			}
			records[c.Text], statements[c.Queries.Statement] = true, true
		}
	}
	texts := distractors(banks, 600, reachSeed)
	for i, text := range texts {
		if strings.ContainsAny(text, "{|}") || records[text] || text == "" {
			t.Errorf("distractor %d: %q", i, text)
		}
		records[text] = true
		for statement := range statements {
			if strings.Contains(text, statement) {
				t.Errorf("distractor %d tells %q", i, statement)
			}
		}
	}
	if want := len(statements) + len(texts); len(records) != want {
		t.Errorf("%d different texts, want %d", len(records), want)
	}
}
