package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"recalld/front/api"
	"recalld/front/guard"
	"recalld/memory"
)

func (a *app) serveCommand() *cobra.Command {
	var flags doorFlags
	var queue queueFlags
	var idle time.Duration
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve one data folder to all clients until interrupted",
		Long: `Serve one data folder over a unix socket until interrupted. Commands and MCP
fronts that name the same folder find the server by themselves. With --http
clients come in over TCP as well, each with a token: the one in RECALLD_TOKEN, or
one of its own from a file of grants.`,
		Example: `  recalld serve
  RECALLD_TOKEN=$(openssl rand -hex 32) recalld serve --http 127.0.0.1:7300
  recalld serve --http 127.0.0.1:7300 --grants grants.json --files ./backups
  recalld serve --scanner off                # compare vectors in this process
  recalld serve --data ./memory --embed-backend openai --embed-url http://127.0.0.1:8000 --embed-model multilingual-e5-small`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if idle < 0 {
				return fmt.Errorf("%w: %w", errUsage, &memory.FieldError{Field: "--idle", Problem: "is negative", Limit: "0 or longer", Next: "write it as in 10m"})
			}
			if a.queue, err = queue.open(); err != nil {
				return err
			}
			log, err := a.logger(true)
			if err != nil {
				return err
			}
			d, err := a.openDoor(&flags, log)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.Close()) }()
			a.scanner.serves, a.scanner.errOut = true, a.errOut
			s, err := a.openToServe(c.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			a.presence = api.NewPresence(idle)
			return a.serve(c.Context(), s, d, func(ctx context.Context) error {
				where := a.data
				if d != nil {
					where += " at " + d.url()
				}
				fmt.Fprintf(a.errOut, "serving %s; stop with Ctrl-C\n", where)
				select {
				case <-ctx.Done():
				case <-a.presence.Alone():
					log.Info("nobody was here for a while; the server ends", "idle", idle)
				}
				return nil
			})
		},
	}
	flags.register(c)
	queue.register(c)
	c.Flags().DurationVar(&idle, "idle", 0, "end after this long without a front or a call, as in 10m; 0: stay")
	return c
}

// serve answers on the folder's socket, and behind the door where there is one,
// while the work in hand, which begins once clients can connect, goes on and its
// context lasts; then it lets calls in flight finish.
func (a *app) serve(ctx context.Context, s *session, d *door, work func(context.Context) error) (err error) {
	log, err := a.logger(true)
	if err != nil {
		return err
	}
	listener, withdraw, err := api.Listen(a.data, version(), time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, withdraw()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	metrics := api.NewMetrics(s.Service, time.Now)
	if a.queue == nil {
		a.queue = guard.NewQueue(0, 0)
	}
	servers := []func() error{func() error {
		return api.NewServer(s.Service, api.Options{Log: log, Metrics: metrics, Presence: a.presence, Queue: a.queue}).Serve(ctx, listener)
	}}
	if d != nil {
		d.options.Queue = a.queue
		servers = append(servers, func() error {
			return d.serve(ctx, api.NewServer(guard.Service(s.Service, d.folders), api.Options{Log: log, Health: s.Service, Metrics: metrics, Presence: a.presence}), metrics.Refused)
		})
	}
	ended := make(chan error, len(servers))
	for _, server := range servers {
		go func() {
			defer stop()
			ended <- server()
		}()
	}
	err = work(ctx)
	stop()
	for range servers {
		err = errors.Join(err, <-ended)
	}
	return err
}
