package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/front/api"
	"recalld/memory"
)

func (a *app) benchLoad() *cobra.Command {
	var server, tokenEnv, mix string
	var seconds float64
	var queue queueFlags
	var o bench.LoadOptions
	c := &cobra.Command{
		Use:   "load",
		Short: "Drive a server with many clients at once",
		Long: `Drive a server with many clients at once, each with one call at a time, and print
throughput and latency of each operation, errors by kind, and calls that the server
turned away because its queue was full; then see whether one client alone finds it
as before. A client that was turned away comes again after the time that the server
names.

Without --server and --data a server of the bench's own is driven, in a temporary
folder. A server that is named keeps what is stored: records of the agent
"` + bench.LoadAgent + `".`,
		Example: `  recalld bench load --clients 64 --seconds 10 --json
  recalld bench load --clients 64 --max-requests 4 --max-waiting 8     # see it shed and recover
  recalld bench load --data ./memory --mix recall=95,store=5
  RECALLD_TOKEN=... recalld bench load --server http://127.0.0.1:7300 --clients 32`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Mix, err = bench.ParseLoadMix(mix); err != nil {
				return err
			}
			o.For, o.Clock = bench.Span(seconds), time.Now
			progress, done := a.bar("records", false)
			defer done()
			o.Progress = progress
			run := func(ctx context.Context) error {
				report, err := bench.Load(ctx, o)
				if err != nil {
					return err
				}
				report.Machine = bench.ThisMachine(time.Now(), version())
				return a.print(report, func(w io.Writer) { writeLoad(w, report) })
			}
			switch {
			case server != "":
				u, err := url.Parse(server)
				if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
					return &memory.FieldError{Field: "--server", Problem: memory.Shape(server) + " is no URL of a server", Limit: "http or https, host, port", Next: "write it as in http://127.0.0.1:7300"}
				}
				o.Dial = func() (bench.LoadClient, error) { return bench.NewHTTPLoadClient(server, os.Getenv(tokenEnv)), nil }
				return run(c.Context())
			case c.Flags().Changed("data"):
				o.Dial = a.dialLoad
				return run(c.Context())
			}
			if a.queue, err = queue.open(); err != nil {
				return err
			}
			a.scanner.serves = true
			s, clean, err := a.scratch(c)
			if err != nil {
				return err
			}
			defer clean()
			o.Dial = a.dialLoad
			return a.serve(c.Context(), s, nil, run)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Clients, "clients", 16, fmt.Sprintf("clients at once, at most %d", bench.MaxLoadClients))
	f.Float64Var(&seconds, "seconds", 10, "time in which calls begin")
	f.StringVar(&mix, "mix", "recall=80,store=20", "shares of the operations")
	f.IntVar(&o.Records, "records", 1_000, "records stored before")
	f.StringVar(&server, "server", "", "URL of a running server (default: one of the bench's own)")
	f.StringVar(&tokenEnv, "token-env", defaultTokenEnv, "environment variable that holds the token for --server")
	queue.register(c)
	return c
}

// dialLoad opens one more client of the folder's server.
func (a *app) dialLoad() (bench.LoadClient, error) {
	client, err := api.Dial(a.data)
	if err != nil {
		return nil, err
	}
	return bench.NewServiceLoadClient(client), nil
}

func writeLoad(w io.Writer, r *bench.LoadReport) {
	fmt.Fprintf(w, "%d clients, %.1f s: %.1f calls/s answered, %d shed\n", r.Clients, r.Seconds, r.PerSecond, r.Shed)
	for _, part := range []struct {
		name string
		ops  []bench.LoadOp
	}{{"before", r.Before}, {"load", r.Operations}, {"after", r.After}} {
		for _, op := range part.ops {
			fmt.Fprintf(w, "%-7s %-7s %7d calls  %9.1f/s  p50 %8.2f ms  p95 %8.2f  p99 %8.2f  shed %d", part.name, op.Name, op.Calls, op.PerSecond, op.P50, op.P95, op.P99, op.Shed)
			for _, kind := range slices.Sorted(maps.Keys(op.Errors)) {
				fmt.Fprintf(w, "  %s %d", kind, op.Errors[kind])
			}
			if op.First != "" {
				fmt.Fprintf(w, " (%s)", visible(op.First))
			}
			fmt.Fprintln(w)
		}
	}
}
