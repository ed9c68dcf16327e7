package cpersona

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver

	"recalld/memory"
)

// The schemas that are read.
const (
	OldestSchema = 13
	NewestSchema = 21
)

// magic begins every SQLite file.
var magic = []byte("SQLite format 3\x00")

// Is reports whether the file at path is an SQLite file.
func Is(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && bytes.Equal(head, magic)
}

// File is one open file and its snapshot.
type File struct {
	db      *sql.DB
	tx      *sql.Tx
	schema  int
	labels  bool // the columns embedding_model are there
	tables  map[string]bool
	columns map[string]map[string]bool
}

// Open opens a file for reading, also while its server runs. What was committed
// before is seen, and nothing that comes later. Errors: *[memory.FieldError] for
// a file that is not CPersona's or of a schema that is not known.
func Open(ctx context.Context, path string) (*File, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open import: %w", err)
	}
	if !Is(path) {
		return nil, refuse("is not an SQLite file", "name CPersona's database file, often cpersona.db")
	}
	f, err := open(ctx, path, "")
	var refused *memory.FieldError
	if err != nil && !errors.As(err, &refused) && !logged(path) {
		// A log cannot be opened in a folder that cannot be written; without one
		// the file is complete by itself.
		f, err = open(ctx, path, "&immutable=1")
	}
	if err != nil {
		return nil, fmt.Errorf("open import: %w", err)
	}
	return f, nil
}

// logged reports whether a write-ahead log with something in it lies beside the
// file.
func logged(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

func open(ctx context.Context, path, options string) (f *File, err error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := (&url.URL{Scheme: "file", Path: absolute, RawQuery: "mode=ro&_busy_timeout=5000" + options}).String()
	db, err := sql.Open("sqlite3", name)
	if err != nil {
		return nil, err
	}
	f = &File{db: db, tables: map[string]bool{}, columns: map[string]map[string]bool{}}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		return nil, err
	}
	return f, f.learn(ctx)
}

// learn reads which schema the file has, which also begins the snapshot.
func (f *File) learn(ctx context.Context) error {
	err := f.each(ctx, "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'", nil, func(scan func(...any) error) error {
		var table, column string
		if err := scan(&table, &column); err != nil {
			return err
		}
		if !f.tables[table] {
			f.tables[table], f.columns[table] = true, map[string]bool{}
		}
		f.columns[table][column] = true
		return nil
	})
	if err != nil {
		return err
	}
	for _, table := range []string{"memories", "episodes", "profiles", "schema_version"} {
		if !f.tables[table] {
			return refuse("has no table "+table+", so it is not CPersona's", "name CPersona's database file, often cpersona.db")
		}
	}
	if err := f.tx.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&f.schema); err != nil {
		return err
	}
	if f.schema < OldestSchema || f.schema > NewestSchema {
		next := "start the file once with a newer CPersona, which brings its schema up to date"
		if f.schema > NewestSchema {
			next = "export it with CPersona's export_memories and import that with --format cpersona-jsonl"
		}
		return &memory.FieldError{Field: "PATH", Problem: fmt.Sprintf("has schema %d", f.schema), Limit: fmt.Sprintf("%d to %d", OldestSchema, NewestSchema), Next: next}
	}
	f.labels = f.columns["memories"]["embedding_model"] && f.columns["episodes"]["embedding_model"]
	return nil
}

func refuse(problem, next string) error {
	return &memory.FieldError{Field: "PATH", Problem: problem, Limit: fmt.Sprintf("a file of CPersona, schema %d to %d", OldestSchema, NewestSchema), Next: next}
}

// Schema is the version of the file's schema.
func (f *File) Schema() int { return f.schema }

// Close ends the snapshot and closes the file.
func (f *File) Close() error {
	if f.tx != nil {
		// Nothing was written that could be lost.
		_ = f.tx.Rollback()
	}
	return f.db.Close()
}

// each calls visit for every row of a query.
func (f *File) each(ctx context.Context, query string, args []any, visit func(scan func(...any) error) error) error {
	rows, err := f.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
