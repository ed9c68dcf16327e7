package scanner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"recalld/layout"
	"recalld/lexical"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// Words answers the service of words.proto. Its methods may be called
// concurrently.
type Words struct {
	scannerv1.UnimplementedWordsServer

	server *Server // whose Open names the folder

	change sync.Mutex   // held by Load and Change; taken before mu
	mu     sync.RWMutex // held by searches, and for writing by what changes the copy
	copy   *wordsCopy   // nil: there is none
}

// NewWords returns the service of words beside that of a server. It has no copy
// of an index yet.
func NewWords(server *Server) *Words { return &Words{server: server} }

// Close lets go of the copy. Requests must have ended.
func (w *Words) Close() { w.install(nil) }

// install replaces the copy and releases the files that only the last one has.
func (w *Words) install(next *wordsCopy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.copy
	w.copy = next
	if last == nil {
		return
	}
	for _, f := range last.files {
		if next == nil || !slices.Contains(next.files, f) {
			f.release()
		}
	}
}

// folder is where the files of a copy are: in the folder that was opened, or
// beside it.
func (w *Words) folder(relative string) (string, error) {
	w.server.change.Lock()
	opened := w.server.folder
	w.server.change.Unlock()
	switch {
	case opened == "":
		return "", invalid("folder", "was not opened")
	case !filepath.IsLocal(strings.TrimPrefix(filepath.ToSlash(relative), "../")):
		return "", invalid("folder", "is neither in nor beside the one that was opened")
	}
	return filepath.Join(opened, relative), nil
}

// Load implements the service. Files that the copy before had stay open and
// verified.
func (w *Words) Load(_ context.Context, r *scannerv1.LoadWordsRequest) (*scannerv1.LoadWordsReply, error) {
	w.change.Lock()
	defer w.change.Unlock()
	folder, err := w.folder(r.GetFolder())
	if err != nil {
		return nil, wire(err)
	}
	next := &wordsCopy{version: r.GetVersion(), floor: r.GetVersion(), folder: folder, changed: make(map[lexical.Cell]uint64)}
	if err := next.load(r, w.copy); err != nil {
		for _, f := range next.files {
			if w.copy == nil || !slices.Contains(w.copy.files, f) {
				f.release()
			}
		}
		return nil, wire(err)
	}
	w.install(next)
	return &scannerv1.LoadWordsReply{}, nil
}

// Change implements the service. Files are opened before searches have to wait.
func (w *Words) Change(_ context.Context, r *scannerv1.ChangeWordsRequest) (*scannerv1.ChangeWordsReply, error) {
	w.change.Lock()
	defer w.change.Unlock()
	c := w.copy
	if c == nil || c.version != r.GetFrom() {
		return nil, wire(errBehind)
	}
	steps, err := c.prepare(r.GetSteps())
	if err == nil {
		err = w.apply(c, steps)
	}
	if err != nil {
		for _, s := range steps {
			if s.in != nil && !slices.Contains(c.files, s.in) {
				s.in.release()
			}
		}
		w.install(nil)
		return nil, wire(err)
	}
	return &scannerv1.ChangeWordsReply{}, nil
}

func (w *Words) apply(c *wordsCopy, steps []wordsStep) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := layout.Guard(func() error {
		for _, s := range steps {
			if err := c.apply(s); err != nil {
				return err
			}
		}
		return nil
	})
	return c.blame(err)
}

// Search implements the service.
func (w *Words) Search(ctx context.Context, r *scannerv1.SearchWordsRequest) (*scannerv1.SearchWordsReply, error) {
	q, err := wordsQuery(r)
	if err != nil {
		return nil, wire(err)
	}
	reply, damaged, err := w.search(ctx, r, q)
	if damaged != nil {
		w.change.Lock()
		if w.copy == damaged {
			w.install(nil)
		}
		w.change.Unlock()
	}
	return reply, wire(err)
}

// search asks the copy, and returns it when a file of it is damaged.
func (w *Words) search(ctx context.Context, r *scannerv1.SearchWordsRequest, q lexical.Query) (reply *scannerv1.SearchWordsReply, damaged *wordsCopy, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	c := w.copy
	switch {
	case c == nil || c.version < r.GetVersion():
		return nil, nil, errBehind
	case c.passed(q.Cells, r.GetKnown()):
		return &scannerv1.SearchWordsReply{Version: c.version, Passed: true}, nil, nil
	}
	var result lexical.Result
	err = c.intact()
	if err == nil {
		err = layout.Guard(func() (err error) {
			result, err = c.index.Search(ctx, q)
			return err
		})
		if written := c.intact(); written != nil {
			err = written
		}
	}
	if err = c.blame(err); err != nil {
		var file *fileError
		if errors.As(err, &file) {
			damaged = c
		}
		return nil, damaged, err
	}
	return wordsReply(c.version, result), nil, nil
}

func wordsQuery(r *scannerv1.SearchWordsRequest) (lexical.Query, error) {
	q := lexical.Query{Text: r.GetText(), Kind: memory.Kind(r.GetKind()), K: int(r.GetK()), Explain: r.GetExplain()}
	for _, c := range r.GetCells() {
		q.Cells = append(q.Cells, lexical.Cell(c))
	}
	only := r.GetOnly()
	if only == nil {
		return q, nil
	}
	if err := checkOnly(only); err != nil {
		return q, err
	}
	q.Keep = func(ref memory.Ref) bool { return takesPart(only, ref) }
	return q, nil
}

func wordsReply(version uint64, result lexical.Result) *scannerv1.SearchWordsReply {
	reply := &scannerv1.SearchWordsReply{Version: version, Terms: result.Terms, Truncated: result.QueryTruncated, Rows: result.Rows, Postings: result.PostingsTouched, Asked: result.Asked}
	at := make(map[string]uint32, len(result.Terms))
	for i, term := range result.Terms {
		at[term] = uint32(i)
	}
	for _, h := range result.Hits {
		hit := &scannerv1.WordHit{Id: h.Ref.ID, Score: h.Score}
		for _, m := range h.Matches {
			hit.Matches = append(hit.Matches, &scannerv1.WordMatch{Term: at[m.Term], Score: m.Score, Own: m.Own})
		}
		reply.Hits = append(reply.Hits, hit)
	}
	return reply
}

func wordsDoc(r *scannerv1.WordRow) (lexical.Doc, error) {
	d := lexical.Doc{Cell: lexical.Cell(r.GetCell()), Ref: refOf(r.GetRef()), Session: r.GetSession(), Text: r.GetText()}
	if d.Ref.Kind != memory.KindEpisode && d.Ref.Kind != memory.KindMemory {
		return d, invalid("ref", "is of kind %d", d.Ref.Kind)
	}
	if t := r.GetTime(); t != nil {
		if int32(int16(t.GetOffset())) != t.GetOffset() {
			return d, invalid("time", "is %d minutes from UTC", t.GetOffset())
		}
		d.Time = memory.Time{Milli: t.GetMilli(), Offset: int16(t.GetOffset()), Known: true}
	}
	return d, nil
}

func wordsDocs(rows []*scannerv1.WordRow) ([]lexical.Doc, error) {
	docs := make([]lexical.Doc, len(rows))
	for i, r := range rows {
		var err error
		if docs[i], err = wordsDoc(r); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return docs, nil
}
