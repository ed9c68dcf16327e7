package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"recalld/front/api"
	"recalld/sqlite"
)

func (a *app) restoreCommand() *cobra.Command {
	var from string
	var verify bool
	c := &cobra.Command{
		Use:   "restore --from PATH",
		Short: "Put a backup in the place of the data file",
		Long: `Put a backup in the place of the data file. The backup is left as it is; the
file that was there is set aside, never overwritten. With --verify every check
must pass first. No server may be running on the folder.`,
		Example: `  recalld restore --from ~/backups/recall-2026-11-30.db --verify`,
		Args:    exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if from == "" {
				return usage("name the backup with --from")
			}
			if err := checkPath("--from", from); err != nil {
				return err
			}
			lock, err := api.LockFolder(a.data)
			if err != nil {
				return err
			}
			defer lock.Unlock()
			restored, err := sqlite.Restore(c.Context(), from, filepath.Join(a.data, truthName), verify, sqlite.Options{})
			if err != nil {
				return err
			}
			return a.print(restored, func(w io.Writer) {
				fmt.Fprintf(w, "restored; the store is now %s\n", restored.TruthID)
				if verify {
					fmt.Fprintf(w, "%d checks passed\n", len(restored.Findings))
				}
				if restored.SetAside != "" {
					fmt.Fprintf(w, "the file that was there is %s\n", restored.SetAside)
				}
			})
		},
	}
	c.Flags().StringVar(&from, "from", "", "the backup")
	c.Flags().BoolVar(&verify, "verify", false, "run every check on the backup before it takes the place")
	c.MarkFlagFilename("from", "db")
	return c
}
