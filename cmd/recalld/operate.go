package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"recalld/coordinator"
)

func (a *app) doctorCommand() *cobra.Command {
	var request coordinator.DoctorRequest
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the data and say what to do",
		Long: `Run every check, each on its own, and print what it saw and how to mend it. The
exit code is 1 when a check found something.`,
		Example: `  recalld doctor
  recalld doctor --check cell_stats --fix
  recalld doctor --json`,
		Args: exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			answer, err := s.Doctor(c.Context(), request)
			if err != nil {
				return err
			}
			if err := a.print(answer, func(w io.Writer) {
				for _, check := range answer.Checks {
					word := "ok"
					if !check.OK {
						word = check.Severity
					}
					fmt.Fprintf(w, "%-8s %s\n", word, check.Name)
					for _, line := range check.Evidence {
						fmt.Fprintln(w, "         ", visible(line))
					}
					if check.Fixed > 0 {
						fmt.Fprintf(w, "          fixed: %d\n", check.Fixed)
					}
					if !check.OK && check.Fix != "" {
						fmt.Fprintln(w, "          fix:", check.Fix)
					}
				}
			}); err != nil {
				return err
			}
			if !answer.OK {
				return errReported
			}
			return nil
		}),
	}
	c.Flags().StringSliceVar(&request.Checks, "check", nil, "only these checks (default: all)")
	c.Flags().BoolVar(&request.Fix, "fix", false, "mend what a check can mend; records are never rewritten")
	return c
}

func (a *app) calibrateCommand() *cobra.Command {
	var request coordinator.CalibrateRequest
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure an agent's thresholds from its own records",
		Example: `  recalld calibrate --agent mia
  recalld calibrate --agent mia --method percentile --parameter 0.97 --dry-run`,
		Args: exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			answer, err := s.Calibrate(c.Context(), request)
			if err != nil {
				return err
			}
			return a.print(answer, func(w io.Writer) {
				for _, r := range answer.Results {
					fmt.Fprintf(w, "%-7s threshold %.4f  (%s, %s, %d positives, %d negatives, model %s)\n", r.Signal, r.Threshold, r.Method, r.Precision, r.Positives, r.Negatives, r.Model)
				}
				for _, s := range answer.Skipped {
					fmt.Fprintf(w, "%-7s not measured: %s %s\n", s.Arm, s.Reason, s.Detail)
				}
			})
		}),
	}
	agentFlag(c, &request.Agent)
	f := c.Flags()
	f.StringVar(&request.Method, "method", "", "separation (default), percentile or zscore")
	f.StringVar(&request.Precision, "precision", "", "strict, balanced (default) or lenient")
	f.Float64Var(&request.Parameter, "parameter", 0, "the quantile or z (default: the method's)")
	f.BoolVar(&request.DryRun, "dry-run", false, "measure, store nothing")
	return c
}

func (a *app) modelCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "model",
		Short: "Show embedding models and decide about them",
		Long: `Show the embedding models that the store knows. Nothing is embedded again unless
you say so: accept takes a changed model as the same one, rebuild embeds
everything with the configured model beside the old vectors, retire drops the
vectors of a model that is not active, by its number.`,
		Example: `  recalld model
  recalld model rebuild
  recalld model accept
  recalld model retire 2`,
		Args: exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			models, err := s.Models(c.Context())
			if err != nil {
				return err
			}
			if models == nil {
				models = []coordinator.ModelState{}
			}
			return a.print(map[string]any{"models": models}, func(w io.Writer) {
				for _, m := range models {
					writeModel(w, m)
				}
			})
		}),
	}
	for _, action := range []struct {
		name, short, use, example string
		args                      cobra.PositionalArgs
	}{
		{"accept", "Take a changed model as the same one", "accept", "", exactly(0, "")},
		{"rebuild", "Embed everything with the configured model", "rebuild", "", exactly(0, "")},
		{"retire", "Drop a model's vectors", "retire MODEL", " 2", exactly(1, "number of a model")},
	} {
		request := coordinator.ModelRequest{Action: action.name}
		c.AddCommand(&cobra.Command{
			Use:     action.use,
			Short:   action.short,
			Example: "  recalld model " + action.name + action.example,
			Args:    action.args,
			RunE: func(c *cobra.Command, args []string) error {
				request.Model = strings.Join(args, "")
				s, err := a.open(c.Context())
				if err != nil {
					return err
				}
				defer s.Close()
				state, err := s.ChangeModel(c.Context(), request)
				if err != nil {
					return err
				}
				return a.print(state, func(w io.Writer) { writeModel(w, *state) })
			},
		})
	}
	return c
}

func writeModel(w io.Writer, m coordinator.ModelState) {
	if m.ID == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintf(w, "%d %-8s %s/%s  %d dimensions  %d of %d records embedded\n", m.ID, m.State, m.Backend, visible(m.Name), m.Dims, m.Embedded, m.Records)
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and change the server's settings",
		Long:  `Show and change the server's settings. They are kept in the data file.`,
		Example: `  recalld config
  recalld config set fusion.mode rrf
  recalld config unset fusion.mode`,
		Args: exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			settings, err := s.Settings(c.Context())
			if err != nil {
				return err
			}
			return a.print(map[string]any{"settings": settings}, func(w io.Writer) {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				for _, x := range settings {
					mark := ""
					if x.Stored {
						mark = "*"
					}
					fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\n", x.Name, mark, visible(x.Value), x.Range, x.Doc)
				}
				t.Flush()
				fmt.Fprintln(w, "\n* changed from its default")
			})
		}),
	}
	change := func(use, short, example string, args cobra.PositionalArgs, value func([]string) string) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Example: example, Args: args, ValidArgsFunction: a.completeSetting,
			RunE: func(c *cobra.Command, args []string) error {
				s, err := a.openOrMake(c.Context())
				if err != nil {
					return err
				}
				defer s.Close()
				x, err := s.SetSetting(c.Context(), args[0], value(args))
				if err != nil {
					return err
				}
				return a.print(x, func(w io.Writer) { fmt.Fprintf(w, "%s = %s\n", x.Name, visible(x.Value)) })
			},
		}
	}
	c.AddCommand(
		change("set NAME VALUE", "Change a setting", "  recalld config set recall.depth 200", exactly(2, "NAME and VALUE"), func(args []string) string { return args[1] }),
		change("unset NAME", "Go back to the default", "  recalld config unset recall.depth", exactly(1, "NAME"), func([]string) string { return "" }),
	)
	return c
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Say what is stored and how the server is",
		Example: "  recalld status --json",
		Args:    exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			status, err := s.Status(c.Context())
			if err != nil {
				return err
			}
			return a.print(status, func(w io.Writer) {
				where := "no server; opened for this command"
				if s.remote {
					where = "server " + status.Version
				}
				fmt.Fprintf(w, "%s\nfile     %s (schema %d, truth %s, log %d bytes)\n", where, status.Path, status.Schema, status.TruthID, status.WALBytes)
				fmt.Fprintf(w, "records  %d memories, %d episodes of %d agents\n", status.Memories, status.Episodes, status.Agents)
				fmt.Fprint(w, "model    ")
				writeModel(w, status.Model)
				fmt.Fprintf(w, "queue    %d waiting, %d to retry, %d cannot be embedded\n", status.Queue.Pending, status.Queue.Failed, status.Queue.Unembeddable)
				if b := status.Blocks; b.Build {
					fmt.Fprintf(w, "blocks   %d of %d records; %d records to look at, %d to retry, %d blocks cannot be embedded\n", b.Blocks, b.Records, b.Waiting, b.Failed, b.Unembeddable)
				} else {
					fmt.Fprintln(w, "blocks   off, by the setting blocks.build")
				}
				if status.ErasePending {
					fmt.Fprintln(w, "erasure  pending: deleted bytes leave the log once the open export, backup or recall has ended")
				}
				if n := status.Advisory; n != nil {
					fmt.Fprintf(w, "advisory %s: %s %s\n", n.Severity, visible(n.Reason), visible(n.Evidence))
				}
			})
		}),
	}
}
