package shards

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recalld/memory"
	"recalld/scanner"
	"recalld/sqlite"
)

const childFolder = "SHARDS_TEST_CHILD_FOLDER"

// TestMain lets the test's own program be a server that is killed, and a scanner.
func TestMain(m *testing.M) {
	if os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		scanner.Serve(scanner.Options{})
		os.Exit(0)
	}
	if folder := os.Getenv(childFolder); folder != "" {
		write(folder)
	}
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		// Each check opens real files; -rapid.checks asks for more.
		if err := flag.Set("rapid.checks", "30"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// write stores, changes, deletes, seals and merges without end.
func write(folder string) {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	store, err := sqlite.Open(ctx, filepath.Join(folder, "recall.db"), sqlite.Options{})
	check(err)
	index, err := Open(ctx, store, Options{Folder: filepath.Join(folder, "derived", "lexical"), SealRows: 25, BuildText: 2_000, MaxFile: 1 << 20})
	check(err)
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	var kept []memory.Ref
	for i := 0; ; i++ {
		agent := []string{"mia", "ken"}[r.IntN(2)]
		results, err := store.StoreMemories(ctx, []sqlite.NewMemory{{Cell: cellOf(agent), Source: memory.Source{ID: fmt.Sprint("s", i/7)}, Content: words(r.IntN(5_000)) + fmt.Sprint(" ", i)}})
		check(err)
		kept = append(kept, results[0].Ref)
		if i%5 == 4 {
			ref := kept[r.IntN(len(kept))]
			for _, agent := range []string{"mia", "ken"} {
				_, err := store.Delete(ctx, agent, []memory.Ref{ref})
				check(err)
			}
			check(index.Erase(ctx))
		}
		if i%7 == 0 {
			text := words(i) + " changed"
			_, _ = store.Update(ctx, agent, kept[r.IntN(len(kept))], sqlite.Patch{Content: &text})
		}
		if i%11 == 0 {
			check(index.Seal(ctx))
		}
		index.Wake()
		if i == 20 {
			fmt.Println("writing")
		}
	}
}

// killChild runs this program as the child that works on a folder, and kills it a
// while after its first word. It must not have complained.
func killChild(t *testing.T, variable, folder string, after time.Duration) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), variable+"="+folder)
	var complaint strings.Builder
	child.Stderr = &complaint
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var line [8]byte
	if _, err := out.Read(line[:]); err != nil {
		child.Wait()
		t.Fatalf("the child said nothing: %v %s", err, complaint.String())
	}
	time.Sleep(after)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	if complaint.Len() > 0 {
		t.Fatalf("killed after %v: %s", after, complaint.String())
	}
}

// ARCHITECTURE 6, 8.1: a process that is killed at any moment, while sealing,
// merging, erasing or publishing, leaves a derived side that answers like the
// store, at once and after it was built again.
func TestKilledWhileSealing(t *testing.T) {
	w := &world{t: t, folder: t.TempDir()}
	w.opts = Options{Folder: filepath.Join(w.folder, "derived", "lexical")}
	found := 0
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		killChild(t, childFolder, w.folder, time.Duration(r.IntN(150))*time.Millisecond)
		w.openStore()
		w.open()
		for i := range 6 {
			found += len(w.same("mia", words(i*13+round)).Hits)
			found += len(w.same("ken", words(i*17+round)).Hits)
		}
		w.settled()
		if err := w.index.Erase(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			w.same("mia", words(i*13+round))
		}
		w.close()
	}
	if found == 0 {
		t.Error("no query found anything")
	}
}
