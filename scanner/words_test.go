package scanner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	"recalld/lexical"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// wordsWorld is an index, and a server whose copy is to be equal to it.
type wordsWorld struct {
	t       *testing.T
	folder  string // of postings
	index   *lexical.Index
	words   *Words
	version uint64
}

func newWordsWorld(t *testing.T) *wordsWorld {
	t.Helper()
	derived := t.TempDir()
	server := NewServer(Options{Threads: 1})
	t.Cleanup(server.Close)
	if _, err := server.Open(t.Context(), &scannerv1.OpenRequest{Folder: filepath.Join(derived, "codes"), TruthId: truthID}); err != nil {
		t.Fatal(err)
	}
	w := &wordsWorld{t: t, folder: filepath.Join(derived, "lexical"), index: lexical.NewIndex(), words: NewWords(server)}
	t.Cleanup(w.words.Close)
	if err := os.Mkdir(w.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

func wordsRow(cell, id int64, text string) *scannerv1.WordRow {
	return &scannerv1.WordRow{Cell: cell, Ref: &scannerv1.Ref{Kind: scannerv1.Kind_KIND_MEMORY, Id: id}, Session: "s", Text: text,
		Time: &scannerv1.WordTime{Milli: id * 86_400_000, Offset: -540}}
}

// sealed writes rows as a file of the folder, and adds it to the index.
func (w *wordsWorld) sealed(rows ...*scannerv1.WordRow) string {
	w.t.Helper()
	docs, err := wordsDocs(rows)
	if err != nil {
		w.t.Fatal(err)
	}
	b := lexical.NewBuilder()
	for _, d := range docs {
		b.Add(d)
	}
	coded, err := b.Seal()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.place(coded, nil, false)
}

func (w *wordsWorld) place(coded []byte, old []*lexical.File, memory bool) string {
	w.t.Helper()
	name := fmt.Sprintf("%d.postings", len(must(os.ReadDir(w.folder))))
	if err := os.WriteFile(filepath.Join(w.folder, name), coded, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := w.index.Replace(old, memory, must(lexical.Open(bytes.Clone(coded)))); err != nil {
		w.t.Fatal(err)
	}
	return name
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *wordsWorld) load(files []*scannerv1.WordFile, rows ...*scannerv1.WordRow) error {
	_, err := w.words.Load(context.Background(), &scannerv1.LoadWordsRequest{Version: w.version, Folder: "../lexical", Files: files, Rows: rows})
	return err
}

func (w *wordsWorld) change(steps ...*scannerv1.WordStep) error {
	_, err := w.words.Change(context.Background(), &scannerv1.ChangeWordsRequest{From: w.version, Steps: steps})
	w.version += uint64(len(steps))
	return err
}

func putWords(rows ...*scannerv1.WordRow) *scannerv1.WordStep {
	return &scannerv1.WordStep{Step: &scannerv1.WordStep_Put{Put: &scannerv1.WordRows{Rows: rows}}}
}

func wordName(cell, id int64) *scannerv1.WordName {
	return &scannerv1.WordName{Cell: cell, Ref: &scannerv1.Ref{Kind: scannerv1.Kind_KIND_MEMORY, Id: id}}
}

func (w *wordsWorld) ask(text string, cells ...int64) *scannerv1.SearchWordsRequest {
	return &scannerv1.SearchWordsRequest{Version: w.version, Known: w.version, Cells: cells, Kind: scannerv1.Kind_KIND_MEMORY, Text: text, K: 5, Explain: true}
}

// same demands that index and copy give the same answer, and returns how many
// hits it has.
func (w *wordsWorld) same(r *scannerv1.SearchWordsRequest) int {
	w.t.Helper()
	q, err := wordsQuery(r)
	if err != nil {
		w.t.Fatal(err)
	}
	result, err := w.index.Search(context.Background(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := w.words.Search(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	if want := wordsReply(w.version, result); !reflect.DeepEqual(got, want) {
		w.t.Errorf("%q:\ncopy  %v\nindex %v", r.GetText(), got, want)
	}
	return len(got.GetHits())
}

func reasonOf(err error) (scannerv1.Reason, string) {
	for _, d := range status.Convert(err).Details() {
		if p, ok := d.(*scannerv1.Problem); ok {
			return p.GetReason(), p.GetFile()
		}
	}
	return scannerv1.Reason_REASON_UNSPECIFIED, ""
}

// DECISIONS 2: a copy that was loaded, changed, sealed and merged answers as the
// index that it follows, statistics and explanations included.
func TestWordsCopyAnswersAsTheIndex(t *testing.T) {
	w := newWordsWorld(t)
	first := w.sealed(wordsRow(1, 1, "violet lantern"), wordsRow(1, 2, "copper lantern 会議"), wordsRow(2, 3, "copper"))
	second := w.sealed(wordsRow(1, 4, "lantern of the harbor"), wordsRow(1, 5, "harbor"))
	recent := []*scannerv1.WordRow{wordsRow(1, 6, "lantern lantern"), wordsRow(3, 7, "lantern")}
	check := func() {
		t.Helper()
		found := 0
		for _, text := range []string{"lantern", "copper harbor", "会", "1 January", "nothing"} {
			found += w.same(w.ask(text, 1)) + w.same(w.ask(text, 1, 2, 3))
			few := w.ask(text, 1, 2)
			few.Only = &scannerv1.Only{Memories: []int64{2, 3, 5}}
			found += w.same(few)
		}
		if found == 0 {
			t.Error("nothing was found")
		}
	}
	if err := errors.Join(w.index.Put(must(wordsDocs(recent))...), w.index.Delete(1, memory.Ref{Kind: memory.KindMemory, ID: 1})); err != nil {
		t.Fatal(err)
	}
	w.version = 7
	if err := w.load([]*scannerv1.WordFile{{Name: first, Dead: []*scannerv1.WordName{wordName(1, 1)}}, {Name: second}}, recent...); err != nil {
		t.Fatal(err)
	}
	check()

	more := []*scannerv1.WordRow{wordsRow(1, 4, "violet instead"), wordsRow(1, 8, "copper harbor")}
	if err := errors.Join(w.index.Put(must(wordsDocs(more))...), w.index.Delete(2, memory.Ref{Kind: memory.KindMemory, ID: 3})); err != nil {
		t.Fatal(err)
	}
	if err := w.change(putWords(more...), &scannerv1.WordStep{Step: &scannerv1.WordStep_Delete{Delete: wordName(2, 3)}}); err != nil {
		t.Fatal(err)
	}
	check()

	// Everything becomes one file.
	old := []*lexical.File{must(lexical.Open(must(os.ReadFile(filepath.Join(w.folder, first))))), must(lexical.Open(must(os.ReadFile(filepath.Join(w.folder, second)))))}
	fresh := lexical.NewIndex(old...)
	if err := errors.Join(fresh.Put(must(wordsDocs(slices.Concat(recent, more)))...), fresh.Delete(1, memory.Ref{Kind: memory.KindMemory, ID: 1}), fresh.Delete(2, memory.Ref{Kind: memory.KindMemory, ID: 3})); err != nil {
		t.Fatal(err)
	}
	w.index = fresh
	merged := w.place(must(fresh.Merge(old, true)), old, true)
	if err := w.change(&scannerv1.WordStep{Step: &scannerv1.WordStep_Replace{Replace: &scannerv1.WordReplace{Out: []string{first, second}, Memory: true, In: merged}}}); err != nil {
		t.Fatal(err)
	}
	check()
	if len(w.words.copy.files) != 1 {
		t.Errorf("%d files are open", len(w.words.copy.files))
	}
}

// DECISIONS 4: a copy answers for the version that is wanted or says that it
// does not: it is behind, or a cell of the query changed since.
func TestWordsCopyAnswersForAVersion(t *testing.T) {
	w := newWordsWorld(t)
	ctx := context.Background()
	if _, err := w.words.Search(ctx, w.ask("copper", 1)); err == nil {
		t.Error("an answer without a copy")
	}
	w.version = 3
	if err := w.load(nil, wordsRow(1, 1, "copper"), wordsRow(2, 2, "copper")); err != nil {
		t.Fatal(err)
	}
	behind := w.ask("copper", 1)
	behind.Version++
	if _, err := w.words.Search(ctx, behind); err == nil {
		t.Error("an answer from a version before the one that is wanted")
	} else if reason, _ := reasonOf(err); reason != scannerv1.Reason_REASON_BEHIND {
		t.Error(err)
	}
	before := w.ask("copper", 1, 2)
	if err := w.change(putWords(wordsRow(2, 3, "copper"))); err != nil {
		t.Fatal(err)
	}
	if reply := must(w.words.Search(ctx, before)); !reply.GetPassed() || len(reply.GetHits()) > 0 {
		t.Errorf("a cell of the query changed since: %v", reply)
	}
	before.Cells = []int64{1}
	if reply := must(w.words.Search(ctx, before)); reply.GetPassed() || len(reply.GetHits()) != 1 || reply.GetVersion() != 4 {
		t.Errorf("another cell changed since: %v", reply)
	}
	// Files that change places may be older than the rows in memory were.
	if err := w.change(&scannerv1.WordStep{Step: &scannerv1.WordStep_Replace{Replace: &scannerv1.WordReplace{Memory: true}}}); err != nil {
		t.Fatal(err)
	}
	if reply := must(w.words.Search(ctx, before)); !reply.GetPassed() {
		t.Errorf("the files changed since: %v", reply)
	}
	w.version++
	if err := w.change(putWords(wordsRow(1, 9, "copper"))); err == nil {
		t.Error("a change from another version was made")
	}
	if _, err := w.words.Change(ctx, &scannerv1.ChangeWordsRequest{From: 5, Steps: []*scannerv1.WordStep{{}}}); err == nil {
		t.Error("a step without anything was made")
	}
	if _, err := w.words.Search(ctx, w.ask("copper", 1)); err == nil {
		t.Error("an answer after a change that failed half-way")
	}
}

// ARCHITECTURE 6: a file that cannot be used is named, and nothing is answered
// from it; with a good one in its place there is an answer again.
func TestWordsFileThatCannotBeUsed(t *testing.T) {
	w := newWordsWorld(t)
	file := w.sealed(wordsRow(1, 1, "copper lantern"), wordsRow(1, 2, strings.Repeat("violet ", 50)))
	path := filepath.Join(w.folder, file)
	good := must(os.ReadFile(path))
	named := []*scannerv1.WordFile{{Name: file}}
	refuses := func(err error) {
		t.Helper()
		if reason, name := reasonOf(err); reason != scannerv1.Reason_REASON_FILE || name != file {
			t.Errorf("%v is not about the file", err)
		}
	}
	for _, folder := range []string{"/lexical", "../../lexical", ".."} {
		if _, err := w.words.Load(context.Background(), &scannerv1.LoadWordsRequest{Folder: folder, Files: named}); err == nil {
			t.Errorf("files are read from %s", folder)
		}
	}
	if err := w.load([]*scannerv1.WordFile{{Name: "../lexical/" + file}}); err == nil {
		t.Error("a name with a folder is opened")
	}
	for _, damage := range []func() error{
		func() error { return os.Truncate(path, 10) },
		func() error { return os.WriteFile(path, append(bytes.Clone(good), 0), 0o600) },
		func() error {
			bad := bytes.Clone(good)
			bad[len(bad)/2] ^= 4
			return os.WriteFile(path, bad, 0o600)
		},
	} {
		if err := w.load(named); err != nil {
			t.Fatal(err)
		}
		w.same(w.ask("copper", 1))
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		_, err := w.words.Search(context.Background(), w.ask("copper", 1))
		refuses(err)
		if _, err := w.words.Search(context.Background(), w.ask("copper", 1)); err == nil {
			t.Error("an answer from a copy with a damaged file")
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refuses(w.load(named))
}

// DECISIONS 4, 18: an answer says what the query could have said, from which the
// server tells how far words can be believed.
func TestWordsReplySaysWhatWasAsked(t *testing.T) {
	if got := wordsReply(1, lexical.Result{Asked: 7}).GetAsked(); got != 7 {
		t.Errorf("7 units were asked, the answer says %d", got)
	}
}
