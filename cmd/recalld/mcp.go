package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/front/api"
	"recalld/front/guard"
	"recalld/front/mcp"
	"recalld/memory"
)

// mcpPath is where MCP is spoken over HTTP.
const mcpPath = "/mcp"

// mcpFlags are what `recalld mcp` may be told.
type mcpFlags struct {
	agent  string
	tools  string
	server string
	idle   time.Duration
	door   doorFlags
}

func (a *app) mcpCommand() *cobra.Command {
	var f mcpFlags
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Speak MCP on standard input and output, or over HTTP",
		Long: `Speak the Model Context Protocol on standard input and output, or with --http at
HOST:PORT/mcp. This is a thin front of the server of the data folder, and any number
of fronts share that. Where no server runs, one is started in the background; it
outlives this front, writes its log to server.log in the data folder, and ends by
itself after --server-idle without a front. A server that was killed is started
again by the next call. With --embed or --scanner flags or --set, which are one run's, and for a
folder that cannot be written, the folder is opened in this process instead.

Over HTTP every client needs a token: the one in RECALLD_TOKEN, or one of its own
from a file of grants.`,
		Example: `  recalld mcp --agent mia
  recalld mcp --tools all --files ./exports
  recalld mcp --server require               # where a service manager runs recalld serve
  claude mcp add memory -- recalld mcp --agent mia
  RECALLD_TOKEN=$(openssl rand -hex 32) recalld mcp --http 127.0.0.1:7301`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			// An empty name is no wish for everybody's memory, but a variable that is not set.
			if c.Flags().Changed("agent") || f.agent != "" {
				if err := (memory.Scope{Agent: f.agent}).Check(); err != nil {
					return err
				}
			}
			return a.mcp(c, &f)
		},
	}
	agentFlag(c, &f.agent)
	flags := c.Flags()
	flags.StringVar(&f.tools, "tools", "usual", "usual: what an agent at work needs; all: also export, merge, checks, thresholds and pauses")
	flags.StringVar(&f.server, "server", serverAuto, "auto: use the folder's server, start one where none runs; require: use it, or fail; embedded: open the folder in this process where none runs")
	flags.DurationVar(&f.idle, "server-idle", 10*time.Minute, "how long a server that was started here stays without a front; 0: until it is stopped")
	f.door.register(c)
	f.door.filesAlone = true
	flags.Lookup("http").Usage = "speak over streamable HTTP at HOST:PORT/mcp instead, such as 127.0.0.1:7301; needs --grants or a token"
	flags.Lookup("files").Usage = "folder that export_memories and import_memories may name files in (default: none)"
	return c
}

// The ways to come by a server.
const (
	serverAuto     = "auto"
	serverRequire  = "require"
	serverEmbedded = "embedded"
)

func (a *app) mcp(c *cobra.Command, f *mcpFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	log, err := a.logger(true)
	if err != nil {
		return err
	}
	front, err := a.openFront(f, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, front.Close()) }()
	s, err := a.serverFor(c.Context(), f, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	o := mcp.Options{
		Agent: f.agent, All: f.tools == "all", Files: front.folders, Version: version(), In: a.in, Out: a.out, Log: log,
		Again: func(err error) bool { return errors.Is(err, api.ErrNoServer) },
	}
	speak := func(ctx context.Context) error { return front.speak(ctx, s.Service, o) }
	if s.remote || s.readOnly {
		return speak(c.Context())
	}
	return a.serve(c.Context(), s, nil, speak)
}

func (f *mcpFlags) check() error {
	for _, flag := range []struct {
		name, value string
		words       []string
	}{{"--tools", f.tools, []string{"usual", "all"}}, {"--server", f.server, []string{serverAuto, serverRequire, serverEmbedded}}} {
		known := false
		for _, word := range flag.words {
			known = known || flag.value == word
		}
		if !known {
			return fmt.Errorf("%w: %w", errUsage, &memory.FieldError{Field: flag.name, Problem: memory.Shape(flag.value) + " is unknown", Limit: fmt.Sprint(flag.words), Next: "choose one of these"})
		}
	}
	if f.idle < 0 {
		return fmt.Errorf("%w: %w", errUsage, &memory.FieldError{Field: "--server-idle", Problem: "is negative", Limit: "0 or longer", Next: "write it as in 10m"})
	}
	return nil
}

// mcpFront is where MCP is spoken: behind a door, or on standard input and
// output.
type mcpFront struct {
	door    *door
	folders *guard.Folders
	out     func(format string, args ...any)
}

func (a *app) openFront(f *mcpFlags, log *slog.Logger) (*mcpFront, error) {
	front := &mcpFront{out: func(format string, args ...any) { fmt.Fprintf(a.errOut, format, args...) }}
	if f.door.address == "" {
		if _, err := a.openDoor(&f.door, log); err != nil {
			return nil, err
		}
		folders, err := guard.OpenFolders(a.data, f.door.files)
		front.folders = folders
		return front, err
	}
	d, err := a.openDoor(&f.door, log)
	if err != nil {
		return nil, err
	}
	front.door, front.folders = d, d.folders
	return front, nil
}

// speak serves clients until ctx or the input ends.
func (f *mcpFront) speak(ctx context.Context, service coordinator.Service, o mcp.Options) error {
	if f.door == nil {
		return mcp.Serve(ctx, service, o)
	}
	handler, err := mcp.Handler(guard.Service(service, f.folders), o)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(mcpPath, handler)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	f.out("MCP at %s%s; stop with Ctrl-C\n", f.door.url(), mcpPath)
	return f.door.serve(ctx, mux, nil)
}

// Close lets go of the address and the folders.
func (f *mcpFront) Close() error {
	if f.door != nil {
		return f.door.Close()
	}
	return f.folders.Close()
}

// serverFor is the service that a front speaks for.
func (a *app) serverFor(ctx context.Context, f *mcpFlags, log *slog.Logger) (*session, error) {
	switch {
	case f.server == serverEmbedded || f.server == serverAuto && a.oneRun():
		return a.openOrDial(ctx, log)
	case f.server == serverRequire:
		client, err := api.Dial(a.data)
		if err != nil {
			return nil, fmt.Errorf("%w; start `recalld serve --data %s`, or leave --server require out", err, a.data)
		}
		if err := client.Close(); err != nil {
			return nil, err
		}
		return following(api.Follow(a.data, nil)), nil
	}
	readOnly, err := a.cannotWrite()
	if err != nil {
		return nil, err
	}
	if readOnly {
		return a.openOrDial(ctx, log)
	}
	start := func(ctx context.Context) error { return a.startServer(ctx, f.idle, log) }
	if err := start(ctx); err != nil {
		return nil, err
	}
	return following(api.Follow(a.data, start)), nil
}

func following(client *api.Client) *session {
	return &session{Service: client, remote: true, close: client.Close}
}
