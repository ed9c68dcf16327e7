package layout

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite-fixture", false, "write testdata/v2 anew; for a new format version, make another folder")

// fixtures are what testdata/v2 holds.
func fixtures(t *testing.T, dir string) (names []string) {
	lean := spec(Signs, 768)
	lean.Lean = true
	leanRecords := spec(Int8, 64)
	leanRecords.Lean = true
	return []string{
		write(t, dir, spec(Signs, 256), sampleRows(11, Signs, 256, 12)),
		write(t, dir, lean, sampleRows(12, Signs, 768, 6)),
		write(t, dir, spec(Int8, 100), sampleRows(13, Int8, 100, 8)),
		write(t, dir, leanRecords, sampleRows(15, Int8, 64, 5)),
		writeValues(t, dir, 100, 5, sampleValues(14, 100, 9)),
		writeFloats(t, dir, 20, 6, sampleFloats(16, 20, 9)),
	}
}

// Files of every version that was ever written are read, and say what they said
// then.
//
// DECISIONS 29
func TestFixturesRead(t *testing.T) {
	if *rewrite {
		rewriteFixtures(t)
	}
	versions, err := filepath.Glob("testdata/v*")
	if err != nil || len(versions) != Version-oldestVersion+1 {
		t.Fatalf("fixtures of %v, %v", versions, err)
	}
	for i, dir := range versions {
		files := 0
		for _, name := range left(t, dir) {
			if text, ok := strings.CutSuffix(name, ".txt"); ok {
				files++
				equalLines(t, dumpFile(t, dir, text), string(read(t, dir, name)))
			}
		}
		if want := []int{4, 6}[i]; files != want {
			t.Errorf("%s has %d files", dir, files)
		}
	}
}

// The same rows give the bytes of the fixture: what differs is a new version.
//
// DECISIONS 29
func TestFixturesAreWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	for _, name := range fixtures(t, dir) {
		if !slices.Equal(read(t, dir, name), read(t, "testdata/v2", name)) {
			t.Errorf("%s has other bytes", name)
		}
	}
}

func dumpFile(t *testing.T, dir, name string) (text string) {
	t.Helper()
	var err error
	dims := page(read(t, dir, name)).get32(atDims)
	if strings.HasSuffix(name, ValuesSuffix) || strings.HasSuffix(name, FloatsSuffix) {
		text, err = dumpValues(openValues(t, dir, name, source(int(dims))))
	} else {
		text, err = dump(open(t, dir, name, source(int(dims))))
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func rewriteFixtures(t *testing.T) {
	const dir = "testdata/v2"
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range fixtures(t, dir) {
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(dumpFile(t, dir, name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
