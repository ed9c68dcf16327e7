package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"recalld/lexical"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/client"
	"recalld/sqlite"
)

// Remote searches a copy of the lexical index in another process, which may be
// gone at any moment. scanner/client implements it, and has its errors.
type Remote interface {
	// LoadWords replaces the copy. The files are in folder, an absolute path.
	LoadWords(ctx context.Context, folder string, r *scannerv1.LoadWordsRequest) error
	ChangeWords(ctx context.Context, r *scannerv1.ChangeWordsRequest) error
	SearchWords(ctx context.Context, r *scannerv1.SearchWordsRequest) (*scannerv1.SearchWordsReply, error)
}

const (
	// loadAtMost is how many bytes of rows in memory are sent at once; while there
	// are more, searches stay in this process.
	loadAtMost = 32 << 20
	// keepAtMost is how many bytes of changes wait for the other process; when there
	// are more, the copy is loaded anew.
	keepAtMost = 16 << 20
	// tellAtMost is how many bytes of changes a search sends before it asks; when
	// there are more, they are sent meanwhile and the search stays in this process.
	tellAtMost = 1 << 20
	// changeAtMost is about how many bytes are sent in one call.
	changeAtMost = 8 << 20
	// stepOverhead is what a row costs beside its text.
	stepOverhead = 64
	// mostRemoteHits is how many hits are asked for in another process.
	mostRemoteHits = 10_000
	// loadPatience is how long a copy may take to be loaded.
	loadPatience = time.Minute
)

// mirror is what another process has of the index, and what it still has to be
// told. Each change of the index is one version; the copy at a version has the
// same files, dead rows and rows in memory. A nil mirror keeps nothing.
type mirror struct {
	remote Remote
	wake   chan struct{}
	// telling is held, by whoever fills it, while the process is told something. It
	// is taken before Lexical.mu.
	telling chan struct{}

	mu      sync.Mutex // taken after Lexical.mu
	version uint64     // of the index
	cut     uint64     // the last version at which files changed places
	// cells says at which version each cell changed last; those that are not in it
	// changed at cut or before.
	cells map[lexical.Cell]uint64
	docs  map[row]lexical.Doc // the rows in memory

	load    uint64 // counts the copies
	follows bool   // steps lead from has to version
	loaded  bool   // the process has the copy at has
	has     uint64 // a version
	steps   []*scannerv1.WordStep
	bytes   int64 // of steps
	why     error // why there is no copy although there should be; nil: it is not there yet
}

func newMirror(remote Remote) *mirror {
	return &mirror{
		remote: remote, wake: make(chan struct{}, 1), telling: make(chan struct{}, 1),
		version: 1, cut: 1, cells: make(map[lexical.Cell]uint64), docs: make(map[row]lexical.Doc),
	}
}

// put, delete, replace and drop note one change that the index has made. Their
// caller holds Lexical.mu for writing.
func (m *mirror) put(docs []lexical.Doc) {
	if m == nil || len(docs) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	step := &scannerv1.WordRows{}
	var size int64
	for _, d := range docs {
		m.touch(d.Cell)
		m.docs[row{d.Cell, d.Ref}] = d
		if m.follows {
			step.Rows = append(step.Rows, wordRow(d))
			size += int64(len(d.Text)) + stepOverhead
		}
	}
	m.keep(&scannerv1.WordStep{Step: &scannerv1.WordStep_Put{Put: step}}, size)
}

func (m *mirror) delete(cell lexical.Cell, ref memory.Ref) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	m.touch(cell)
	delete(m.docs, row{cell, ref})
	m.keep(&scannerv1.WordStep{Step: &scannerv1.WordStep_Delete{Delete: wordName(row{cell, ref})}}, stepOverhead)
}

func (m *mirror) replace(out []*file, recent bool, in *file) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	m.cut = m.version
	step := &scannerv1.WordReplace{Memory: recent}
	for _, f := range out {
		step.Out = append(step.Out, f.Name)
	}
	if in != nil {
		step.In = in.Name
	}
	if recent {
		clear(m.docs)
	}
	m.keep(&scannerv1.WordStep{Step: &scannerv1.WordStep_Replace{Replace: step}}, stepOverhead*int64(1+len(out)))
	if !m.loaded {
		m.look() // the last cells may be built now
	}
}

// drop notes that the index begins anew.
func (m *mirror) drop() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	m.cut = m.version
	clear(m.docs)
	m.forget(nil)
	m.look()
}

// touch notes that a cell changes at this version. m.mu is held.
func (m *mirror) touch(cell lexical.Cell) {
	if len(m.cells) >= maxChanged {
		clear(m.cells)
		m.cut = m.version
	}
	m.cells[cell] = m.version
}

// keep notes what the process is to be told. m.mu is held.
func (m *mirror) keep(step *scannerv1.WordStep, size int64) {
	if !m.follows {
		return
	}
	m.steps, m.bytes = append(m.steps, step), m.bytes+size
	switch {
	case m.bytes > keepAtMost:
		m.forget(nil)
		m.look()
	case m.bytes > tellAtMost:
		m.look()
	}
}

// forget gives the copy up; the goroutine loads another one. m.mu is held.
func (m *mirror) forget(why error) {
	m.follows, m.loaded, m.steps, m.bytes = false, false, nil, 0
	if !errors.Is(why, client.ErrBehind) { // which a new process is
		m.why = why
	}
}

// lose gives a copy up that was loaded, asked or told in vain.
func (m *mirror) lose(load uint64, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.load == load && m.follows {
		m.forget(why)
		m.look()
	}
}

// look makes the goroutine look at once.
func (m *mirror) look() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// since returns the version from which on the cells are as they are now, and the
// present version. Lexical.mu is held.
func (m *mirror) since(cells []lexical.Cell) (version, now uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	version = m.cut
	for _, c := range cells {
		version = max(version, m.cells[c])
	}
	return version, m.version
}

// ready returns the copy that a search may ask for a version; ok is false when
// there is none, and why says what is wrong when there should be one.
func (m *mirror) ready(version uint64) (load uint64, ok bool, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.loaded:
		return 0, false, m.why
	case version > m.has && m.bytes > tellAtMost:
		m.look()
		return 0, false, nil
	}
	return m.load, true, nil
}

// busy takes telling; false when the context ends before it is free.
func (m *mirror) busy(ctx context.Context) bool {
	select {
	case m.telling <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// tell brings the copy to a version, if there is one. An error says that it is
// lost.
func (m *mirror) tell(ctx context.Context, version uint64) error {
	if !m.busy(ctx) {
		return nil
	}
	defer func() { <-m.telling }()
	for {
		r, load := m.next(version)
		if r == nil {
			return nil
		}
		if err := m.remote.ChangeWords(ctx, r); err != nil {
			m.lose(load, err)
			return err
		}
		m.told(load, r)
	}
}

// next returns the next changes to tell a copy; nil when there are none up to a
// version.
func (m *mirror) next(version uint64) (r *scannerv1.ChangeWordsRequest, load uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loaded || m.has >= version || len(m.steps) == 0 {
		return nil, 0
	}
	n, size := 0, int64(0)
	for n < len(m.steps) && (n == 0 || size+sizeOf(m.steps[n]) <= changeAtMost) {
		size += sizeOf(m.steps[n])
		n++
	}
	return &scannerv1.ChangeWordsRequest{From: m.has, Steps: slices.Clone(m.steps[:n])}, m.load
}

// told notes what a copy has been told.
func (m *mirror) told(load uint64, r *scannerv1.ChangeWordsRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loaded || m.load != load {
		return // it was lost meanwhile
	}
	n := len(r.GetSteps())
	m.has += uint64(n)
	m.steps = slices.Delete(m.steps, 0, n)
	m.bytes = 0
	for _, s := range m.steps {
		m.bytes += sizeOf(s)
	}
}

func sizeOf(s *scannerv1.WordStep) int64 {
	rows := s.GetPut().GetRows()
	size := int64(stepOverhead * max(1, len(rows)))
	for _, r := range rows {
		size += int64(len(r.GetText()))
	}
	return size
}

// describe begins to load: it returns the index as it is, and changes are kept
// from here on. nil: there is too much in memory. Lexical.mu is held.
func (m *mirror) describe(files []*file) *scannerv1.LoadWordsRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.why)
	r := &scannerv1.LoadWordsRequest{Version: m.version}
	var size int64
	for _, f := range files {
		named := &scannerv1.WordFile{Name: f.Name}
		for _, d := range f.dead {
			named.Dead = append(named.Dead, wordName(d))
		}
		size += stepOverhead * int64(len(named.Dead))
		r.Files = append(r.Files, named)
	}
	for _, d := range m.docs {
		size += int64(len(d.Text)) + stepOverhead
	}
	if size > loadAtMost {
		return nil
	}
	for _, d := range m.docs {
		r.Rows = append(r.Rows, wordRow(d))
	}
	m.follows, m.has = true, m.version
	m.load++
	return r
}

// took notes that the process has the copy that was described last.
func (m *mirror) took() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why, m.loaded = nil, m.follows
}

func wordRow(d lexical.Doc) *scannerv1.WordRow {
	r := &scannerv1.WordRow{Cell: int64(d.Cell), Ref: wireRef(d.Ref), Session: d.Session, Text: d.Text}
	if d.Time.Known {
		r.Time = &scannerv1.WordTime{Milli: d.Time.Milli, Offset: int32(d.Time.Offset)}
	}
	return r
}

func wordName(r row) *scannerv1.WordName {
	return &scannerv1.WordName{Cell: int64(r.cell), Ref: wireRef(r.ref)}
}

// keepMirror keeps the copy in the other process up to date until the context
// ends. It is a goroutine of its own, since the process may hang.
func (l *Lexical) keepMirror(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	said := ""
	for {
		err := l.reflect(ctx)
		if ctx.Err() != nil {
			return
		}
		wake := l.mirror.wake
		switch {
		case err == nil, errors.Is(err, client.ErrBehind):
			said = "" // the process is a new one, which is told everything at once
		default:
			wake = nil // a failure that stays is met again after a while
			if err.Error() != said {
				said = err.Error()
				l.opts.Log.Warn("the scanner has no copy of the words, which are searched without it", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-wake:
		}
	}
}

// reflect loads the copy, or brings it up to date.
func (l *Lexical) reflect(ctx context.Context) error {
	m := l.mirror
	m.mu.Lock()
	loaded, version := m.loaded, m.version
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	if loaded {
		return m.tell(ctx, version)
	}
	if !m.busy(ctx) {
		return nil
	}
	defer func() { <-m.telling }()
	r := l.described()
	if r == nil {
		return nil
	}
	slices.SortFunc(r.Rows, func(a, b *scannerv1.WordRow) int {
		return cmp.Or(cmp.Compare(a.GetCell(), b.GetCell()), cmp.Compare(a.GetRef().GetKind(), b.GetRef().GetKind()), cmp.Compare(a.GetRef().GetId(), b.GetRef().GetId()))
	})
	err := m.remote.LoadWords(ctx, l.opts.Folder, r)
	if err == nil {
		m.took()
		return nil
	}
	m.mu.Lock()
	m.forget(err)
	m.mu.Unlock()
	return errors.Join(err, l.suspect(err))
}

// described is the index for the other process; nil when it is to have no copy
// now.
func (l *Lexical) described() *scannerv1.LoadWordsRequest {
	l.mu.RLock()
	defer l.mu.RUnlock()
	rows, _ := l.index.Recent()
	for _, f := range l.files {
		rows += f.entry.Rows
	}
	if l.closed || len(l.missing) > 0 || rows < l.opts.RemoteRows {
		return nil
	}
	return l.mirror.describe(l.files)
}

// suspect looks at a file that the other process could not use. When it is
// damaged it is set aside.
func (l *Lexical) suspect(err error) error {
	var named *client.FileError
	if !errors.As(err, &named) {
		return nil
	}
	l.mu.RLock()
	i := slices.IndexFunc(l.files, func(f *file) bool { return f.Name == named.File })
	var f *file
	if i >= 0 {
		f = l.files[i]
	}
	l.mu.RUnlock()
	if f == nil || !l.damaged(f) {
		return nil
	}
	return l.quarantine(nil, fmt.Errorf("%w: %w", lexical.ErrCorrupt, err))
}

// letGo has the other process close the files that are of no use any more, as far
// as it answers: one that does not is ended by whoever runs it.
func (l *Lexical) letGo(ctx context.Context) {
	if l.mirror == nil {
		return
	}
	l.mu.RLock()
	_, version := l.mirror.since(nil)
	l.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.RemotePatience)
	defer cancel()
	_ = l.mirror.tell(ctx, version) // else the copy is lost, and with it what it had open
}

// elsewhere asks the other process. ok is false when the answer is to be made in
// this one; why says that the other one failed.
func (l *Lexical) elsewhere(ctx context.Context, view *sqlite.View, cells []sqlite.CellStats, q WordQuery) (a Answer, ok bool, why error) {
	m := l.mirror
	if m == nil || q.K > mostRemoteHits || !q.Only.fits() || l.follow(view) != nil {
		return Answer{}, false, nil
	}
	l.mu.RLock()
	built, notBuilt, passed := l.fit(cells, view.Seq())
	ok = !l.closed && l.applied >= view.Seq() && notBuilt == 0 && !passed
	version, known := m.since(built)
	l.mu.RUnlock()
	if !ok {
		return Answer{}, false, nil
	}
	load, ok, why := m.ready(version)
	if !ok {
		return Answer{}, false, why
	}
	reply, err := l.askElsewhere(ctx, version, known, built, q)
	if err == nil && reply != nil {
		a.Result, err = resultOf(q.Kind, reply)
	}
	switch {
	case err == nil:
		return a, reply != nil, nil
	case ctx.Err() != nil:
		return Answer{}, false, nil
	}
	m.lose(load, err)
	if errors.Is(err, client.ErrBehind) {
		return Answer{}, false, nil // it was started anew
	}
	return Answer{}, false, errors.Join(err, l.suspect(err))
}

// askElsewhere tells the process what it needs and asks it; nil when it has moved
// on.
func (l *Lexical) askElsewhere(ctx context.Context, version, known uint64, cells []lexical.Cell, q WordQuery) (*scannerv1.SearchWordsReply, error) {
	// A copy is lost when its process is left in the middle of a change.
	telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.RemotePatience)
	defer cancel()
	if err := l.mirror.tell(telling, version); err != nil {
		return nil, err
	}
	r := &scannerv1.SearchWordsRequest{Version: version, Known: known, Kind: scannerv1.Kind(q.Kind), Text: q.Text, K: uint32(q.K), Explain: q.Explain}
	for _, c := range cells {
		r.Cells = append(r.Cells, int64(c))
	}
	r.Only = q.Only.wire()
	asking, cancel := context.WithTimeout(ctx, l.opts.RemotePatience)
	defer cancel()
	reply, err := l.mirror.remote.SearchWords(asking, r)
	if err != nil || reply.GetPassed() {
		return nil, err
	}
	return reply, nil
}

// resultOf reads an answer.
func resultOf(kind memory.Kind, reply *scannerv1.SearchWordsReply) (lexical.Result, error) {
	out := lexical.Result{Hits: make([]lexical.Hit, len(reply.GetHits())), Terms: reply.GetTerms(), QueryTruncated: reply.GetTruncated(),
		Rows: reply.GetRows(), PostingsTouched: reply.GetPostings(), Asked: reply.GetAsked()}
	for i, h := range reply.GetHits() {
		out.Hits[i] = lexical.Hit{Ref: memory.Ref{Kind: kind, ID: h.GetId()}, Score: h.GetScore()}
		for _, m := range h.GetMatches() {
			if int(m.GetTerm()) >= len(out.Terms) {
				return out, fmt.Errorf("%w: it found a term that is not in its answer", client.ErrRefused)
			}
			out.Hits[i].Matches = append(out.Hits[i].Matches, lexical.Match{Term: out.Terms[m.GetTerm()], Score: m.GetScore(), Own: m.GetOwn()})
		}
	}
	return out, nil
}
