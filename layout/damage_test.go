package layout

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recalld/memory"
)

// A specimen is a file of some kind, and how to open it and read all of it.
type specimen struct {
	name string
	read func(dir, name string) (text string, opened bool, err error)
	all  func(dir, name string) error // open and verify
}

func segmentSpecimen(name string, of Source) specimen {
	return specimen{name,
		func(dir, name string) (string, bool, error) {
			s, err := OpenSegment(dir, name, of)
			if err != nil {
				return "", false, err
			}
			text, err := dump(s)
			return text, true, errors.Join(err, s.Close())
		},
		func(dir, name string) error {
			s, err := OpenSegment(dir, name, of)
			if err != nil {
				return err
			}
			return errors.Join(s.Verify(context.Background(), nil), s.Close())
		}}
}

func valuesSpecimen(name string, of Source) specimen {
	return specimen{name,
		func(dir, name string) (string, bool, error) {
			v, err := OpenValues(dir, name, of)
			if err != nil {
				return "", false, err
			}
			text, err := dumpValues(v)
			return text, true, errors.Join(err, v.Close())
		},
		func(dir, name string) error {
			v, err := OpenValues(dir, name, of)
			if err != nil {
				return err
			}
			return errors.Join(v.Verify(context.Background(), nil), v.Close())
		}}
}

// specimens writes one file of each kind.
func specimens(t testing.TB, dir string) []specimen {
	lean := spec(Signs, 768)
	lean.Lean = true
	return []specimen{
		segmentSpecimen(write(t, dir, spec(Signs, 256), sampleRows(1, Signs, 256, 150)), source(256)),
		segmentSpecimen(write(t, dir, lean, sampleRows(2, Signs, 768, 60)), source(768)),
		segmentSpecimen(write(t, dir, spec(Int8, 100), sampleRows(3, Int8, 100, 100)), source(100)),
		valuesSpecimen(writeValues(t, dir, 100, 9, sampleValues(4, 100, 120)), source(100)),
		valuesSpecimen(writeFloats(t, dir, 50, 10, sampleFloats(5, 50, 120)), source(50)),
	}
}

// 1,000 bits that flip, files that are cut or grow, and stretches that become
// zero: none gives an answer that differs, and a scrub sees every one. No byte is
// unchecked.
//
// DECISIONS 30
func TestNoDamageGoesUnseen(t *testing.T) {
	dir := t.TempDir()
	wrong, late := 0, 0
	for i, file := range specimens(t, dir) {
		rng := rand.New(rand.NewPCG(uint64(i), 77))
		whole := read(t, dir, file.name)
		want, opened, err := file.read(dir, file.name)
		if !opened || err != nil {
			t.Fatal(err)
		}
		for range 250 {
			damaged := harm(rng, whole)
			replace(t, dir, file.name, damaged)
			got, opened, err := file.read(dir, file.name)
			switch {
			case err == nil && got != want:
				wrong++
			case err == nil:
				late++
			case !errors.Is(err, ErrDamaged):
				t.Fatalf("damage is %v (opened: %v)", err, opened)
			}
			if err := file.all(dir, file.name); !errors.Is(err, ErrDamaged) {
				t.Fatalf("a scrub says %v", err)
			}
		}
	}
	// Only the bytes of erased slots are left to the scrub.
	if wrong > 0 || late == 0 || late > 500/5 {
		t.Errorf("%d wrong answers; %d only a scrub sees", wrong, late)
	}
}

// harm returns a copy of a file that differs from it.
func harm(rng *rand.Rand, whole []byte) []byte {
	for {
		b := bytes.Clone(whole)
		switch rng.IntN(10) {
		case 0:
			b = b[:rng.IntN(len(b))]
		case 1:
			b = append(b, make([]byte, 1+rng.IntN(5000))...)
		case 2:
			at := rng.IntN(len(b))
			clear(b[at:min(len(b), at+512)])
		default:
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		if !bytes.Equal(b, whole) {
			return b
		}
	}
}

// What nothing can be read without is verified when the file is opened.
//
// DECISIONS 30
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	rows := sampleValues(1, 256, 40)
	for _, name := range []string{write(t, dir, spec(Signs, 256), sampleRows(1, Signs, 256, 40)), writeValues(t, dir, 256, 1, rows)} {
		whole := read(t, dir, name)
		for what, at := range map[string]int{"mark": 3, "counts": 146, "sum": 400, "zeroes": 3000, "list at the end": len(whole) - 4, "length": len(whole)} {
			b := append(bytes.Clone(whole), 0)
			if at < len(whole) {
				b = b[:len(whole)]
				b[at] ^= 1
			}
			replace(t, dir, name, b)
			s, err := OpenSegment(dir, name, source(256))
			if filepath.Ext(name) == ValuesSuffix {
				_, err = OpenValues(dir, name, source(256))
			}
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%s of %s is opened: %v, %v", what, name, s, err)
			}
		}
	}
}

// A chunk that nobody reads may be damaged; the others answer. The error says
// where.
//
// DECISIONS 30
func TestChunksAreVerifiedOnFirstTouch(t *testing.T) {
	dir := t.TempDir()
	const rows = 3 * ChunkBytes / 128
	w, err := Create(dir, spec(Signs, 1024))
	if err != nil {
		t.Fatal(err)
	}
	code := make([]byte, 128)
	for i := range rows {
		binary.LittleEndian.PutUint64(code, uint64(i))
		if err := w.Add(Row{Cell: Cell{Agent: 1}, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(i/1024 + 1)}, Block: i % 1024, Code: code}); err != nil {
			t.Fatal(err)
		}
	}
	name, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	b := read(t, dir, name)
	b[HeaderBytes+ChunkBytes+5] ^= 4
	replace(t, dir, name, b)
	s := open(t, dir, name, source(1024))
	const perChunk = ChunkBytes / 128
	if err := s.Touch(Range{0, perChunk}, Range{2 * perChunk, rows}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Range{{perChunk, perChunk + 1}, {0, perChunk + 1}, {2*perChunk - 1, rows}} {
		var damage *DamageError
		if err := s.Touch(r); !errors.As(err, &damage) || damage.Section != "codes" || damage.Chunk != 1 || damage.File != name {
			t.Errorf("rows %v: %v", r, err)
		}
	}
	if err := s.Verify(t.Context(), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("a scrub says %v", err)
	}
}

// A file that is cut while it is mapped does not end the process.
func TestCutWhileOpen(t *testing.T) {
	dir := t.TempDir()
	rows := sampleRows(8, Signs, 1536, 400)
	s := open(t, dir, write(t, dir, spec(Signs, 1536), rows), source(1536))
	v := openValues(t, dir, writeValues(t, dir, 1024, 1, sampleValues(8, 1024, 50)), source(1024))
	if err := errors.Join(s.Intact(), v.Intact()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{s.Name(), v.Name()} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Chmod(path, 0o600), os.Truncate(path, HeaderBytes)); err != nil {
			t.Fatal(err)
		}
	}
	for what, err := range map[string]error{
		"intact":        s.Intact(),
		"touch":         s.Touch(Range{0, len(rows)}),
		"verify":        s.Verify(t.Context(), nil),
		"values intact": v.Intact(),
		"values norm":   second(v.Norm(0)),
		"values verify": v.Verify(t.Context(), nil),
	} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The length is said, and is looked at whatever the time of the change.
	for _, err := range []error{s.Intact(), v.Intact()} {
		if err == nil || !strings.Contains(err.Error(), "has 4096 bytes") {
			t.Errorf("cut short: %v", err)
		}
	}
}

func second(_ int32, err error) error { return err }

// Guard is for faults alone.
func TestGuardLetsPanicsPass(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a panic was caught")
		}
	}()
	_ = Guard(func() error { panic("a bug") })
}

// A file of another store, model or width is not opened, and neither is one that
// has another's name.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	segment := write(t, dir, spec(Signs, 256), sampleRows(1, Signs, 256, 10))
	values := writeValues(t, dir, 256, 1, sampleValues(1, 256, 10))
	for what, change := range map[string]func(*Source){
		"store":    func(s *Source) { s.TruthID = "another" },
		"model":    func(s *Source) { s.Model++ },
		"identity": func(s *Source) { s.Identity[31]++ },
		"dims":     func(s *Source) { s.Dims = 250 },
	} {
		of := source(256)
		change(&of)
		if _, err := OpenSegment(dir, segment, of); !errors.Is(err, ErrForeign) {
			t.Errorf("segment of another %s: %v", what, err)
		}
		if _, err := OpenValues(dir, values, of); !errors.Is(err, ErrForeign) {
			t.Errorf("values of another %s: %v", what, err)
		}
	}
	other := write(t, dir, spec(Signs, 256), sampleRows(2, Signs, 256, 10))
	replace(t, dir, other, read(t, dir, segment))
	if _, err := OpenSegment(dir, other, source(256)); !errors.Is(err, ErrForeign) {
		t.Errorf("a segment under another's name: %v", err)
	}
}

// Files of versions and kinds to come are told from damage.
func TestOtherVersions(t *testing.T) {
	dir := t.TempDir()
	segment := read(t, dir, write(t, dir, spec(Signs, 256), sampleRows(1, Signs, 256, 10)))
	values := read(t, dir, writeValues(t, dir, 256, 1, sampleValues(1, 256, 10)))
	floats := read(t, dir, writeFloats(t, dir, 256, 1, sampleFloats(1, 256, 10)))
	for _, c := range []struct {
		file   []byte
		suffix string
		at     int
		value  uint16
	}{
		{segment, SegmentSuffix, 8, Version + 1}, {segment, SegmentSuffix, 8, 0},
		{segment, SegmentSuffix, atKind, 3}, {segment, SegmentSuffix, atKind, 0},
		{values, ValuesSuffix, 8, Version + 1}, {values, ValuesSuffix, 8, 0},
		{floats, FloatsSuffix, 8, Version + 1}, {floats, FloatsSuffix, 8, 0},
	} {
		p := page(bytes.Clone(c.file))
		p.put16(c.at, c.value)
		name := p[:HeaderBytes].seal(p[atSum:atSum+32], c.suffix)
		replace(t, dir, name, p)
		_, err := OpenSegment(dir, name, source(256))
		if c.suffix != SegmentSuffix {
			_, err = OpenValues(dir, name, source(256))
		}
		if !errors.Is(err, ErrVersion) {
			t.Errorf("%d at %d of %s: %v", c.value, c.at, c.suffix, err)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenSegment(dir, "gone"+SegmentSuffix, source(256)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	replace(t, dir, "empty", nil)
	replace(t, dir, "other", bytes.Repeat([]byte("会議は11月30日です"), 1000))
	for _, name := range []string{"folder", "empty", "other"} {
		if _, err := OpenSegment(dir, name, source(256)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := OpenValues(dir, name, source(256)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
