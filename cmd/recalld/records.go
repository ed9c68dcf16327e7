package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/ingest"
	"recalld/memory"
)

func (a *app) storeCommand() *cobra.Command {
	var scope scopeFlags
	var item coordinator.StoreItem
	var metadata string
	c := &cobra.Command{
		Use:   "store TEXT",
		Short: "Remember one text",
		Long: `Remember one text, durably: when the command returns, it is on the disk. A text
that the same agent, project and channel already have is skipped. TEXT "-" reads
standard input.`,
		Example: `  recalld store --agent mia "The staging database moved to db-7."
  recalld store --agent mia --project atlas --channel incidents --time 2026-03-03T09:00:00+09:00 "障害は db-7 の満杯が原因だった。"
  git log -1 --format=%B | recalld store --agent mia --source-id repo/atlas -
  recalld store --agent mia --message-id note-7 --on-conflict version "会议改到周三。"`,
		Args: exactly(1, "TEXT"),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.argument(args[0])
			if err != nil {
				return err
			}
			item.Project, item.Channel = scope.project, scope.channel
			if item.Type == ingest.TypeEpisode {
				item.Summary = text
				item.Start, item.Time = item.Time, ""
			} else {
				item.Content = text
			}
			if metadata != "" {
				item.Metadata = json.RawMessage(metadata)
			}
			if item.Type == ingest.TypeProfile {
				return &memory.FieldError{Field: "--type", Problem: "is profile", Limit: "memory, episode", Next: "use recalld profile"}
			}
			s, err := a.openOrMake(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			answer, err := s.Store(c.Context(), coordinator.StoreRequest{Agent: scope.agent, Items: []coordinator.StoreItem{item}})
			if err != nil {
				return err
			}
			result := answer.Results[0]
			if result.Outcome == "rejected" {
				return refusal(result.Error)
			}
			return a.print(result, func(w io.Writer) { fmt.Fprintln(w, result.Outcome, result.Ref) })
		},
	}
	scope.registerStoring(c)
	f := c.Flags()
	f.StringVar(&item.Type, "type", "", "memory (default) or episode")
	f.StringVar(&item.Time, "time", "", "when it happened, RFC 3339 with zone (an episode's start)")
	f.StringVar(&item.End, "end", "", "an episode's end")
	f.StringSliceVar(&item.Keywords, "keyword", nil, "an episode's keywords")
	f.BoolVar(&item.Resolved, "resolved", false, "the episode is over")
	f.StringVar(&item.MessageID, "message-id", "", "your own id of the text")
	f.StringVar(&item.OnConflict, "on-conflict", "", "skip (default) or version, for a known message id")
	f.StringVar(&item.Source.Type, "source-type", "", "kind of source, such as chat or file")
	f.StringVar(&item.Source.ID, "source-id", "", "session or document; its records are neighbours")
	f.StringVar(&item.Source.Name, "source-name", "", "speaker or author")
	f.StringVar(&metadata, "metadata", "", "a JSON object to keep beside the text")
	f.BoolVar(&item.Locked, "locked", false, "refuse update and delete until unlocked")
	return c
}

// refusal is what the service says about a rejected item.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// Is makes every refusal a [memory.ErrInvalid].
func (r refusal) Is(target error) bool { return target == memory.ErrInvalid }

func (a *app) getCommand() *cobra.Command {
	var scope scopeFlags
	c := &cobra.Command{
		Use:   "get REF...",
		Short: "Print whole records, or ranges of them",
		Long: `Print whole records, or ranges of them in code points. A range that names the
revision it was measured on is refused once the text has changed.`,
		Example: `  recalld get --agent mia mem:7 ep:2
  recalld get --agent mia 'mem:7#chars=100-240'`,
		Args: atLeast(1, "REF"),
		RunE: a.with(func(c *cobra.Command, args []string, s *session) error {
			project, channel := scope.optional()
			answer, err := s.GetContents(c.Context(), coordinator.ContentsRequest{Agent: scope.agent, Project: project, Channel: channel, Refs: args})
			if err != nil {
				return err
			}
			if err := a.print(answer, func(w io.Writer) {
				for i, row := range answer.Rows {
					if i > 0 {
						fmt.Fprintln(w)
					}
					writeHead(w, row)
					fmt.Fprintln(w, visible(row.Content))
				}
				writeList(w, "not found:", answer.Missing)
				writeList(w, "range not available:", answer.Unresolved)
				writeList(w, "past the budget, ask again:", answer.Deferred)
			}); err != nil {
				return err
			}
			if len(answer.Missing)+len(answer.Unresolved) > 0 {
				return errReported
			}
			return nil
		}),
	}
	scope.register(c)
	return c
}

func (a *app) listCommand() *cobra.Command {
	var scope scopeFlags
	var request coordinator.ListRequest
	c := &cobra.Command{
		Use:   "list",
		Short: "List records, newest first",
		Example: `  recalld list --agent mia --limit 20
  recalld list --agent mia --type episode --json`,
		Args: exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			request.Agent = scope.agent
			request.Project, request.Channel = scope.optional()
			answer, err := s.List(c.Context(), request)
			if err != nil {
				return err
			}
			return a.print(answer, func(w io.Writer) {
				for _, row := range answer.Rows {
					writeLine(w, row)
				}
				if answer.Cursor != "" {
					fmt.Fprintln(w, "more: --cursor", answer.Cursor)
				}
			})
		}),
	}
	scope.register(c)
	f := c.Flags()
	f.StringVar(&request.Type, "type", "", "memory (default) or episode")
	f.StringVar(&request.SourceID, "source-id", "", "only records whose source id starts with this")
	f.IntVar(&request.Limit, "limit", 0, fmt.Sprintf("rows per page, at most %d (default %d)", coordinator.MaxList, coordinator.DefaultList))
	f.StringVar(&request.Cursor, "cursor", "", "go on after the page that printed this")
	return c
}

func (a *app) updateCommand() *cobra.Command {
	var agent, content, project, channel, when, end, metadata string
	var keywords []string
	var resolved bool
	c := &cobra.Command{
		Use:   "update REF",
		Short: "Change one record in place",
		Long: `Change one record in place. What is not named stays. The earlier text is gone from
the file, its log and every index when the command returns. While an export or a
backup still reads the state from before, it stays in the log until that has ended;
the answer says so. To keep the earlier text as well, store a new version under the
same message id instead.`,
		Example: `  recalld update --agent mia mem:7 --content "会議は水曜日に変わった。"
  recalld update --agent mia mem:7 --project atlas
  recalld update --agent mia ep:2 --end 2026-03-04T18:00:00+09:00 --resolved`,
		Args: exactly(1, "REF"),
		RunE: func(c *cobra.Command, args []string) error {
			request := coordinator.UpdateRequest{Agent: agent, Ref: args[0]}
			changed := c.Flags().Changed
			if changed("content") {
				text, err := a.argument(content)
				if err != nil {
					return err
				}
				request.Content = &text
			}
			if changed("project") {
				request.Project = &project
			}
			if changed("channel") {
				request.Channel = &channel
			}
			if changed("time") {
				request.Time = &when
			}
			if changed("end") {
				request.End = &end
			}
			if changed("metadata") {
				request.Metadata = json.RawMessage(metadata)
			}
			if changed("keyword") {
				request.Keywords = keywords
			}
			if changed("resolved") {
				request.Resolved = &resolved
			}
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			row, err := s.Update(c.Context(), request)
			if err != nil {
				return err
			}
			return a.print(row, func(w io.Writer) { writeUpdated(w, row) })
		},
	}
	f := c.Flags()
	agentFlag(c, &agent)
	f.StringVar(&content, "content", "", `new text; "-" reads standard input`)
	f.StringVar(&project, "project", "", "move to this project")
	f.StringVar(&channel, "channel", "", "move to this channel")
	f.StringVar(&when, "time", "", `when it happened (an episode's start); "" removes it`)
	f.StringVar(&end, "end", "", `an episode's end; "" removes it`)
	f.StringVar(&metadata, "metadata", "", "a JSON object that replaces the old one")
	f.StringSliceVar(&keywords, "keyword", nil, "an episode's keywords")
	f.BoolVar(&resolved, "resolved", false, "whether the episode is over")
	return c
}

func writeUpdated(w io.Writer, row *coordinator.Row) {
	fmt.Fprintln(w, "updated", row.Ref)
	if row.ErasePending {
		fmt.Fprintln(w, "what it said before leaves the log once the open export, backup or recall has ended")
	}
}

func (a *app) deleteCommand() *cobra.Command {
	var request coordinator.DeleteRequest
	var yes bool
	c := &cobra.Command{
		Use:   "delete REF...",
		Short: "Delete records for good",
		Long: `Delete records for good: their text is gone from the file, its log and every
index when the command returns. While an export or a backup still reads the state
from before, the text stays in the log until that has ended; the answer says so.
--all deletes everything an agent has but what is locked.`,
		Example: `  recalld delete --agent mia mem:7 mem:9
  recalld delete --agent mia --all --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			request.Refs = args
			if request.All == (len(args) > 0) {
				return usage("name refs or --all, not both")
			}
			if request.All && !yes {
				return usage("--all deletes everything of agent %q; add --yes to do it", request.Agent)
			}
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			answer, err := s.Delete(c.Context(), request)
			if err != nil {
				return err
			}
			if err := a.print(answer, func(w io.Writer) {
				fmt.Fprintf(w, "deleted %d memories, %d episodes, %d profiles\n", answer.Memories, answer.Episodes, answer.Profiles)
				writeList(w, "not found:", answer.Missing)
				writeList(w, "locked, unlock first:", answer.Locked)
				if answer.ErasePending {
					fmt.Fprintln(w, "their bytes leave the log once the open export, backup or recall has ended")
				}
			}); err != nil {
				return err
			}
			if len(answer.Missing)+len(answer.Locked) > 0 {
				return errReported
			}
			return nil
		},
	}
	agentFlag(c, &request.Agent)
	c.Flags().BoolVar(&request.All, "all", false, "everything the agent has; locked records stay and are listed")
	c.Flags().BoolVar(&yes, "yes", false, "really")
	return c
}

func (a *app) lockCommand(lock bool) *cobra.Command {
	var agent string
	word, short := "unlock", "Allow update and delete of records again"
	if lock {
		word, short = "lock", "Refuse update and delete of records"
	}
	c := &cobra.Command{
		Use:     word + " REF...",
		Short:   short,
		Example: "  recalld " + word + " --agent mia mem:7",
		Args:    atLeast(1, "REF"),
		RunE: a.with(func(c *cobra.Command, args []string, s *session) error {
			answer, err := s.Lock(c.Context(), coordinator.LockRequest{Agent: agent, Refs: args, Locked: lock})
			if err != nil {
				return err
			}
			if err := a.print(answer, func(w io.Writer) {
				writeList(w, word+"ed:", answer.Done)
				writeList(w, "not found:", answer.Missing)
			}); err != nil {
				return err
			}
			if len(answer.Missing) > 0 {
				return errReported
			}
			return nil
		}),
	}
	agentFlag(c, &agent)
	return c
}

func (a *app) profileCommand() *cobra.Command {
	var request coordinator.ProfileRequest
	c := &cobra.Command{
		Use:   "profile [TEXT]",
		Short: "Show or set what is known about an agent's user",
		Example: `  recalld profile --agent mia
  recalld profile --agent mia --user ken "Ken prefers short answers. 甲殻類アレルギー。"
  recalld profile --agent mia --user ken ""                # remove it`,
		Args: atMost(1, "TEXT"),
	}
	call := func(c *cobra.Command, args []string, s *session) error {
		if len(args) == 0 {
			var user *string
			if c.Flags().Changed("user") {
				user = &request.UserID
			}
			profiles, err := s.Profiles(c.Context(), request.Agent, user)
			if err != nil {
				return err
			}
			if profiles == nil {
				profiles = []memory.Profile{}
			}
			return a.print(map[string]any{"profiles": profiles}, func(w io.Writer) {
				for _, p := range profiles {
					fmt.Fprintf(w, "%q  %s\n%s\n", p.UserID, p.Updated, visible(p.Content))
				}
			})
		}
		text, err := a.argument(args[0])
		if err != nil {
			return err
		}
		request.Content = text
		profile, err := s.PutProfile(c.Context(), request)
		if err != nil {
			return err
		}
		word := "set"
		if request.Content == "" {
			word = "removed"
		}
		return a.print(profile, func(w io.Writer) { fmt.Fprintf(w, "profile of %q %s\n", profile.UserID, word) })
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		open := a.open
		if len(args) > 0 {
			open = a.openOrMake
		}
		return a.through(open, call)(c, args)
	}
	agentFlag(c, &request.Agent)
	c.Flags().StringVar(&request.UserID, "user", "", "which user")
	return c
}

// argument returns the text of an argument; "-" reads standard input, bounded.
func (a *app) argument(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	const limit = 4 * memory.CeilingMaxContent
	raw, err := io.ReadAll(io.LimitReader(a.in, limit+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(raw) > limit {
		return "", &memory.FieldError{Field: "standard input", Problem: "is too long", Limit: fmt.Sprintf("%d bytes", limit), Next: "split it"}
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}
