package guard

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"recalld/access"
)

const token = "a-token-of-the-tests-0123"

// grantsOf returns grants of one client with the token.
func grantsOf(t testing.TB, agents string) *access.Grants {
	t.Helper()
	path := filepath.Join(t.TempDir(), "grants.json")
	text := `{"clients": [{"name": "tester", "token": "` + token + `", "agents": ` + agents + `}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g, _, err := access.ReadFile(path, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func granted(t testing.TB, agents string) *access.Client {
	t.Helper()
	return grantsOf(t, agents).Identify(token)
}

func mustNew(t testing.TB, next http.Handler, o Options) http.Handler {
	t.Helper()
	h, err := New(next, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
