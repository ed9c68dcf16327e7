package coordinator

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"recalld/scanner"
	"recalld/sqlite"
)

// everyTest has all tests of this package searched through a scanner: what they
// hold does not depend on who compares.
var everyTest = flag.Bool("through-scanner", false, "search through a scanner in every test")

// TestMain keeps properties over real files to a number of runs that takes
// seconds; -rapid.checks asks for more. The test binary is also the scanner that
// tests start.
func TestMain(m *testing.M) {
	if os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		scanner.Serve(scanner.Options{})
		os.Exit(0)
	}
	if folder := os.Getenv(childFolder); folder != "" {
		workWithoutEnd(folder)
	}
	flag.Parse()
	given := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "12", "rapid.shrinktime": "2s"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// bench is a coordinator over a real file with a clock that only the test
// moves.
type bench struct {
	*Coordinator
	t     testing.TB
	path  string
	store *sqlite.Store
	now   *atomic.Int64 // UTC milliseconds
	cfg   Config
}

var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// open starts a coordinator over a new file in a folder of the test.
func open(t testing.TB, settings map[string]string) *bench {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "recall.db"), settings)
}

func openAt(t testing.TB, path string, settings map[string]string) *bench {
	t.Helper()
	var through Scanner
	if *everyTest {
		through = ownScanner(t)
	}
	return openWith(t, path, settings, through)
}

// ownScanner is this test binary as the scanner.
func ownScanner(t testing.TB) Scanner {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "rs") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	return Scanner{Command: []string{program}, Runtime: sockets, Patience: time.Minute}
}

func openWith(t testing.TB, path string, settings map[string]string, through Scanner) *bench {
	t.Helper()
	b := &bench{t: t, path: path, now: new(atomic.Int64)}
	b.now.Store(start.UnixMilli())
	// The model is in process, small and the same everywhere. Blocks are for the
	// tests that ask for them: what they add to an answer grows while they are built.
	overrides := map[string]string{"embedding.backend": "hash", "blocks.retrieve": "false"}
	maps.Copy(overrides, settings)
	b.cfg = Config{Overrides: overrides, Clock: b.clock, Version: "test", Seed: 1, Scanner: through}
	b.up()
	t.Cleanup(b.down)
	return b
}

func (b *bench) clock() time.Time { return time.UnixMilli(b.now.Load()).UTC() }

func (b *bench) pass(d time.Duration) { b.now.Add(d.Milliseconds()) }

func (b *bench) up() {
	b.t.Helper()
	store, err := sqlite.Open(b.t.Context(), b.path, sqlite.Options{Clock: b.clock})
	if err != nil {
		b.t.Fatal(err)
	}
	b.cfg.Store = store
	c, err := New(b.t.Context(), b.cfg)
	if err != nil {
		b.t.Fatal(err, store.Close())
	}
	b.store, b.Coordinator = store, c
}

func (b *bench) down() {
	if b.Coordinator == nil {
		return
	}
	if err := b.Coordinator.Close(); err != nil {
		b.t.Error(err)
	}
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
	b.Coordinator = nil
}

// restart closes everything and opens the same file again.
func (b *bench) restart() {
	b.t.Helper()
	b.down()
	b.up()
}

// put stores items of an agent, each of which must be accepted, and returns
// their references.
func (b *bench) put(agent string, items ...StoreItem) []string {
	b.t.Helper()
	answer, err := b.Store(context.Background(), StoreRequest{Agent: agent, Items: items})
	if err != nil {
		b.t.Fatal(err)
	}
	refs := make([]string, len(items))
	for i, r := range answer.Results {
		if r.Outcome == OutcomeRejected {
			b.t.Fatalf("item %d: %s", i, r.Error)
		}
		refs[i] = r.Ref
	}
	return refs
}

func (b *bench) recall(r RecallRequest) *RecallResponse {
	b.t.Helper()
	answer, err := b.Recall(context.Background(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

func refsIn(rows []Row) []string {
	refs := make([]string, len(rows))
	for i, r := range rows {
		refs[i] = r.Ref
	}
	return refs
}

func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func say(content string) StoreItem { return StoreItem{Content: content} }

func pointer[T any](v T) *T { return &v }
