package lexical

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"recalld/memory"
)

var rewrite = flag.Bool("rewrite-fixture", false, "write testdata/v1.hex anew, for a new format version")

// fixtureDocs is what testdata/v1.hex holds: two cells, both kinds, lists of one
// row, of several and of more than one block.
func fixtureDocs() []Doc {
	docs := []Doc{
		{Cell: 1, Ref: mem(1), Session: "s", Time: at("2026-11-30T09:00:00+09:00"), Text: "Did you repair the kettle, the kettle?"},
		{Cell: 1, Ref: mem(2), Session: "s", Text: "会議は11月30日です"},
		{Cell: 1, Ref: mem(70_000), Text: "cfg.MaxRetries = 3"},
		{Cell: 1, Ref: memory.Ref{Kind: memory.KindEpisode, ID: 1}, Text: "We repaired a kettle."},
	}
	for i := range int64(150) {
		docs = append(docs, Doc{Cell: 9, Ref: mem(100 + i), Session: "t", Text: "tick tock"})
	}
	return docs
}

// TestFixtureReads opens the bytes that the first version of this format wrote.
//
// DECISIONS 29: every version has a fixture.
func TestFixtureReads(t *testing.T) {
	f := seal(t, fixtureDocs()...)
	if *rewrite {
		if err := os.WriteFile("testdata/v1.hex", []byte(hex.EncodeToString(f.bytes)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("testdata/v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	old, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(old, f.bytes) {
		t.Error("the same rows give other bytes than the fixture: a new format or analyser needs a new version and a new fixture")
	}
	opened, err := Open(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Verify(); err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(opened.Cells); !slices.Equal(got, []Cell{1, 9}) || opened.Rows() != 154 {
		t.Errorf("cells %v, %d rows", got, opened.Rows())
	}
	for _, q := range []Query{
		{Text: "kettle", Cells: []Cell{1}, Kind: memory.KindMemory, K: 5},
		{Text: "kettle", Cells: []Cell{1}, Kind: memory.KindEpisode, K: 5},
		{Text: "会議 retries", Cells: []Cell{1, 9}, Kind: memory.KindMemory, K: 5},
		{Text: "tock", Cells: []Cell{9}, Kind: memory.KindMemory, K: 150},
	} {
		q.Explain = true
		if got, want := mustSearch(t, NewIndex(opened), q).Hits, plainSearch(fixtureDocs(), q); len(want) == 0 || !equalHits(got, want) {
			t.Errorf("%q: %v, want %v", q.Text, got, want)
		}
	}
}

// TestOtherVersionsAreRefused opens files of a later format and analyser.
func TestOtherVersionsAreRefused(t *testing.T) {
	for _, at := range []int{8, 10} {
		b := bytes.Clone(seal(t, fixtureDocs()...).bytes)
		binary.LittleEndian.PutUint16(b[at:], 99)
		binary.LittleEndian.PutUint32(b[fileHeader-4:], checksum(b[:fileHeader-4]))
		var version *VersionError
		if _, err := Open(b); !errors.As(err, &version) || errors.Is(err, ErrCorrupt) {
			t.Errorf("a version at byte %d gives %v", at, err)
		}
	}
}

// TestEveryFlippedBitIsNoticed flips each bit of a file: the file is refused, or
// the bit is padding and the answers are the same.
//
// ARCHITECTURE 6: a wrong row is never served.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	b := seal(t, fixtureDocs()...).bytes
	queries := []Query{
		{Text: "kettle repair 会議 2026", Cells: []Cell{1, 9}, Kind: memory.KindMemory, K: 20},
		{Text: "kettle", Cells: []Cell{1}, Kind: memory.KindEpisode, K: 20},
		{Text: "tock", Cells: []Cell{9}, Kind: memory.KindMemory, K: 200},
	}
	answers := func(b []byte) ([]Result, error) {
		f, err := Open(b)
		if err != nil {
			return nil, err
		}
		var all []Result
		for _, q := range queries {
			res, err := NewIndex(f).Search(context.Background(), q)
			if err != nil {
				return nil, err
			}
			all = append(all, res)
		}
		return all, nil
	}
	want, err := answers(b)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(b)
	unnoticed := 0
	for bit := range len(b) * 8 {
		flipped[bit/8] ^= 1 << (bit % 8)
		got, err := answers(flipped)
		flipped[bit/8] ^= 1 << (bit % 8)
		switch {
		case err == nil && !reflect.DeepEqual(got, want):
			t.Fatalf("bit %d of byte %d changes an answer", bit%8, bit/8)
		case err == nil:
			unnoticed++
		case !errors.Is(err, ErrCorrupt):
			if version := (*VersionError)(nil); !errors.As(err, &version) {
				t.Fatalf("bit %d of byte %d gives an unmarked error: %v", bit%8, bit/8, err)
			}
		}
	}
	f := seal(t, fixtureDocs()...)
	padding := 0
	for i := range f.count {
		padding += packPad + -len(f.partitionBytes(i))&(partitionAlign-1)
	}
	if unnoticed != 8*padding {
		t.Errorf("%d bits were flipped without notice, the padding has %d", unnoticed, 8*padding)
	}
	for n := range len(b) {
		if _, err := answers(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a file cut at %d of %d bytes gives %v", n, len(b), err)
		}
	}
}

// repair sets all checksums to what the bytes give, so that fuzzing reaches what
// is behind them.
func repair(b []byte) {
	if len(b) < fileHeader {
		return
	}
	copy(b, fileMagic)
	binary.LittleEndian.PutUint16(b[8:], FormatVersion)
	binary.LittleEndian.PutUint16(b[10:], AnalyserVersion)
	binary.LittleEndian.PutUint64(b[24:], uint64(len(b)))
	count := int(binary.LittleEndian.Uint32(b[12:]))
	if count <= (len(b)-fileHeader)/directoryRecord {
		directory := b[fileHeader : fileHeader+count*directoryRecord]
		binary.LittleEndian.PutUint32(b[32:], checksum(directory))
		for i := range count {
			start := binary.LittleEndian.Uint64(directory[i*directoryRecord+8:])
			size := uint64(binary.LittleEndian.Uint32(directory[i*directoryRecord+16:]))
			if start < uint64(len(b)) && size <= uint64(len(b))-start && size >= partitionHeader {
				repairPartition(b[start : start+size])
			}
		}
	}
	binary.LittleEndian.PutUint32(b[fileHeader-4:], checksum(b[:fileHeader-4]))
}

func repairPartition(p []byte) {
	for i := range sectionCount {
		record := p[28+i*12:]
		start := uint64(binary.LittleEndian.Uint32(record))
		size := uint64(binary.LittleEndian.Uint32(record[4:]))
		if start+size <= uint64(len(p)) {
			binary.LittleEndian.PutUint32(record[8:], checksum(p[start:start+size]))
		}
	}
	binary.LittleEndian.PutUint32(p[partitionHeader-4:], checksum(p[:partitionHeader-4]))
}

// FuzzFile reads damaged files whose checksums are right: every use ends, in an
// answer or a marked error.
func FuzzFile(f *testing.F) {
	good := seal(f, fixtureDocs()...).bytes
	f.Add(uint32(0), []byte{1}, uint32(0))
	for _, at := range []uint32{12, 40, 90, 100, 120, 150, 180, 200, 300, 400} {
		f.Add(at, []byte{0xFF, 0x7F}, uint32(0))
	}
	f.Fuzz(func(t *testing.T, place uint32, patch []byte, cut uint32) {
		b := bytes.Clone(good)
		copy(b[int(place)%len(b):], patch)
		b = b[:len(b)-int(cut)%len(b)]
		repair(b)
		marked := func(err error) {
			if err != nil && !errors.Is(err, ErrCorrupt) {
				if version := (*VersionError)(nil); !errors.As(err, &version) {
					t.Fatalf("an unmarked error: %v", err)
				}
			}
		}
		file, err := Open(b)
		marked(err)
		if err != nil {
			return
		}
		marked(file.Verify())
		x := NewIndex(file)
		search := func() {
			for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
				_, err := x.Search(context.Background(), Query{Text: "kettle repair 会議 2026 tick cfg.MaxRetries", Cells: slices.Collect(file.Cells), Kind: kind, K: 20, Explain: true})
				marked(err)
			}
		}
		search()
		marked(x.Delete(1, mem(2)))
		marked(x.Put(Doc{Cell: 1, Ref: mem(3), Session: "s", Text: "kettle"}))
		search()
		_, err = x.Merge([]*File{file}, true)
		marked(err)
	})
}
