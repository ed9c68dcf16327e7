package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"recalld/front/api"
	"recalld/front/guard"
	"recalld/memory"
)

// app is what all commands share.
type app struct {
	in     io.Reader
	out    io.Writer
	errOut io.Writer

	data     string
	json     bool
	logLevel string
	embed    embedFlags
	scanner  scannerFlags
	presence *api.Presence // of the server in this process; nil: nobody is missed
	queue    *guard.Queue  // of the same; nil: one of the usual bounds
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "recalld",
		Short: "Long-term memory for AI agents in one SQLite file",
		Long: `recalld keeps what AI agents are told in one SQLite file that you own, and
answers from it in English, Japanese and Chinese. It never calls a generative
model.

Exit codes: 0 done, 1 failed or a check found something, 2 the input was refused
and nothing changed.`,
		Example: `  recalld store  --agent mia "The staging database moved to db-7 on 3 March."
  recalld recall --agent mia "where is the staging database?"
  recalld recall --agent mia "会議は何曜日?" --json
  recalld serve                      # keep one server for all clients
  recalld mcp --agent mia            # speak MCP on standard input and output`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.data, "data", defaultData(), "data folder (environment: RECALLD_DATA)")
	flags.BoolVar(&a.json, "json", false, "print one JSON object instead of text")
	flags.StringVar(&a.logLevel, "log-level", "", "log to standard error from this level on: debug, info, warn, error (default: warn for a server, else no log)")
	a.embed.register(flags)
	a.scanner.register(flags)
	root.MarkPersistentFlagDirname("data")
	root.SetFlagErrorFunc(badFlag)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.serveCommand(), a.mcpCommand(), a.demoCommand(),
		a.storeCommand(), a.recallCommand(), a.getCommand(), a.listCommand(), a.updateCommand(), a.deleteCommand(),
		a.lockCommand(true), a.lockCommand(false), a.profileCommand(),
		a.hookCommand(), a.importCommand(), a.exportCommand(), a.backupCommand(), a.restoreCommand(), a.vacuumCommand(),
		a.doctorCommand(), a.indexCommand(), a.calibrateCommand(), a.modelCommand(), a.configCommand(), a.statusCommand(),
		a.versionCommand(), a.benchCommand(), a.completionCommand(), a.scannerCommand(),
	)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return checkPath("--data", a.data) }
	completeValues(root)
	return root
}

// defaultData is RECALLD_DATA, else the user's data folder.
func defaultData() string {
	if dir := os.Getenv("RECALLD_DATA"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "recalld")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "recalld-data"
	}
	return filepath.Join(home, ".local", "share", "recalld")
}

// logger writes structured lines to standard error. A server that was not told
// a level logs warnings. A command that ends with its answer logs nothing
// unless told: what went wrong is in the answer.
func (a *app) logger(server bool) (*slog.Logger, error) {
	var level slog.Level
	switch {
	case a.logLevel == "" && !server:
		return slog.New(slog.DiscardHandler), nil
	case a.logLevel == "":
		level = slog.LevelWarn
	case level.UnmarshalText([]byte(a.logLevel)) != nil:
		return nil, &memory.FieldError{Field: "--log-level", Problem: memory.Shape(a.logLevel) + " is not a level", Limit: "debug, info, warn, error", Next: "choose one of them"}
	}
	return slog.New(slog.NewTextHandler(a.errOut, &slog.HandlerOptions{Level: level})), nil
}

// oneRun reports whether flags were given that override a server's own settings.
func (a *app) oneRun() bool { return a.embed.given() || a.scanner.given() }

// print writes v as JSON with --json, else calls text.
func (a *app) print(v any, text func(w io.Writer)) error {
	if !a.json {
		text(a.out)
		return nil
	}
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// visible makes stored text safe for a terminal: control characters and
// bidirectional controls are shown as escapes such as \u202e, bytes that are no
// text as U+FFFD, line breaks and tabs as they are.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// onTerminal reports whether progress should be drawn.
func (a *app) onTerminal() bool {
	f, ok := a.errOut.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// scopeFlags are --agent, --project and --channel. A flag that is not given is
// absent, which is not the same as empty.
type scopeFlags struct {
	agent, project, channel string
	cmd                     *cobra.Command
}

func (s *scopeFlags) register(c *cobra.Command) {
	s.cmd = c
	c.Flags().StringVar(&s.agent, "agent", os.Getenv("RECALLD_AGENT"), "whose memory (environment: RECALLD_AGENT)")
	c.Flags().StringVar(&s.project, "project", "", `project; not given: all of the agent's, "": the global pool alone`)
	c.Flags().StringVar(&s.channel, "channel", "", "channel; not given or empty: all")
}

// registerStoring registers the flags of a command that stores: there they say
// where a record goes, not where one is looked for.
func (s *scopeFlags) registerStoring(c *cobra.Command) {
	s.register(c)
	c.Flags().Lookup("project").Usage = "project that it belongs to; not given or empty: the global pool, which every project sees"
	c.Flags().Lookup("channel").Usage = "channel that it belongs to; not given or empty: every channel sees it"
}

func (s *scopeFlags) optional() (project, channel *string) {
	if s.cmd.Flags().Changed("project") {
		project = &s.project
	}
	if s.cmd.Flags().Changed("channel") {
		channel = &s.channel
	}
	return project, channel
}
