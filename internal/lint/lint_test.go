package lint

import (
	"path/filepath"
	"testing"
)

// Everything that is committed keeps the project's rules.
func TestRepository(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root, "recalld")
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 20 {
		t.Fatalf("only %d Go files found below %s", len(tree.Files), root)
	}
	found, err := Check(tree)
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}
