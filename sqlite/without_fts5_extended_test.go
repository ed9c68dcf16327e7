//go:build extended

package sqlite_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestBuiltWithoutFTS5 builds this test without the tag and runs TestWithoutFTS5.
func TestBuiltWithoutFTS5(t *testing.T) {
	out, err := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestWithoutFTS5$", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWithoutFTS5") {
		t.Errorf("%v\n%s", err, out)
	}
}
