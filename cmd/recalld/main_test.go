package main

import (
	"io"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"recalld/scanner"
)

// The test binary is recalld itself for the scripts, for tests that start
// processes, and for servers under test that start a scanner.
func TestMain(m *testing.M) {
	if os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){
		"recalld":              main,
		"recalld-unprivileged": unprivileged,
		"recalld-held":         held,
	})
}

// held is recalld with a client that says nothing and stays.
func held() {
	in, _ := io.Pipe()
	os.Exit(run(os.Args[1:], in, os.Stdout, os.Stderr))
}

// unprivileged is recalld for whom the modes of files count, also when root
// runs the tests.
func unprivileged() {
	if err := dropOverrides(); err != nil {
		os.Stderr.WriteString("drop privileges: " + err.Error() + "\n")
		os.Exit(3)
	}
	main()
}
