package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/memory"
)

// writeHead prints what is known about a row besides its text.
func writeHead(w io.Writer, row coordinator.Row) {
	parts := []string{row.Ref}
	for _, part := range []string{row.Time, named("project", row.Project), named("channel", row.Channel), visible(row.Source.Name)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if row.Version > 1 {
		parts = append(parts, fmt.Sprintf("version %d", row.Version))
	}
	if row.SupersededBy != "" {
		parts = append(parts, "superseded by "+row.SupersededBy)
	}
	if row.Resolved {
		parts = append(parts, "resolved")
	}
	if row.Locked {
		parts = append(parts, "locked")
	}
	fmt.Fprintln(w, strings.Join(parts, "  "))
}

// writeLine prints a row on one line of about a terminal's width.
func writeLine(w io.Writer, row coordinator.Row) {
	text, cut := memory.Prefix(strings.Join(strings.Fields(visible(row.Content)), " "), 80)
	if cut {
		text += "…"
	}
	fmt.Fprintf(w, "%-10s %-25s %s\n", row.Ref, row.Time, text)
}

func writeList(w io.Writer, head string, refs []string) {
	if len(refs) > 0 {
		fmt.Fprintln(w, head, visible(strings.Join(refs, " ")))
	}
}

func named(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + visible(value)
}

// reason says in a few words why a row is in an answer.
func reason(row coordinator.Row) string {
	m := row.MatchReason
	if m == nil {
		return ""
	}
	parts := []string{m.Signal}
	if m.Score != nil {
		parts[0] = fmt.Sprintf("%s %.3f", m.Signal, *m.Score)
	}
	if m.Distance != nil {
		parts = append(parts, fmt.Sprintf("reserved, %s order, %d bits away", m.Order, *m.Distance))
	}
	for _, vote := range m.Arms {
		parts = append(parts, fmt.Sprintf("%s #%d (%.3f)", vote.Arm, vote.Rank, vote.Score))
	}
	if len(m.Terms) > 0 {
		parts = append(parts, "words "+visible(strings.Join(m.Terms, " ")))
	}
	if len(m.Near) > 0 {
		parts = append(parts, "words nearby "+visible(strings.Join(m.Near, " ")))
	}
	if m.Evidence != nil {
		parts = append(parts, fmt.Sprintf("words weigh %.2f", *m.Evidence))
	}
	if m.Prior != nil {
		parts = append(parts, fmt.Sprintf("prior %.2f", *m.Prior))
	}
	return strings.Join(parts, " · ")
}

// bar draws progress on standard error when that is a terminal; otherwise it
// draws nothing. Call done at the end.
func (a *app) bar(title string, bytes bool) (progress coordinator.Progress, done func()) {
	if !a.onTerminal() {
		return func(int64, int64) {}, func() {}
	}
	b := progressbar.NewOptions64(-1,
		progressbar.OptionSetDescription(title),
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionShowBytes(bytes),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100_000_000),
		progressbar.OptionClearOnFinish(),
	)
	return func(done, total int64) {
		if total > 0 && b.GetMax64() != total {
			b.ChangeMax64(total)
		}
		b.Set64(done)
	}, func() { b.Finish() }
}

func agentFlag(c *cobra.Command, agent *string) {
	c.Flags().StringVar(agent, "agent", os.Getenv("RECALLD_AGENT"), "whose memory (environment: RECALLD_AGENT)")
}
