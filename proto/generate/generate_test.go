package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What is committed is what the generator makes of the contract.
func TestCommittedCodeIsCurrent(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := generate(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 6 {
		t.Fatalf("generated %d files, want 6", len(files))
	}
	for _, f := range files {
		committed, err := os.ReadFile(filepath.Join(root, "proto", f.name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(committed, f.content) {
			t.Errorf("%s is not what the generator makes; run `go generate ./proto/...`", f.name)
		}
	}
}
