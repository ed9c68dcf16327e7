package layout

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"recalld/memory"
)

// Rows come back with their norms, whatever their width.
//
// DECISIONS 22, DECISIONS 30, BR-045, BR-046
func TestValuesComeBack(t *testing.T) {
	for _, dims := range []int{1, 7, 8, 100, 256, 1024, MaxDims} {
		dir, want := t.TempDir(), sampleValues(uint64(dims), dims, 40)
		for i := range want {
			if want[i] != nil && i%3 == 0 {
				for j := range want[i] {
					want[i][j] = 0x81 // -127 everywhere: the highest norm
				}
			}
		}
		v := openValues(t, dir, writeValues(t, dir, dims, 6, want), source(dims))
		if err := v.Verify(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if h := v.Header(); h.Number != 6 || h.Slots != 40 || h.Erased != 6 || h.Source != source(dims) {
			t.Errorf("the header is %+v", h)
		}
		for slot, row := range want {
			got, norm, err := v.Row(uint32(slot))
			if row == nil {
				if !errors.Is(err, ErrErased) {
					t.Errorf("an erased slot gives %v", err)
				}
				continue
			}
			if err != nil || !bytes.Equal(got, row) {
				t.Fatalf("slot %d is %v, %v", slot, got, err)
			}
			sum := 0
			for _, x := range row {
				sum += int(int8(x)) * int(int8(x))
			}
			if same, err := v.Norm(uint32(slot)); int(norm) != sum || same != norm || err != nil {
				t.Errorf("slot %d has norm %d, not %d", slot, norm, sum)
			}
			if at := v.Slots()[slot*v.Stride():]; !bytes.Equal(at[:dims], row) {
				t.Errorf("slot %d stands elsewhere", slot)
			}
			if from, to := v.Extent(uint32(slot)); !bytes.Equal(v.Mapped()[from:to][:dims], row) {
				t.Errorf("slot %d has extent %d to %d", slot, from, to)
			}
		}
	}
}

// Vectors come back bit for bit, zero ones too, whatever their width; an erasure
// leaves the others where they are.
//
// DECISIONS 14, DECISIONS 20, DECISIONS 30
func TestFloatsComeBack(t *testing.T) {
	for _, dims := range []int{1, 2, 7, 256, 1024} {
		dir, want := t.TempDir(), sampleFloats(uint64(dims), dims, 40)
		odd := make([]float32, dims)
		odd[0], odd[dims-1] = math.MaxFloat32, float32(math.Copysign(0, -1))
		want[20] = FloatBytes(nil, odd)
		name := writeFloats(t, dir, dims, 6, want)
		v := openValues(t, dir, name, source(dims))
		if h := v.Header(); h.Number != 6 || h.Slots != 40 || h.Erased != 6 || !h.Floats || h.Source != source(dims) || filepath.Ext(name) != FloatsSuffix {
			t.Errorf("the header of %s is %+v", name, h)
		}
		again, err := v.Erase(t.Context(), dir, []uint32{5})
		if err != nil {
			t.Fatal(err)
		}
		left := openValues(t, dir, again, source(dims))
		for _, v := range []*Values{v, left} {
			if err := v.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			for slot, row := range want {
				got, err := v.Vector(uint32(slot))
				if row == nil || v == left && slot == 5 {
					if !errors.Is(err, ErrErased) {
						t.Errorf("an erased slot gives %v", err)
					}
					continue
				}
				if err != nil || !bytes.Equal(FloatBytes(nil, got), row) {
					t.Fatalf("slot %d is %v, %v", slot, got, err)
				}
				if raw, _, err := v.Row(uint32(slot)); err != nil || !bytes.Equal(raw, row) {
					t.Fatalf("slot %d is %v, %v", slot, raw, err)
				}
			}
		}
		if len(want[5]) > 4 && bytes.Contains(left.Mapped(), want[5]) {
			t.Error("slot 5 is still in the file")
		}
	}
}

// Rows of int8 are never read as floats, nor those of float32 with a norm.
func TestKindsOfValuesAreNotMistaken(t *testing.T) {
	dir := t.TempDir()
	ints := openValues(t, dir, writeValues(t, dir, 64, 1, sampleValues(1, 64, 3)), source(64))
	if _, err := ints.Vector(0); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	floats := openValues(t, dir, writeFloats(t, dir, 64, 1, sampleFloats(1, 64, 3)), source(64))
	if _, err := floats.Norm(1); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// A row in the place of another one is damage, though it is whole.
func TestRowsKnowTheirPlace(t *testing.T) {
	dir := t.TempDir()
	name := writeValues(t, dir, 64, 1, sampleValues(1, 64, 3))
	b := read(t, dir, name)
	stride := ValuesHeader{Source: source(64)}.stride()
	copy(b[HeaderBytes:], b[HeaderBytes+stride:][:stride])
	replace(t, dir, name, b)
	v := openValues(t, dir, name, source(64))
	if _, _, err := v.Row(0); !errors.Is(err, ErrDamaged) {
		t.Errorf("the second row is served as the first: %v", err)
	}
	if _, _, err := v.Row(1); err != nil {
		t.Error(err)
	}
}

// Erasing rewrites the file without the rows; everything else stays where it is.
//
// DECISIONS 14
func TestErase(t *testing.T) {
	dir, rows := t.TempDir(), sampleValues(5, 256, 60)
	v := openValues(t, dir, writeValues(t, dir, 256, 2, rows), source(256))
	gone := []uint32{40, 0, 3, 40, 59}
	name, err := v.Erase(t.Context(), dir, gone)
	if err != nil {
		t.Fatal(err)
	}
	left := openValues(t, dir, name, source(256))
	if err := left.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for slot, row := range rows {
		got, _, err := left.Row(uint32(slot))
		switch {
		case row == nil || slices.Contains(gone, uint32(slot)):
			if !errors.Is(err, ErrErased) {
				t.Errorf("slot %d: %v", slot, err)
			}
			if row != nil && bytes.Contains(left.Mapped(), row) {
				t.Errorf("slot %d is still in the file", slot)
			}
		case err != nil || !bytes.Equal(got, row):
			t.Errorf("slot %d is %v, %v", slot, got, err)
		}
	}
	if h := left.Header(); h.Number != 2 || h.Slots != 60 {
		t.Errorf("the header is %+v", h)
	}
	if again, err := left.Erase(t.Context(), dir, nil); err != nil || again != name {
		t.Errorf("erasing nothing gives %s, %v", again, err)
	}
}

func TestValuesThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	w, err := CreateValues(dir, ValuesSpec{Source: source(8)})
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range [][]byte{nil, make([]byte, 7), make([]byte, 9), make([]byte, 8)} {
		if _, err := w.Add(values); !errors.Is(err, memory.ErrInvalid) || w.Slots() != 0 {
			t.Errorf("%v: %v", values, err)
		}
	}
	if err := w.Abandon(); err != nil {
		t.Error(err)
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}
