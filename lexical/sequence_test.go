package lexical

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// scattered deals rows of many sessions, and some of none, to three files and a
// table, and deletes some.
func scattered(t *testing.T, rows int) (sources []source, dead []*roaring.Bitmap, live []rowKey, words map[rowKey]uint32) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(rows)))
	parts := make([][]Doc, 4)
	for id := range int64(rows) {
		session := ""
		if r.IntN(4) > 0 {
			session = fmt.Sprint("session ", r.IntN(rows/10+1))
		}
		d := Doc{Cell: 1, Ref: mem(id + 1), Session: session, Text: fmt.Sprint("kettle ", id)}
		for range r.IntN(5) {
			d.Text += " やかん"
		}
		part := r.IntN(len(parts))
		if id%3 > 0 && session != "" { // most sessions stand in one source
			part = int(sessionOf(session) % uint64(len(parts)))
		}
		parts[part] = append(parts[part], d)
	}
	table := newTable(NewAnalyser())
	for i, docs := range parts {
		if i == len(parts)-1 {
			for _, d := range docs {
				table.put(d, nil)
			}
			table.settle()
			sources = append(sources, table)
			break
		}
		p, err := seal(t, docs...).partition(place{1, docs[0].Ref.Kind})
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, p)
	}
	words = make(map[rowKey]uint32)
	for i, s := range sources {
		gone := roaring.New()
		for row := range s.Rows() {
			if i < len(sources)-1 && r.IntN(5) == 0 {
				gone.Add(uint32(row))
				continue
			}
			live, words[s.key(row)] = append(live, s.key(row)), s.length(row)
		}
		if dead = append(dead, gone); gone.IsEmpty() {
			dead[i] = nil
		}
	}
	slices.SortFunc(live, compareKeys)
	return sources, dead, live, words
}

// The sequence is the live rows in the order of their keys, however they are cut,
// with the lengths and the seams of a partition that holds them all.
// DECISIONS 2
func TestSequenceIsTheLiveRowsInOrder(t *testing.T) {
	for _, rows := range []int{12, 300, 9000} {
		sources, dead, live, words := scattered(t, rows)
		q := newSequence(sources, dead)
		if int(q.rows) != len(live) {
			t.Fatalf("%d rows, want %d", q.rows, len(live))
		}
		if q.lengths == nil {
			t.Errorf("%d runs of %d rows are asked for each time", len(q.runs), q.rows)
		}
		var total uint64
		for i, run := range q.runs {
			if i > 0 && q.runs[i-1].source == run.source && q.runs[i-1].first+q.runs[i-1].count == run.first {
				t.Fatalf("runs %d and %d are one", i-1, i)
			}
			for k := range run.count {
				pos := run.pos + k
				key := q.sources[run.source].key(int(run.first + k))
				if key != live[pos] || q.id(pos) != live[pos].id {
					t.Fatalf("position %d is %v, want %v", pos, key, live[pos])
				}
				total += uint64(words[key])
			}
		}
		if q.length != total {
			t.Errorf("%d words, want %d", q.length, total)
		}
		var w, asked window
		slow := *q
		slow.lengths, slow.joined = nil, nil
		for lo := uint32(0); lo < q.rows; lo += 100 {
			n := min(100, q.rows-lo)
			w.load(q, lo, n)
			asked.load(&slow, lo, n)
			if w.length != asked.length || w.joined != asked.joined {
				t.Fatalf("rows from %d on are not what their sources say", lo)
			}
			for pos := lo; pos < lo+n; pos++ {
				joined := pos > 0 && live[pos-1].continues(live[pos])
				if i := w.index(pos); w.length[i] != words[live[pos]] || w.joined[i] != joined {
					t.Fatalf("position %d: %d words, joined %v; want %d, %v", pos, w.length[i], w.joined[i], words[live[pos]], joined)
				}
			}
		}
	}
}

// Long runs are left to their sources.
func TestLongRunsAreNotCopied(t *testing.T) {
	var docs []Doc
	for id := range int64(3 * shortRun) {
		docs = append(docs, Doc{Cell: 1, Ref: mem(id + 1), Text: "kettle"})
	}
	f := seal(t, docs...)
	p, err := f.partition(place{1, docs[0].Ref.Kind})
	if err != nil {
		t.Fatal(err)
	}
	gone := roaring.BitmapOf(shortRun + shortRun/2)
	if q := newSequence([]source{p}, []*roaring.Bitmap{gone}); q.lengths != nil || len(q.runs) != 2 {
		t.Errorf("%d runs, lengths of %d rows", len(q.runs), len(q.lengths))
	}
}

// Files of more rows than a window has, whose sessions stand between one another, are
// merged to what one file of all rows is.
// DECISIONS 2
func TestLargeFilesMerge(t *testing.T) {
	const rows = 3 * windowRows
	r := rand.New(rand.NewPCG(8, 8))
	var all []Doc
	parts := make([][]Doc, 3)
	for id := range int64(rows) {
		d := Doc{Cell: 1, Ref: mem(id + 1), Session: fmt.Sprint("session ", r.IntN(rows/8)), Text: fmt.Sprint("kettle やかん ", r.IntN(9))}
		all = append(all, d)
		part := r.IntN(len(parts))
		parts[part] = append(parts[part], d)
	}
	var files []*File
	for _, docs := range parts {
		files = append(files, seal(t, docs...))
	}
	merged, err := NewIndex(files...).Merge(files, false)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBuilder()
	for _, d := range all {
		b.Add(d)
	}
	whole, err := b.Seal()
	if err != nil || !bytes.Equal(merged, whole) {
		t.Errorf("%d bytes merged, %d at once, %v", len(merged), len(whole), err)
	}
}

func TestPostingsArePutInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 15, 16, 700, windowRows + 2*Reach} {
		lo := r.Uint32N(1 << 30)
		var got []placed
		for _, i := range r.Perm(windowRows + 2*Reach)[:n] {
			got = append(got, placed{lo + uint32(i), r.Uint32()})
		}
		want := slices.Clone(got)
		slices.SortFunc(want, func(a, b placed) int { return cmp.Compare(a.pos, b.pos) })
		if order(got, lo, lo+windowRows+2*Reach); !slices.Equal(got, want) {
			t.Errorf("%d postings: got %v, want %v", n, got, want)
		}
	}
}
