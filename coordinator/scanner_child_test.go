package coordinator

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"recalld/sqlite"
)

// Where a coordinator works until it is killed, and where its scanner's sockets are.
const (
	childFolder  = "COORDINATOR_TEST_FOLDER"
	childSockets = "COORDINATOR_TEST_SOCKETS"
)

// childSettings are those of that coordinator and of whoever looks at what it left.
func childSettings() map[string]string {
	settings := beforeSettings()
	maps.Copy(settings, map[string]string{"embedding.backend": "hash", "blocks.retrieve": "true"})
	return settings
}

// workWithoutEnd stores, edits and deletes through a coordinator with a scanner,
// whose files are sealed, compacted and rebuilt all the while.
func workWithoutEnd(folder string) {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	program, err := os.Executable()
	check(err)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "recall.db"), sqlite.Options{})
	check(err)
	c, err := New(ctx, Config{Store: store, Overrides: childSettings(), Version: "test", Seed: 1, Scanner: Scanner{Command: []string{program}, Runtime: os.Getenv(childSockets)}})
	check(err)
	l := newLanguage(uint64(os.Getpid()))
	for i := 0; ; i++ {
		agent := []string{"mia", "ken"}[l.random.IntN(2)]
		a, err := c.Store(ctx, StoreRequest{Agent: agent, Items: []StoreItem{say(fmt.Sprintf("%s No. %d of %d", library(l, 1+l.random.IntN(12)), i, os.Getpid()))}})
		check(err)
		if i%3 == 0 {
			text := fmt.Sprintf("%s Edit %d of %d", library(l, 2), i, os.Getpid())
			_, err := c.Update(ctx, UpdateRequest{Agent: agent, Ref: a.Results[0].Ref, Content: &text})
			check(err)
		}
		if i%7 == 0 {
			_, err := c.Delete(ctx, DeleteRequest{Agent: agent, Refs: []string{a.Results[0].Ref}})
			check(err)
		}
		switch i % 11 {
		case 3:
			check(c.codes.Seal(ctx))
		case 7:
			_, err := c.codes.Compact(ctx, nil)
			check(err)
		case 10:
			check(c.codes.Rebuild(ctx, nil))
		}
		_, err = c.Recall(ctx, RecallRequest{Agent: agent, Query: library(l, 1)})
		check(err)
		if i == 10 {
			fmt.Println("working")
		}
	}
}
