package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"recalld/memory"
)

// Options of a [Store]. The zero value is a store for production.
type Options struct {
	Clock    func() time.Time // nil: time.Now
	Random   io.Reader        // truth ids and the lineage of changes; nil: the system's
	ReadOnly bool
	VFS      string // name of a registered file layer; "" is the system's
	Readers  int    // snapshots that can be open at a time; 0: twice the cores, at least 4
	Log      *slog.Logger
	// OnForeignWrite is called by the writer after another program wrote to the
	// file. It must not call the store.
	OnForeignWrite func()
}

// Store is one open file of truth. It is safe for concurrent use.
type Store struct {
	path           string
	clock          func() time.Time
	random         io.Reader
	log            *slog.Logger
	onForeignWrite func()
	walLimit       int64
	scannedRows    int64 // of [View.Substring]
	truthID        string
	version        int
	readers        chan *conn
	opened         int // connections that were put into readers
	gate           *gate
	writer         *writer // nil when read-only
	closing        sync.Once
	closed         chan struct{}
}

// applicationID marks a file as recalld's ("rcld").
const applicationID = 0x72636c64

// Open opens the file, creating it when it does not exist, and migrates it
// forward with a backup before each step. Errors: [memory.ErrTooNew],
// [memory.ErrCorrupt], [memory.ErrReadOnly], [ErrNoFTS5]. A file that cannot be
// written is opened for reading; its writes answer [memory.ErrReadOnly].
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, path, o, steps)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, o Options, steps []migration) (*Store, error) {
	s := &Store{
		path: path, clock: o.Clock, random: o.Random, log: o.Log, onForeignWrite: o.OnForeignWrite,
		walLimit: walLimit, scannedRows: scannedRows, gate: newGate(), closed: make(chan struct{}),
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	access, err := examine(path, o)
	if err != nil {
		return nil, err
	}
	if access.absent {
		if err := checkRestored(path); err != nil {
			return nil, err
		}
		if err := checkLogAlone(path); err != nil {
			return nil, err
		}
		if err := s.create(ctx, steps); err != nil {
			return nil, fmt.Errorf("create: %w", err)
		}
	}
	first, err := connect(path, access.mode, o.VFS, access.immutable)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, first, access, steps); err != nil {
		return nil, errors.Join(err, first.close())
	}
	readers := o.Readers
	if readers <= 0 {
		readers = max(4, 2*runtime.NumCPU())
	}
	s.readers = make(chan *conn, readers)
	if access.readOnly {
		s.addReader(first)
	} else if err := s.startWriter(first); err != nil {
		return nil, errors.Join(err, first.close())
	}
	for s.opened < readers {
		c, err := connect(path, "ro", o.VFS, access.immutable)
		if err == nil {
			err = configureReader(c)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.addReader(c)
	}
	return s, nil
}

func (s *Store) addReader(c *conn) {
	s.readers <- c
	s.opened++
}

// access says how a file can be opened.
type access struct {
	mode      string
	absent    bool // there is no file yet
	readOnly  bool
	immutable bool
}

// examine looks at the file before SQLite does: whether it is there, whether it
// may be written, and whether it is as long as its header says.
func examine(path string, o Options) (access, error) {
	if o.VFS != "" {
		a := access{mode: "rwc", readOnly: o.ReadOnly}
		if o.ReadOnly {
			a.mode = "ro"
		}
		return a, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.ReadOnly:
		return access{}, fmt.Errorf("%w: there is no file", memory.ErrNotFound)
	case errors.Is(err, fs.ErrNotExist):
		return access{mode: "rw", absent: true}, nil
	case err != nil:
		return access{}, err
	case info.IsDir():
		return access{}, &memory.FieldError{Field: "path", Problem: "is a folder", Next: "give the path of the file, such as DATA/recall.db"}
	}
	a := access{mode: "rw", readOnly: o.ReadOnly}
	if !a.readOnly && !(writable(path) && writable(filepath.Dir(path))) {
		a.readOnly = true
	}
	if a.readOnly {
		a.mode = "ro"
		// A log needs files beside the file. Where they cannot be made nobody else
		// can make them either.
		_, err := os.Stat(path + "-wal")
		a.immutable = errors.Is(err, fs.ErrNotExist) && !writable(filepath.Dir(path))
	}
	if info.Size() == 0 {
		return access{}, fmt.Errorf("%w: it is empty; bring a backup back with `recalld restore`, or remove it to begin anew", memory.ErrCorrupt)
	}
	if !a.readOnly {
		if err := openBeside(path, info.Mode().Perm()); err != nil {
			return access{}, err
		}
	}
	return a, checkLength(path, info.Size())
}

// openBeside gives the log and its index the file's own mode where they cannot be
// written. SQLite makes them like the file, so that reading a file that was
// read-only leaves them read-only behind.
func openBeside(path string, mode fs.FileMode) error {
	for _, suffix := range []string{"-wal", "-shm"} {
		beside := path + suffix
		if _, err := os.Stat(beside); err != nil || writable(beside) {
			continue
		}
		if err := os.Chmod(beside, mode); err != nil {
			return fmt.Errorf("%w: make %s writable like the file beside it (%w)", memory.ErrReadOnly, filepath.Base(beside), err)
		}
	}
	return nil
}

// writable reports whether the file or folder may be written.
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// checkLogAlone refuses to begin an empty file beside the log of another one:
// SQLite would write that log over it, and then remove it.
func checkLogAlone(path string) error {
	if !hasLog(path) {
		return nil
	}
	return fmt.Errorf("%w: the file is missing and its log %s-wal is there; put the file back beside it, or bring a backup back with `recalld restore`",
		memory.ErrCorrupt, filepath.Base(path))
}

// hasLog reports whether a log that holds something lies beside the file.
func hasLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

// checkLength refuses a file that lost its tail. With a log beside it the length
// is not yet settled, and SQLite's own checks have to do.
func checkLength(path string, size int64) error {
	if hasLog(path) {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var header [100]byte
	if _, err := io.ReadFull(f, header[:]); err != nil || string(header[:16]) != "SQLite format 3\x00" {
		return fmt.Errorf("%w: it is not a SQLite file; bring a backup back with `recalld restore`", memory.ErrCorrupt)
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 65536
	}
	if pages := int64(binary.BigEndian.Uint32(header[28:])); size < pages*page {
		return fmt.Errorf("%w: it has %d bytes of %d; bring a backup back with `recalld restore`", memory.ErrCorrupt, size, pages*page)
	}
	return nil
}

// prepare checks and migrates the file through its first connection.
func (s *Store) prepare(ctx context.Context, c *conn, a access, steps []migration) error {
	r, err := c.first(ctx, "SELECT sqlite_compileoption_used('ENABLE_FTS5')")
	if err != nil {
		return err
	}
	if r.int(0) == 0 {
		return ErrNoFTS5
	}
	if !a.readOnly {
		for _, p := range []string{"page_size = 16384", "journal_mode = WAL"} {
			if _, err := c.pragma(p); err != nil {
				return err
			}
		}
		if err := configureWriter(c); err != nil {
			return err
		}
	} else if err := configureReader(c); err != nil {
		return err
	}
	if err := s.migrate(ctx, c, a, steps); err != nil {
		return err
	}
	if err := probe(ctx, c); err != nil {
		return err
	}
	s.truthID, err = instanceValue(ctx, c, "truth_id")
	return err
}

// create makes a whole file under another name first, so that a file of this
// name is never half made, whatever happens. When another process was faster,
// its file stays.
func (s *Store) create(ctx context.Context, steps []migration) (err error) {
	made, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".new-*")
	if err != nil {
		return err
	}
	part := made.Name()
	defer func() { err = errors.Join(err, removeWithLog(part)) }()
	if err := made.Close(); err != nil {
		return err
	}
	c, err := connect(part, "rw", "", false)
	if err != nil {
		return err
	}
	if err := errors.Join(s.prepare(ctx, c, access{mode: "rw"}, steps), c.close()); err != nil {
		return err
	}
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Link(part, s.path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFile(filepath.Dir(s.path))
}

func configureWriter(c *conn) error {
	if err := c.script("PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -32768"); err != nil {
		return err
	}
	return c.script("PRAGMA wal_autocheckpoint = 1024")
}

func configureReader(c *conn) error {
	return c.script("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384")
}

// probe reads the first page of every table, so that a damaged root is found
// when the file is opened and not in the middle of an answer.
func probe(ctx context.Context, c *conn) error {
	var tables []string
	err := c.query(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name", nil, func(r row) error {
		tables = append(tables, r.text(0))
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tables {
		rows, err := c.raw.QueryContext(ctx, `SELECT 1 FROM "`+t+`" LIMIT 1`, nil)
		if err != nil {
			return translate(err)
		}
		if err := rows.Close(); err != nil {
			return translate(err)
		}
	}
	return nil
}

func instanceValue(ctx context.Context, c *conn, name string) (string, error) {
	r, err := c.first(ctx, "SELECT value FROM instance WHERE name = ?", name)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", fmt.Errorf("%w: it has no %s; bring a backup back with `recalld restore`", memory.ErrCorrupt, name)
	}
	return r.text(0), nil
}

func (s *Store) startWriter(c *conn) error {
	if s.random != nil {
		if err := c.raw.RegisterFunc("random", s.drawInt, false); err != nil {
			return err
		}
	}
	// Leases belong to workers of a process that is gone, and waits to its clock,
	// which may have been ahead.
	if _, _, err := c.exec("UPDATE queue SET leased_until = 0, not_before = 0 WHERE leased_until <> 0 OR not_before <> 0"); err != nil {
		return err
	}
	s.writer = &writer{
		conn: c, store: s, jobs: make(chan *job, maxBatch), stop: make(chan struct{}), stopped: make(chan struct{}),
		cells: make(map[memory.Cell]interned), dims: make(map[int64]int), missing: make(map[int64]missingCursor),
	}
	if err := s.writer.countUnindexed(); err != nil {
		return err
	}
	// A process that was killed may have owed the erasure of deleted rows.
	if hasLog(s.path) {
		s.writer.erasePending.Store(true)
		s.writer.erase()
	}
	go s.writer.loop()
	return nil
}

// drawInt is SQL's random() when the source of randomness is injected.
func (s *Store) drawInt() (int64, error) {
	var b [8]byte
	if _, err := io.ReadFull(s.random, b[:]); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(b[:])), nil
}

// newTruthID draws 128 random bits in hexadecimal.
func (s *Store) newTruthID() (string, error) {
	source := s.random
	if source == nil {
		source = rand.Reader
	}
	var b [16]byte
	if _, err := io.ReadFull(source, b[:]); err != nil {
		return "", fmt.Errorf("draw a truth id: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// Close waits for the writer and for every open view, and closes the file.
func (s *Store) Close() error {
	var errs []error
	s.closing.Do(func() {
		close(s.closed)
		if s.writer != nil {
			close(s.writer.stop)
			<-s.writer.stopped
		}
		for range s.opened {
			errs = append(errs, (<-s.readers).close())
		}
		if s.writer != nil {
			errs = append(errs, s.writer.conn.close())
		}
	})
	return errors.Join(errs...)
}

// Path returns the path that the store was opened with.
func (s *Store) Path() string { return s.path }

// TruthID names this copy of the truth; restore mints another (DECISIONS 4).
func (s *Store) TruthID() string { return s.truthID }

// SchemaVersion is the number of the last migration in the file.
func (s *Store) SchemaVersion() int { return s.version }

// ReadOnly reports whether writes are refused.
func (s *Store) ReadOnly() bool { return s.writer == nil }

func (s *Store) now() time.Time { return s.clock() }

func (s *Store) stamp() memory.Time { return memory.TimeOf(s.clock()) }
