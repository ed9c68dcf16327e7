package main

import (
	"github.com/spf13/cobra"

	"recalld/scanner"
)

// scannerCommand is the scanner process. A server starts it; it is not listed.
func (a *app) scannerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "scanner",
		Short:  "Hold and scan derived matrices, as a server's child",
		Hidden: true,
		Long: `Hold the derived matrices of a store and answer its server's scans over a socket
of theirs. A server starts and ends this process; started by hand it says so and
exits with code 1.`,
		Example: `  recalld scanner`,
		Args:    exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			scanner.Serve()
			return nil
		},
	}
}
