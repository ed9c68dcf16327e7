package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// conn is one connection with its prepared statements. It talks to the driver
// directly: the pool, the locks and the reflection of database/sql cost more
// than the statements of a store. One goroutine at a time uses it.
type conn struct {
	raw        *sqlite3.SQLiteConn
	statements map[string]*statement
}

// statement is a prepared statement and the row it decodes into.
type statement struct {
	prepared *sqlite3.SQLiteStmt
	args     []driver.NamedValue
	row      row
	busy     bool
}

// row is one decoded result row. Texts and blobs are the caller's to keep.
type row []driver.Value

func (r row) int(i int) int64 {
	v, _ := r[i].(int64)
	return v
}

func (r row) float(i int) float64 {
	switch v := r[i].(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return 0
}

func (r row) text(i int) string {
	v, _ := r[i].(string)
	return v
}

func (r row) blob(i int) []byte {
	v, _ := r[i].([]byte)
	return v
}

func (r row) null(i int) bool { return r[i] == nil }

// inMemory is the path of a database without a file, of one connection.
const inMemory = ":memory:"

// connect opens one connection. mode is ro, rw or rwc; immutable promises that
// nobody writes, which lets a write-ahead file be read in a read-only folder.
func connect(path, mode, vfs string, immutable bool) (*conn, error) {
	query := url.Values{"mode": {mode}, "_busy_timeout": {"5000"}, "_mutex": {"no"}}
	if vfs != "" {
		query.Set("vfs", vfs)
	}
	if immutable {
		query.Set("immutable", "1")
	}
	if path == inMemory {
		query.Set("mode", "memory")
		path = "/" + inMemory
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dsn := (&url.URL{Scheme: "file", Path: absolute, RawQuery: query.Encode()}).String()
	opened, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, translate(err)
	}
	return &conn{raw: opened.(*sqlite3.SQLiteConn), statements: make(map[string]*statement)}, nil
}

func (c *conn) close() error {
	for _, s := range c.statements {
		s.prepared.Close()
	}
	return c.raw.Close()
}

// steady gives every parameter of a statement a plus sign, which changes no value
// and keeps SQLite from choosing a plan by it: for one that stands alone in a
// comparison or behind LIMIT it compiles the statement anew with each binding, even
// of an equal value, which took a sixth of a recall's processor time. Our
// statements have question marks as parameters alone.
func steady(sql string) string { return strings.ReplaceAll(sql, "?", "+?") }

// take returns the statement's cached form, or a fresh one while an outer query
// is still stepping through it.
func (c *conn) take(sql string) (s *statement, cached bool, err error) {
	if s := c.statements[sql]; s != nil && !s.busy {
		return s, true, nil
	} else if s != nil {
		cached = true
	}
	prepared, err := c.raw.Prepare(steady(sql))
	if err != nil {
		return nil, false, translate(err)
	}
	s = &statement{prepared: prepared.(*sqlite3.SQLiteStmt)}
	if !cached {
		c.statements[sql] = s
		return s, true, nil
	}
	return s, false, nil
}

func (s *statement) bind(args []any) ([]driver.NamedValue, error) {
	if n := s.prepared.NumInput(); n != len(args) {
		return nil, fmt.Errorf("statement takes %d arguments, not %d", n, len(args))
	}
	s.args = s.args[:0]
	for i, a := range args {
		switch v := a.(type) {
		case int:
			a = int64(v)
		case int16:
			a = int64(v)
		case bool:
			a = int64(0)
			if v {
				a = int64(1)
			}
		case nil, int64, float64, string, []byte:
		default:
			return nil, fmt.Errorf("argument %d has type %T", i+1, v)
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args, nil
}

// exec runs one statement that returns no rows.
func (c *conn) exec(sql string, args ...any) (changed, lastID int64, err error) {
	s, cached, err := c.take(sql)
	if err != nil {
		return 0, 0, err
	}
	if !cached {
		defer s.prepared.Close()
	}
	bound, err := s.bind(args)
	if err != nil {
		return 0, 0, err
	}
	result, err := s.prepared.ExecContext(context.Background(), bound)
	if err != nil {
		return 0, 0, translate(err)
	}
	changed, _ = result.RowsAffected()
	lastID, _ = result.LastInsertId()
	return changed, lastID, nil
}

// script runs statements without arguments, without keeping them.
func (c *conn) script(sql string) error {
	_, err := c.raw.ExecContext(context.Background(), sql, nil)
	return translate(err)
}

// errStop ends a query early without being an error.
var errStop = errors.New("stop")

// query calls each for every row, which is overwritten by the next one. A
// cancelled context interrupts the statement.
func (c *conn) query(ctx context.Context, sql string, args []any, each func(row) error) error {
	s, cached, err := c.take(sql)
	if err != nil {
		return err
	}
	if !cached {
		defer s.prepared.Close()
	}
	bound, err := s.bind(args)
	if err != nil {
		return err
	}
	s.busy = true
	defer func() { s.busy = false }()
	rows, err := s.prepared.QueryContext(ctx, bound)
	if err != nil {
		return queryError(ctx, err)
	}
	defer rows.Close()
	if s.row == nil {
		s.row = make(row, len(rows.Columns()))
	}
	for {
		switch err := rows.Next(s.row); {
		case err == io.EOF:
			return nil
		case err != nil:
			return queryError(ctx, err)
		}
		if err := each(s.row); err == errStop {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// first returns a copy of the first row, or nil when there is none.
func (c *conn) first(ctx context.Context, sql string, args ...any) (row, error) {
	var found row
	err := c.query(ctx, sql, args, func(r row) error {
		found = append(row(nil), r...)
		return errStop
	})
	return found, err
}

// pragma returns the first column of a pragma's first row as text.
func (c *conn) pragma(sql string) (string, error) {
	rows, err := c.raw.QueryContext(context.Background(), "PRAGMA "+sql, nil)
	if err != nil {
		return "", translate(err)
	}
	defer rows.Close()
	values := make([]driver.Value, len(rows.Columns()))
	if len(values) == 0 {
		return "", nil
	}
	if err := rows.Next(values); err == io.EOF {
		return "", nil
	} else if err != nil {
		return "", translate(err)
	}
	return strings.TrimSpace(fmt.Sprint(values[0])), nil
}

func queryError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return translate(err)
}
