package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recalld/coordinator"
	"recalld/front/api"
	"recalld/memory"
	"recalld/sqlite"
)

// truthName is the data file's name inside the data folder.
const truthName = "recall.db"

// patience is how long a command waits for another one that has the folder.
const patience = 10 * time.Second

// session is a service and how to let go of it.
type session struct {
	coordinator.Service
	remote   bool // a running server answers
	readOnly bool // the folder cannot be written
	close    func() error
}

// Close lets go of the service; in process it stops the worker, closes the file
// and unlocks the folder.
func (s *session) Close() error { return s.close() }

// open is [app.openOrMake] for the commands that have nothing to do in a folder
// without a memory: a mistyped --data is refused, not made.
func (a *app) open(ctx context.Context) (*session, error) {
	log, err := a.logger(false)
	if err != nil {
		return nil, err
	}
	if err := a.holds(); err != nil {
		return nil, err
	}
	return a.openOrDial(ctx, log)
}

// holds refuses a data folder that was never stored into.
func (a *app) holds() error {
	if _, err := os.Stat(filepath.Join(a.data, truthName)); errors.Is(err, fs.ErrNotExist) {
		return &memory.FieldError{Field: "--data", Problem: a.data + " holds no memory", Next: "name the folder that an agent stores into, with --data or RECALLD_DATA, store something there, or look at `recalld demo`"}
	}
	return nil
}

// openOrMake returns the running server of the data folder when there is one, else
// the folder opened in this process, made when it is not there. While another command has the folder, open
// waits for it or for its server. A folder that cannot be written is opened for
// reading.
func (a *app) openOrMake(ctx context.Context) (*session, error) {
	log, err := a.logger(false)
	if err != nil {
		return nil, err
	}
	return a.openOrDial(ctx, log)
}

// with makes the body of a command that needs the service and nothing before it:
// it opens, calls, and lets go.
func (a *app) with(call func(c *cobra.Command, args []string, s *session) error) func(*cobra.Command, []string) error {
	return a.through(a.open, call)
}

// through is with for a command that opens in another way.
func (a *app) through(open func(context.Context) (*session, error), call func(c *cobra.Command, args []string, s *session) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s, err := open(c.Context())
		if err != nil {
			return err
		}
		return errors.Join(call(c, args, s), s.Close())
	}
}

// openOrDial is openOrMake with the log of a folder that is opened in this process.
func (a *app) openOrDial(ctx context.Context, log *slog.Logger) (*session, error) {
	return a.wait(ctx, func() (*session, error) {
		client, err := api.Dial(a.data)
		switch {
		case err == nil && a.oneRun():
			return nil, errors.Join(usage("a server is running on %s and has its own settings; leave the --embed and --scanner flags and --set out or stop it", a.data), client.Close())
		case err == nil:
			return &session{Service: client, remote: true, close: client.Close}, nil
		case !errors.Is(err, api.ErrNoServer):
			return nil, err
		}
		return a.lockAndOpen(ctx, log)
	})
}

// openToServe opens the folder in this process for a server of its own.
func (a *app) openToServe(ctx context.Context) (*session, error) {
	log, err := a.logger(true)
	if err != nil {
		return nil, err
	}
	return a.wait(ctx, func() (*session, error) {
		if client, err := api.Dial(a.data); err == nil {
			return nil, errors.Join(usage("a server is running on %s already; speak to it, or stop it first", a.data), client.Close())
		}
		return a.lockAndOpen(ctx, log)
	})
}

// wait repeats opening while the folder is taken, for as long as patience.
func (a *app) wait(ctx context.Context, open func() (*session, error)) (*session, error) {
	for deadline := time.Now().Add(patience); ; {
		s, err := open()
		var taken *takenError
		if !errors.As(err, &taken) || time.Now().After(deadline) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// takenError is the refusal of a folder that another process has locked.
type takenError struct{ error }

func (e *takenError) Unwrap() error { return e.error }

// lockAndOpen opens the folder in this process, under its lock where it can be
// written.
func (a *app) lockAndOpen(ctx context.Context, log *slog.Logger) (*session, error) {
	lock, err := api.LockFolder(a.data)
	switch {
	case errors.Is(err, memory.ErrBusy):
		return nil, &takenError{err}
	case errors.Is(err, memory.ErrReadOnly):
		switch _, missing := os.Stat(filepath.Join(a.data, truthName)); {
		case errors.Is(missing, fs.ErrPermission):
			return nil, fmt.Errorf("open %s: this user may not look into the folder; run as its owner, or let it be read: %w", a.data, fs.ErrPermission)
		case missing != nil:
			return nil, err
		}
		return a.openFile(ctx, sqlite.Options{ReadOnly: true, Log: log}, func() error { return nil })
	case err != nil:
		return nil, err
	}
	return a.openFile(ctx, sqlite.Options{Log: log}, lock.Unlock)
}

// openFile opens the data file and a coordinator over it. release is called
// last, also when opening fails.
func (a *app) openFile(ctx context.Context, o sqlite.Options, release func() error) (s *session, err error) {
	closers := []func() error{release}
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
	o.Clock = time.Now
	store, err := sqlite.Open(ctx, filepath.Join(a.data, truthName), o)
	if err != nil {
		return nil, err
	}
	closers = append(closers, store.Close)
	overrides := a.embed.settings()
	a.scanner.override(overrides)
	through, err := a.scanner.config(a.scanner.errOut)
	if err != nil {
		return nil, err
	}
	c, err := coordinator.New(ctx, coordinator.Config{Store: store, Overrides: overrides, Scanner: through, Clock: time.Now, Version: version(), Log: o.Log})
	if err != nil {
		return nil, err
	}
	closers = append(closers, c.Close)
	return &session{Service: c, readOnly: store.ReadOnly(), close: closeAll}, nil
}

// embedFlags override the stored settings of the embedding model for one run.
type embedFlags struct {
	flags                     *pflag.FlagSet
	backend, url, name, key   string
	queryPrompt, recordPrompt string
	set                       overrides
}

// overrides are settings given as NAME=VALUE, each by a flag of its own.
type overrides map[string]string

func (o overrides) String() string { return "" }
func (o overrides) Type() string   { return "NAME=VALUE" }

// Set implements [pflag.Value].
func (o overrides) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("%s is not NAME=VALUE", memory.Shape(s))
	}
	o[name] = value
	return nil
}

func (e *embedFlags) register(flags *pflag.FlagSet) {
	e.flags = flags
	flags.StringVar(&e.backend, "embed-backend", "", "embedding model: static, hash, openai, embed or none (default: the stored setting)")
	flags.StringVar(&e.url, "embed-url", "", "base URL of the embedding server")
	flags.StringVar(&e.name, "embed-model", "", "model name as the server knows it")
	flags.StringVar(&e.key, "embed-key-env", "", "environment variable that holds the server's key")
	flags.StringVar(&e.queryPrompt, "embed-query-prompt", "", `written before a query, such as "query: "`)
	e.set = overrides{}
	flags.Var(e.set, "set", "override one setting for this run, as NAME=VALUE; recalld config lists them")
	flags.StringVar(&e.recordPrompt, "embed-record-prompt", "", `written before a stored text, such as "passage: "`)
}

// settings are the flags that were given, under the names of the settings.
func (e *embedFlags) settings() map[string]string {
	all := maps.Clone(map[string]string(e.set))
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
