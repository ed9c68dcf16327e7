//go:build cgo && (linux || darwin)

package powercut

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestABI: a VFS whose structures differ from the linked SQLite's would corrupt memory, so both headers must declare the
// same tokens.
func TestABI(t *testing.T) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/mattn/go-sqlite3")
	folder, err := list.Output()
	if err != nil {
		t.Fatalf("locate go-sqlite3: %v", err)
	}
	ours := header(t, "abi.h")
	theirs := header(t, filepath.Join(strings.TrimSpace(string(folder)), "sqlite3-binding.h"))

	for _, name := range []string{"sqlite3_file", "sqlite3_io_methods", "sqlite3_vfs"} {
		declaration := regexp.MustCompile(`struct ` + name + ` \{([^}]*)\}`)
		want, got := declaration.FindStringSubmatch(theirs), declaration.FindStringSubmatch(ours)
		if want == nil || got == nil || squeeze(want[1]) != squeeze(got[1]) {
			t.Errorf("struct %s differs:\nours   %q\ntheirs %q", name, got, want)
		}
	}
	constants := regexp.MustCompile(`(?m)^#define (SQLITE_\w+) +(.+?) *$`)
	theirValues := map[string]string{}
	for _, match := range constants.FindAllStringSubmatch(theirs, -1) {
		theirValues[match[1]] = match[2]
	}
	compared := 0
	for _, match := range constants.FindAllStringSubmatch(ours, -1) {
		compared++
		if want, found := theirValues[match[1]]; !found || squeeze(want) != squeeze(match[2]) {
			t.Errorf("%s is %s, in go-sqlite3 %s", match[1], match[2], want)
		}
	}
	if compared < 15 {
		t.Errorf("only %d constants were compared", compared)
	}
}

// header returns a C header without comments.
func header(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(text), "")
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
