package guard

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that the page on security names is there, in the folder that it
// names: a line of defence without a test is a claim.
func TestThreatsNameTheirTests(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	threats := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.Contains(line, "---") || strings.Contains(line, "| attacker |") {
			continue
		}
		threats++
		named := regexp.MustCompile("(?:`([a-z/]+)` · )?`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(cells[4], -1)
		if len(named) == 0 {
			t.Errorf("no test attacks: %s", line)
		}
		folder := "front/guard"
		for _, n := range named {
			if n[1] != "" {
				folder = n[1]
			}
			files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				found = found || strings.Contains(string(source), "\nfunc "+n[2]+"(")
			}
			if !found {
				t.Errorf("%s has no %s", folder, n[2])
			}
		}
	}
	if threats < 19 {
		t.Errorf("only %d threats were read", threats)
	}
}
