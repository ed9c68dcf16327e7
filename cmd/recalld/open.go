package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"recalld/coordinator"
	"recalld/front/api"
	"recalld/sqlite"
)

// truthName is the data file's name inside the data folder.
const truthName = "recall.db"

// session is a service and how to let go of it.
type session struct {
	coordinator.Service
	remote bool // a running server answers
	close  func() error
}

// Close lets go of the service; in process it stops the worker, closes the file
// and unlocks the folder.
func (s *session) Close() error { return s.close() }

// open returns the running server of the data folder when there is one, else
// the folder opened in this process.
func (a *app) open(ctx context.Context) (*session, error) {
	client, err := api.Dial(a.data)
	switch {
	case err == nil:
		if a.embed.given() {
			return nil, errors.Join(usage("a server is running on %s and has its own model; leave the --embed flags out or stop it", a.data), client.Close())
		}
		return &session{Service: client, remote: true, close: client.Close}, nil
	case !errors.Is(err, api.ErrNoServer):
		return nil, err
	}
	return a.openLocal(ctx)
}

// openLocal opens the folder in this process, under its lock.
func (a *app) openLocal(ctx context.Context) (s *session, err error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(a.data, 0o700); err != nil {
		return nil, fmt.Errorf("open %s: %w", a.data, err)
	}
	lock, err := api.LockFolder(a.data)
	if err != nil {
		return nil, err
	}
	closers := []func() error{lock.Unlock}
	closeAll := func() error {
		var all error
		for i := len(closers) - 1; i >= 0; i-- {
			all = errors.Join(all, closers[i]())
		}
		return all
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	store, err := sqlite.Open(ctx, filepath.Join(a.data, truthName), sqlite.Options{Clock: time.Now, Log: log})
	if err != nil {
		return nil, err
	}
	closers = append(closers, store.Close)
	c, err := coordinator.New(ctx, coordinator.Config{Store: store, Overrides: a.embed.settings(), Clock: time.Now, Version: version(), Log: log})
	if err != nil {
		return nil, err
	}
	closers = append(closers, c.Close)
	return &session{Service: c, close: closeAll}, nil
}

// embedFlags override the stored settings of the embedding model for one run.
type embedFlags struct {
	flags                     *pflag.FlagSet
	backend, url, name, key   string
	queryPrompt, recordPrompt string
}

func (e *embedFlags) register(flags *pflag.FlagSet) {
	e.flags = flags
	flags.StringVar(&e.backend, "embed-backend", "", "embedding model: static, hash, openai, embed or none (default: the stored setting)")
	flags.StringVar(&e.url, "embed-url", "", "base URL of the embedding server")
	flags.StringVar(&e.name, "embed-model", "", "model name as the server knows it")
	flags.StringVar(&e.key, "embed-key-env", "", "environment variable that holds the server's key")
	flags.StringVar(&e.queryPrompt, "embed-query-prompt", "", `written before a query, such as "query: "`)
	flags.StringVar(&e.recordPrompt, "embed-record-prompt", "", `written before a stored text, such as "passage: "`)
}

// settings are the flags that were given, under the names of the settings.
func (e *embedFlags) settings() map[string]string {
	all := map[string]string{}
	for flag, name := range map[string]string{
		"embed-backend": "embedding.backend", "embed-url": "embedding.url", "embed-model": "embedding.name", "embed-key-env": "embedding.key_env",
		"embed-query-prompt": "embedding.prompts.query", "embed-record-prompt": "embedding.prompts.document",
	} {
		if f := e.flags.Lookup(flag); f.Changed {
			all[name] = f.Value.String()
		}
	}
	return all
}

func (e *embedFlags) given() bool { return len(e.settings()) > 0 }
