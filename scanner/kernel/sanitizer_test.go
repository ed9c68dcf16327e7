//go:build extended && cgo && (amd64 || arm64)

package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The C sources, built with the address and undefined-behaviour sanitizers into a
// program of their own, read and write nothing that is not theirs.
func TestSanitizers(t *testing.T) {
	sources, err := filepath.Glob("*.c")
	if err != nil {
		t.Fatal(err)
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	program := filepath.Join(t.TempDir(), "driver")
	args := []string{"-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		"-o", program, "testdata/driver.c"}
	for _, source := range sources {
		_, arch, ok := strings.Cut(strings.TrimSuffix(source, ".c"), "_")
		if !ok || arch == runtime.GOARCH {
			args = append(args, source)
		}
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
