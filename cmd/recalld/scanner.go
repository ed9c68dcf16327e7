package main

import (
	"os"

	"github.com/spf13/cobra"

	"recalld/scanner"
)

// scannerCommand is the scanner process. A server starts it; it is not listed.
func (a *app) scannerCommand() *cobra.Command {
	var o scanner.Options
	c := &cobra.Command{
		Use:    "scanner",
		Short:  "Hold and scan derived matrices, as a server's child",
		Hidden: true,
		Long: `Hold the derived matrices of a store and answer its server's scans over a socket
of theirs. A server starts and ends this process; started by hand it says so and
exits with code 1.`,
		Example: `  recalld scanner --threads 2
  recalld scanner --mlock`,
		Args: exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			o.Log = os.Stderr // as it is now: serving sends it elsewhere
			scanner.Serve(o)
			return nil
		},
	}
	c.Flags().IntVar(&o.Threads, "threads", 0, "goroutines of a scan, 0 for as many as there are processors")
	c.Flags().BoolVar(&o.Lock, "mlock", false, "lock the codes in memory, as far as the system lets it")
	return c
}
