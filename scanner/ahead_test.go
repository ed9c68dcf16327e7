package scanner

import (
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"recalld/layout"
)

// Nothing is asked for ahead while no row had to be read from the disk; once one had
// to, all that are left are, each byte of them, and those that lie together at once.
func TestRowsAreAskedForWhenOneWasNotInMemory(t *testing.T) {
	const slots, wanted = 2000, 200
	dir, r := t.TempDir(), rand.New(rand.NewPCG(4, 4))
	of := layout.Source{TruthID: truthID, Model: 1, Identity: sha256.Sum256([]byte("model")), Dims: 256}
	var files []*layout.Values
	for number := range uint32(2) {
		w, err := layout.CreateValues(dir, layout.ValuesSpec{Source: of, Number: number + 1, Floats: true})
		if err != nil {
			t.Fatal(err)
		}
		for range slots {
			v := make([]float32, of.Dims)
			for i := range v {
				v[i] = r.Float32()
			}
			if _, err := w.Add(layout.FloatBytes(nil, v)); err != nil {
				t.Fatal(err)
			}
		}
		name, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		file, err := layout.OpenValues(dir, name, of)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		files = append(files, file)
	}
	rows := make([]place, wanted)
	for i := range rows {
		if rows[i] = (place{files[r.IntN(2)], uint32(r.IntN(slots))}); i%10 == 9 {
			rows[i] = place{} // in memory
		}
	}
	for _, at := range []int{0, 3, 100, wanted} { // the row that is not in memory
		faults, looks, asks := int64(7), 0, 0
		asked := make(map[*byte][][2]int64)
		reading := lookAhead(rows, paging{
			faults: func() int64 { looks++; return faults },
			read: func(mapped []byte, from, to int64) {
				asks++
				asked[&mapped[0]] = append(asked[&mapped[0]], [2]int64{from, to})
			},
		})
		from := wanted
		for i, p := range rows {
			if p.file == nil {
				continue
			}
			reading.before(i)
			if asks > 0 && from == wanted {
				from = i
			}
			if i == at {
				faults++
			}
		}
		if at == wanted {
			if asks > 0 || looks > wanted/lookEvery+5 {
				t.Errorf("%d asked for and %d looks, although all was in memory", asks, looks)
			}
			continue
		}
		if from <= at || from > at+lookEvery+2 {
			t.Errorf("row %d was not in memory, which was seen before row %d", at, from)
		}
		if asks == 0 || asks >= wanted-from {
			t.Errorf("%d rows were left, and the system was asked %d times", wanted-from, asks)
		}
		for _, p := range rows[from:] {
			if p.file == nil {
				continue
			}
			start, end := p.file.Extent(p.slot)
			covered := false
			for _, a := range asked[&p.file.Mapped()[0]] {
				covered = covered || a[0] <= start && end <= a[1]
			}
			if !covered {
				t.Fatalf("slot %d was not asked for", p.slot)
			}
		}
	}
}
