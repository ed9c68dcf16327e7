package layout

import (
	"math/bits"
	"slices"
	"testing"

	"recalld/memory"
	"recalld/scanner/kernel"
)

// What a segment hands to the kernel gives the scope's nearest blocks and records
// in the total order, ties included, and no row of another cell.
//
// DECISIONS 2, BR-033, BR-035, BR-092
func TestKernelReadsSegments(t *testing.T) {
	dir, rows := t.TempDir(), sampleRows(21, Signs, 256, 400)
	for i := range rows { // few distances, so that many rows tie
		if rows[i].Code != nil {
			clear(rows[i].Code[1:])
		}
	}
	s := open(t, dir, write(t, dir, spec(Signs, 256), rows), source(256))
	table, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	none, err := s.Absent()
	if err != nil {
		t.Fatal(err)
	}
	live := kernel.NewLive(len(rows))
	for _, row := range none {
		live.Clear(int(row))
	}
	query := make([]byte, 32)
	query[0] = 0b1011
	for _, agent := range agents {
		scope := ScopeOf(truthID, memory.Scope{Agent: agent})
		ranges, err := s.Ranges(scope)
		if err != nil || len(ranges) != 1 {
			t.Fatal(ranges, err)
		}
		if err := s.Touch(ranges...); err != nil {
			t.Fatal(err)
		}
		scan, err := kernel.New(kernel.Job{Matrix: kernel.Matrix{Bits: 8 * s.RowBytes(), Codes: s.Codes()}, From: ranges[0].From, To: ranges[0].To,
			Queries: []kernel.Query{{Code: query, Rows: 40, Parents: 40}}, Live: live, Parents: table, Precedes: table.Precedes})
		if err != nil {
			t.Fatal(err)
		}
		if err := scan.Run(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		got := scan.Answers()[0]
		wantRows, wantParents := nearest(rows, scope, query, 40)
		checkHits(t, table, got.Rows, wantRows)
		checkHits(t, table, got.Parents, wantParents)
	}
}

// nearest is the answer by looking at every row.
func nearest(rows []Row, scope Scope, query []byte, k int) (best, parents []memory.Candidate) {
	for _, r := range rows {
		if r.Code == nil || !scope.Contains(r.Cell) {
			continue
		}
		d := 0
		for i := range query {
			d += bits.OnesCount8(r.Code[i] ^ query[i])
		}
		best = append(best, memory.Candidate{Ref: r.Ref, Block: int32(r.Block), Key: float64(-d)})
	}
	slices.SortFunc(best, memory.Compare)
	seen := make(map[memory.Ref]bool)
	for _, c := range best {
		if !seen[c.Ref] {
			seen[c.Ref] = true
			parents = append(parents, c)
		}
	}
	return best[:min(k, len(best))], parents[:min(k, len(parents))]
}

func checkHits(t *testing.T, table Rows, got []kernel.Hit, want []memory.Candidate) {
	t.Helper()
	found := make([]memory.Candidate, len(got))
	for i, h := range got {
		ref, block := table.At(int(h.Row))
		found[i] = memory.Candidate{Ref: ref, Block: int32(block), Key: float64(-int(h.Distance))}
	}
	if slices.CompareFunc(found, want, memory.Compare) != 0 {
		t.Errorf("found %v, not %v", found, want)
	}
}

// The kernel's dot products over a value file's slots.
//
// DECISIONS 22, BR-049
func TestKernelReadsValues(t *testing.T) {
	dir, rows := t.TempDir(), sampleValues(22, 100, 50)
	v := openValues(t, dir, writeValues(t, dir, 100, 1, rows), source(100))
	query := rows[0]
	slots := []uint32{0, 1, 2, 4, 48, 49}
	dots := make([]int32, len(slots))
	values := kernel.Values{Dims: v.Header().Dims, Stride: v.Stride(), Data: v.Slots()}
	if err := values.Dots(kernel.Best(), slots, query, dots); err != nil {
		t.Fatal(err)
	}
	for i, slot := range slots {
		norm, err := v.Norm(slot)
		if err != nil {
			t.Fatal(err)
		}
		var dot int32
		for j, x := range rows[slot] {
			dot += int32(int8(x)) * int32(int8(query[j]))
		}
		if dots[i] != dot || i == 0 && norm != dot {
			t.Errorf("slot %d: dot %d, not %d; norm %d", slot, dots[i], dot, norm)
		}
	}
}
