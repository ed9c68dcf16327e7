package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every invariant of the blocks, and each mutation that their ledger names, has an
// entry; the edit of each entry fits its file once, and its package has a test of
// that name. Whether the test turns red, a run of the command tells.
//
// BR-146
func TestEveryInvariantHasAMutation(t *testing.T) {
	all, err := readLists("list")
	if err != nil {
		t.Fatal(err)
	}
	for row := 137; row <= 151; row++ {
		if row == 146 {
			continue
		}
		id := fmt.Sprintf("BR-%d", row)
		found := 0
		for _, m := range all {
			if !slices.Contains(strings.Split(m.row, ", "), id) {
				continue
			}
			found++
			body, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m.file)))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(body), m.old); n != 1 {
				t.Errorf("%s of %s: old stands %d times in %s", m.id(), id, n, m.file)
			}
			if !hasTest(t, m) {
				t.Errorf("%s of %s: %s has no test that matches %s", m.id(), id, m.pkg, m.test)
			}
		}
		if found == 0 {
			t.Errorf("%s has no mutation", id)
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// hasTest looks for the test of a mutation in the files of its package.
func hasTest(t *testing.T, m mutation) bool {
	t.Helper()
	name, _, _ := strings.Cut(m.test, "/")
	wanted, err := regexp.Compile(name)
	if err != nil {
		t.Fatalf("%s: %v", m.id(), err)
	}
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(m.pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testName.FindAllStringSubmatch(string(body), -1) {
			if wanted.MatchString(found[1]) {
				return true
			}
		}
	}
	return false
}
