package sqlite_test

import (
	"fmt"
	"slices"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// What builders of files read page by page is what a search reads as a whole, in
// the same order: current sets and no others, with their vectors.
// BR-104, BR-107, DECISIONS 9
func TestPagesOfCodesAreTheWhole(t *testing.T) {
	const dims = 20
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, dims)
	other, err := s.PutModel(t.Context(), sqlite.Model{Backend: "static", Name: "other", Dims: dims, Probes: [][]float32{make([]float32, dims)}, State: sqlite.ModelBuilding})
	if err != nil {
		t.Fatal(err)
	}
	var refs []memory.Ref
	for i := range 23 {
		text := fmt.Sprintf("text %d, long enough to be cut into blocks.", i)
		c := cell("a", []string{"", "p"}[i%2], "")
		var r []sqlite.StoreResult
		if i%3 == 0 {
			r, err = s.StoreEpisodes(t.Context(), []sqlite.NewEpisode{{Cell: c, Summary: text, Vector: vectorOf(i, dims), Model: m}})
		} else {
			r, err = s.StoreMemories(t.Context(), []sqlite.NewMemory{{Cell: c, Content: text, Vector: vectorOf(i, dims), Model: m}})
		}
		if err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
		refs = append(refs, r[0].Ref)
		set := setOf(r[0].Ref, m, text, 2+i%4, 7*i, dims)
		if i%5 == 0 {
			set = unembed(set, 1)
		}
		if i%7 == 0 {
			set.Policy++ // of another splitter: not current
		}
		putSets(t, s, set, setOf(r[0].Ref, other, text, 2, i, dims))
	}
	if _, err := s.Delete(t.Context(), "a", refs[4:6]); err != nil {
		t.Fatal(err)
	}
	v := view(t, s)
	defer v.Close()
	line := func(ref memory.Ref, cell int64, n int, bits []byte, without []int, values []byte) string {
		return fmt.Sprintf("%v cell %d: %d %x %v %x", ref, cell, n, bits, without, values)
	}
	var cells []int64
	if err := v.CellNames(0, 1, func(c sqlite.CellName) error { cells = append(cells, c.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := v.CellNames(cells[0], 9, func(c sqlite.CellName) error { cells = append(cells, c.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2 {
		t.Fatalf("cells %v", cells)
	}
	var want, wantVectors []string
	var sets []memory.Ref
	err = v.BlockBits(m, cells, func(c sqlite.BlockCodes) error {
		sets = append(sets, c.Ref)
		want = append(want, line(c.Ref, c.Cell, c.N, c.Bits, c.Unembeddable, nil))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, ref := range sets {
		set, ok, err := v.BlocksOf(m, ref)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		want[i] += fmt.Sprintf("%x", set.Values)
	}
	err = v.Vectors(m, cells, func(ref memory.Ref, cell int64, values []float32) error {
		wantVectors = append(wantVectors, fmt.Sprint(ref, cell, values))
		return nil
	})
	if err != nil || len(want) < 10 || len(wantVectors) != 21 {
		t.Fatal(len(want), len(wantVectors), err)
	}
	for _, limit := range []int{1, 2, 5, 100} {
		var got, gotVectors []string
		for _, cell := range cells {
			var after memory.Ref
			for n := 1; n > 0; {
				n = 0
				err := v.CodedSets(m, cell, after, limit, true, func(s sqlite.CodedSet) error {
					n, after = n+1, s.Ref
					got = append(got, line(s.Ref, s.Cell, s.N, s.Bits, s.Unembeddable, s.Values))
					return nil
				})
				if err != nil || n > limit {
					t.Fatal(n, err)
				}
			}
			after = memory.Ref{}
			for n := 1; n > 0; {
				n = 0
				err := v.PlacedVectors(m, cell, after, limit, func(x sqlite.PlacedVector) error {
					n, after = n+1, x.Ref
					gotVectors = append(gotVectors, fmt.Sprint(x.Ref, x.Cell, x.Values))
					return nil
				})
				if err != nil || n > limit {
					t.Fatal(n, err)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("sets by %d:\n got %v\nwant %v", limit, got, want)
		}
		if !slices.Equal(gotVectors, wantVectors) {
			t.Errorf("vectors by %d:\n got %v\nwant %v", limit, gotVectors, wantVectors)
		}
	}

	// Of records: in the order asked, without those that have none.
	var got []string
	asked := append(slices.Clone(refs), memory.Ref{Kind: memory.KindMemory, ID: 999})
	slices.Reverse(asked)
	err = v.CodedSetsOf(m, asked, true, func(s sqlite.CodedSet) error {
		got = append(got, line(s.Ref, s.Cell, s.N, s.Bits, s.Unembeddable, s.Values))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("of records:\n got %v\nwant %v", got, want)
	}
	got = nil
	err = v.PlacedVectorsOf(m, asked, func(x sqlite.PlacedVector) error {
		got = append(got, fmt.Sprint(x.Ref, x.Cell, x.Values))
		return nil
	})
	slices.Sort(got)
	slices.Sort(wantVectors)
	if err != nil || !slices.Equal(got, wantVectors) {
		t.Errorf("%v, vectors of records:\n got %v\nwant %v", err, got, wantVectors)
	}

	places, err := v.CellOf(refs)
	if err != nil || len(places) != 21 || places[refs[0]] != cells[0] || places[refs[1]] != cells[1] {
		t.Errorf("%v, %v", places, err)
	}
	var blocks, vectors int64
	for _, after := range []int64{0, cells[0]} {
		add := func(to *int64) func(sqlite.CellCount) error {
			return func(c sqlite.CellCount) error { *to += c.N; return nil }
		}
		if err := v.CountedBlocks(m, after, 1, add(&blocks)); err != nil {
			t.Fatal(err)
		}
		if err := v.CountedVectors(m, after, 1, add(&vectors)); err != nil {
			t.Fatal(err)
		}
	}
	st, err := v.BlockStats(m, cells)
	if err != nil || st.Blocks != blocks || vectors != 21 {
		t.Errorf("%d blocks, %d vectors, %+v, %v", blocks, vectors, st, err)
	}
	if n, err := v.CodedRows(); err != nil || n != blocks+vectors+2*21 {
		t.Errorf("%d rows, %v", n, err)
	}
	if width, searched, known, err := v.ModelWidth(m); err != nil || width != dims || !searched || !known {
		t.Error(width, searched, known, err)
	}
	if width, searched, _, err := v.ModelWidth(99); err != nil || width != 0 || searched {
		t.Error(width, searched, err)
	}
}
