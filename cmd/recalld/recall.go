package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"recalld/coordinator"
)

func (a *app) recallCommand() *cobra.Command {
	var scope scopeFlags
	var request coordinator.RecallRequest
	var lexical string
	c := &cobra.Command{
		Use:   "recall QUERY",
		Short: "Ask one question",
		Long: `Ask one question inside one scope. Rows come best first, each with the reason why
it is there; what the answer lacks is said at the end. An empty query lists the
newest records.`,
		Example: `  recalld recall --agent mia "where is the staging database?"
  recalld recall --agent mia --project atlas --count 3 "障害の原因"
  recalld recall --agent mia --json "会议改到哪天?"
  recalld recall --agent mia --arms lexical --explain "ERR_POOL_EXHAUSTED"`,
		Args: exactly(1, "QUERY"),
		RunE: func(c *cobra.Command, args []string) error {
			query, err := a.argument(args[0])
			if err != nil {
				return err
			}
			request.Agent, request.Query = scope.agent, query
			request.Project, request.Channel = scope.optional()
			if lexical != "" {
				request.Arms = append(request.Arms, "vector", lexical)
			}
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			answer, err := s.Recall(c.Context(), request)
			if err != nil {
				return err
			}
			return a.print(answer, func(w io.Writer) { writeAnswer(w, answer) })
		},
	}
	scope.register(c)
	f := c.Flags()
	f.IntVar(&request.Count, "count", 0, fmt.Sprintf("rows to return, at most %d (default %d)", coordinator.MaxCount, coordinator.DefaultCount))
	f.BoolVar(&request.FullContent, "full", false, "whole texts instead of previews, under a budget")
	f.BoolVar(&request.Deep, "deep", false, "lower the gate and ignore age")
	f.StringVar(&request.SourceID, "source-id", "", "only records whose source id starts with this")
	f.StringArrayVar(&request.Exclude, "exclude", nil, "drop a row that you hold already: its text, or its first 32 characters or more")
	f.StringSliceVar(&request.Arms, "arms", nil, "vector, lexical, fts or all (default: the server's setting)")
	f.StringVar(&lexical, "lexical", "", "fts: the compatibility arms instead of the word index")
	f.StringVar(&request.Fusion, "fusion", "", "rsf or rrf (default: the server's setting)")
	f.StringVar(&request.Gate, "gate", "", "off: return the full ranking, nothing gated")
	f.StringVar(&request.Order, "order", "", "best_first (default) or best_last")
	f.BoolVar(&request.Approximate, "approximate", false, "let the scanner's int8 codes alone decide about vectors; the answer says so")
	f.BoolVar(&request.Explain, "explain", false, "add the gate, what each arm found and why rows were dropped; whole rankings with --json")
	return c
}

func writeAnswer(w io.Writer, answer *coordinator.RecallResponse) {
	for _, profile := range answer.Profile {
		fmt.Fprintf(w, "[Profile] %s\n\n", visible(profile.Content))
	}
	for i, row := range answer.Rows {
		fmt.Fprintf(w, "%d. ", i+1)
		writeHead(w, row)
		for line := range strings.SplitSeq(visible(row.Content), "\n") {
			fmt.Fprintln(w, "  ", line)
		}
		if q := row.Quote; q != nil {
			fmt.Fprintf(w, "   … %d-%d: %s\n", q.Start, q.End, strings.Join(strings.Fields(visible(q.Text)), " "))
			if r := q.ReadRange; r != nil {
				fmt.Fprintf(w, "   … what limits it goes on: recalld get '%s#chars=%d-%d'\n", row.Ref, r.Start, r.End)
			}
		}
		if row.ContentTruncated {
			fmt.Fprintf(w, "   … %d characters in all: recalld get %s\n", row.ContentLen, row.Ref)
		}
		if why := reason(row); why != "" {
			fmt.Fprintln(w, "   because:", why)
		}
	}
	if len(answer.Rows) == 0 {
		fmt.Fprintln(w, nothing(answer.Coverage.Records))
	}
	if c := answer.Coverage; !c.Full {
		fmt.Fprintf(w, "coverage: %d of %d records have a vector, %d waiting\n", c.Embedded, c.Records, c.Pending)
	}
	for _, d := range answer.Degraded {
		fmt.Fprintln(w, "degraded:", strings.TrimSpace(strings.Join([]string{d.Arm, d.Reason, visible(d.Detail)}, " ")))
	}
	if n := answer.Advisory; n != nil {
		fmt.Fprintf(w, "advisory: %s: %s\n", n.Severity, visible(n.Reason))
	}
	if e := answer.Explain; e != nil {
		fmt.Fprintf(w, "explain: depth %d, fusion %s, gate %s %.4f (%s)\n", e.Depth, e.Fusion, e.Gate.Signal, e.Gate.Threshold, e.Gate.Source)
		for _, arm := range e.Arms {
			fmt.Fprintf(w, "  arm %s: %d candidates, %d scanned\n", arm.Arm, len(arm.Candidates), arm.Scanned)
		}
		cut := 0
		for _, x := range e.Exclusions {
			if x.Stage == "count" {
				cut++
				continue
			}
			fmt.Fprintf(w, "  dropped %s at %s: %s\n", x.Ref, x.Stage, x.Reason)
		}
		if cut > 0 {
			fmt.Fprintf(w, "  %d more rows than --count, not shown\n", cut)
		}
	}
}

// nothing says that no row came back, and from how many records of the scope.
func nothing(records int64) string {
	if records == 0 {
		return "nothing found: no records here; check --data, --agent, --project and --channel"
	}
	return fmt.Sprintf("nothing found in %d records", records)
}
