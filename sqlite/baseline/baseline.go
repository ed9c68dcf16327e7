package baseline

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver that the truth uses
)

// Inserts writes n rows of the given text into a new file at path, one durable
// transaction each, and returns the time that took by the clock.
func Inserts(ctx context.Context, clock func() time.Time, path, text string, n int) (time.Duration, error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_synchronous=FULL")
	if err != nil {
		return 0, fmt.Errorf("baseline: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, statement := range []string{"PRAGMA page_size = 16384", "PRAGMA journal_mode = WAL", "CREATE TABLE row (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return 0, fmt.Errorf("baseline: %w", err)
		}
	}
	insert, err := db.PrepareContext(ctx, "INSERT INTO row (text) VALUES (?)")
	if err != nil {
		return 0, fmt.Errorf("baseline: %w", err)
	}
	defer insert.Close()
	start := clock()
	for range n {
		if _, err := insert.ExecContext(ctx, text); err != nil {
			return 0, fmt.Errorf("baseline: %w", err)
		}
	}
	return clock().Sub(start), nil
}
