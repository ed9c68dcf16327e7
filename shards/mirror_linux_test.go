package shards

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// DECISIONS 14: when Erase returns the scanner has closed the files that held the
// words, so that nothing of them is left on the disk.
func TestErasedFilesAreClosedInTheScanner(t *testing.T) {
	w, p := newMirrored(t, Options{})
	w.flood(cellOf("mia"), 30, words)
	ref := w.say(cellOf("mia"), "s", "quagga")
	if err := w.index.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.copied()
	w.mirrored("mia", "quagga")
	maps := func() string { // one file of postings, and which
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.number(t)))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(maps, []byte(fileSuffix)) != 1 {
			t.Fatalf("not one file is mapped:\n%s", maps)
		}
		for line := range bytes.Lines(maps) {
			if bytes.Contains(line, []byte(fileSuffix)) {
				return string(line[bytes.LastIndexByte(line, '/'):])
			}
		}
		return ""
	}
	before := maps()
	w.delete("mia", ref)
	if err := w.index.Erase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := maps(); after == before || bytes.Contains([]byte(after), []byte("deleted")) {
		t.Errorf("the scanner has %s mapped, which was %s before", after, before)
	}
}
