package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/coordinator/arm"
	"recalld/embed"
	"recalld/ingest"
)

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print shell completion",
		Long:  `Print a script that completes commands, flags and their values in your shell.`,
		Example: `  source <(recalld completion bash)
  recalld completion zsh > "${fpath[1]}/_recalld"
  recalld completion fish > ~/.config/fish/completions/recalld.fish`,
		Args:      exactly(1, "shell: bash, zsh or fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			write, known := map[string]func(io.Writer) error{
				"bash": func(w io.Writer) error { return c.Root().GenBashCompletionV2(w, true) },
				"zsh":  c.Root().GenZshCompletion,
				"fish": func(w io.Writer) error { return c.Root().GenFishCompletion(w, true) },
			}[args[0]]
			if !known {
				return usage("shell %q is not known; choose bash, zsh or fish", args[0])
			}
			return write(a.out)
		},
	}
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		Example: `  recalld help recall
  recalld help model rebuild`,
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, err := c.Root().Find(args)
			if err != nil {
				return usage("%v", err)
			}
			if len(rest) > 0 {
				return knownCommand(target, rest)
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			target, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range target.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// completeValues gives flags with a closed set of values these values, wherever
// they are, and keeps file names away from arguments that are none.
func completeValues(c *cobra.Command) {
	for name, values := range map[string][]string{
		"arms":          arm.Names(),
		"dataset":       {"locomo"},
		"embed-backend": embed.Backends(),
		"format":        ingest.Formats(),
		"fusion":        {"rsf", "rrf"},
		"gate":          {"on", "off"},
		"lexical":       {arm.GroupFTS},
		"log-level":     {"debug", "info", "warn", "error"},
		"method":        {"separation", "percentile", "zscore"},
		"on-conflict":   {"skip", "version"},
		"order":         {"best_first", "best_last"},
		"precision":     {"strict", "balanced", "lenient"},
		"to":            {"jsonl", "cpersona"},
		"vectors":       {"keep", "drop"},
		"scanner":       {coordinator.ScannerAuto, coordinator.ScannerOff},
		"server":        {serverAuto, serverRequire, serverEmbedded},
		"tools":         {"usual", "all"},
		"type":          {ingest.TypeMemory, ingest.TypeEpisode},
	} {
		if c.LocalNonPersistentFlags().Lookup(name) == nil && c.PersistentFlags().Lookup(name) == nil {
			continue
		}
		// It fails for a flag that is not there or has a completion already.
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	takesFile := c.Name() == "import" || c.Name() == "export" || c.Name() == "backup"
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !takesFile {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
}

// completeSetting names the settings of the data folder, if there is one.
func (a *app) completeSetting(c *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if _, err := os.Stat(filepath.Join(a.data, truthName)); len(args) > 0 || err != nil {
		return nil, directive
	}
	s, err := a.open(c.Context())
	if err != nil {
		return nil, directive
	}
	defer s.Close()
	settings, err := s.Settings(c.Context())
	if err != nil {
		return nil, directive
	}
	for _, x := range settings {
		names = append(names, cobra.CompletionWithDesc(x.Name, x.Doc))
	}
	return names, directive
}
