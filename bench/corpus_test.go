package bench

import (
	"strings"
	"testing"

	"recalld/blocks"
	"recalld/embed"
	"recalld/memory"
)

func testCorpus(t *testing.T) *corpus {
	t.Helper()
	c, err := newCorpus(ladderSeed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// BR-157, BR-158: records have the block counts of the ledger, about; no two texts
// are equal; a record does not depend on those made before it.
func TestCorpusHasTwentyBlocksARecord(t *testing.T) {
	c := testCorpus(t)
	const n = 3_000
	seen := make(map[string]bool, n)
	var counts []int
	sentences := make(map[string]int)
	for i := range n {
		text := c.plain(i)
		if seen[text] || memory.Len(text) > memory.DefaultMaxContent {
			t.Fatalf("record %d is there already or too long", i)
		}
		seen[text] = true
		all, err := blocks.Split(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, len(all))
		for _, b := range all {
			part, _ := b.Slice(text)
			sentences[strings.TrimSpace(part)]++
		}
	}
	s := spread(counts)
	if s.Mean < 18 || s.Mean > 22 || s.Median < 11 || s.Median > 15 || s.Max < 100 {
		t.Errorf("blocks per record %+v", s)
	}
	twice := 0
	for _, n := range sentences {
		if n > 1 {
			twice += n
		}
	}
	if share := float64(twice) / (s.Mean * n); share < .2 || share > .8 {
		t.Errorf("%.2f of the blocks are told elsewhere too", share)
	}
	if testCorpus(t).plain(n-1) != c.plain(n-1) {
		t.Error("a record depends on those before it")
	}
}

// A needle's statement stands once in its record, a tail needle behind the first
// node and before the cap of a record's blocks.
//
// BR-037, BR-167
func TestNeedlesStandWhereTheySay(t *testing.T) {
	model, err := embed.Open(embed.Config{Backend: "static"})
	if err != nil {
		t.Fatal(err)
	}
	c := testCorpus(t)
	tails := 0
	for i, n := range c.needles {
		text := c.hold(n, i)
		if strings.Count(text, n.statement.Statement) != 1 {
			t.Fatalf("needle %d stands not once in its text", i)
		}
		before, _, _ := strings.Cut(text, n.statement.Statement)
		at := memory.Len(before)
		counts, err := model.(embed.TokenCounter).CountTokens(t.Context(), []string{before})
		if err != nil {
			t.Fatal(err)
		}
		if beyond := counts[0].Tokens > model.Window().Limit; beyond != n.tail {
			t.Errorf("needle %d (%s, tail %v): %d tokens before it", i, c.tongues[n.tongue].language, n.tail, counts[0].Tokens)
		}
		all, err := blocks.Split(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for index, b := range all {
			if b.Start <= at && at < b.End && index >= 60 {
				t.Errorf("needle %d stands in block %d", i, index)
			}
		}
		if n.tail {
			tails++
		}
	}
	if len(c.needles) < 150 || tails != len(c.needles)/2 {
		t.Errorf("%d needles, %d in tails", len(c.needles), tails)
	}
}
