package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/ingest"
	"recalld/memory"
)

//go:embed sample/corpus.jsonl
var sampleCorpus []byte

// demoQuestion is one recall that the demo prints, and what its first row says.
type demoQuestion struct {
	agent, project, query, answer string
}

func demoQuestions() []demoQuestion {
	return []demoQuestion{
		{"engineer", "atlas", "How many partitions does the topic have?", "from 12 to 24 partitions"},
		{"companion", "", "瑠璃釉の焼成温度は何度ですか", "本焼き 1235 度"},
		{"engineer", "billing", "主题的分区数是多少，可以改吗？", "主题的分区数是 6"},
	}
}

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Fill a folder with a sample corpus, show three recalls, and serve",
		Long: `Fill an empty data folder with a sample corpus: a year of an engineering team and
of a person, in English, Japanese and Chinese. Then serve it, print three recalls
with their reasons and the line that registers the server with an MCP client, and
go on until Ctrl-C. A second start finds the same data.`,
		Example: `  recalld demo --data ./data/demo`,
		Args:    exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			a.scanner.serves, a.scanner.errOut = true, a.errOut
			s, err := a.openToServe(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if err := a.fill(c.Context(), s, sampleCorpus); err != nil {
				return err
			}
			return a.serve(c.Context(), s, nil, func(ctx context.Context) error {
				if err := a.showDemo(ctx, s); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			})
		},
	}
}

// fillingName is a file that stands in the data folder while it is being filled.
const fillingName = "filling"

// fill imports a corpus into an empty store, or goes on with a filling
// that was interrupted.
func (a *app) fill(ctx context.Context, s *session, corpus []byte) error {
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	mark := filepath.Join(a.data, fillingName)
	if _, err := os.Stat(mark); err != nil && status.Memories+status.Episodes > 0 {
		return nil
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("fill %s: %w", a.data, err)
	}
	sink := importSink{service: s}
	report, err := ingest.Run(ctx, ingest.NewReader(bytes.NewReader(corpus)), sink.store, ingest.Options{})
	if err != nil {
		return err
	}
	if report.Rejected > 0 {
		return fmt.Errorf("the sample corpus has %d bad lines, the first: %w", report.Rejected, &report.Bad[0])
	}
	fmt.Fprintf(a.out, "filled %s with %d sample records\n", a.data, report.Stored+report.Versioned+report.Skipped)
	return os.Remove(mark)
}

func (a *app) showDemo(ctx context.Context, s *session) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := filepath.Abs(a.data)
	if err != nil {
		return err
	}
	for _, q := range demoQuestions() {
		request := coordinator.RecallRequest{Agent: q.agent, Query: q.query, Count: 2}
		line := fmt.Sprintf("%s recall --data %s --agent %s", quoted(program), quoted(data), q.agent)
		if q.project != "" {
			request.Project = &q.project
			line += " --project " + q.project
		}
		answer, err := s.Recall(ctx, request)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "\n$ %s %q\n", line, q.query)
		writeAnswer(a.out, shortened(answer))
	}
	command := []string{quoted(program), "mcp", "--data", quoted(data), "--agent", "engineer"}
	_, err = fmt.Fprintf(a.out, `
serving %s; stop with Ctrl-C

register it with an MCP client:
  claude mcp add memory -- %s
`, data, strings.Join(command, " "))
	return err
}

// shortened cuts the rows' texts for the demo's screen.
func shortened(answer *coordinator.RecallResponse) *coordinator.RecallResponse {
	short := *answer
	short.Profile = nil
	short.Rows = nil
	for _, row := range answer.Rows {
		text := strings.Join(strings.Fields(row.Content), " ")
		if prefix, cut := memory.Prefix(text, 160); cut {
			text = prefix + "…"
		}
		row.Content, row.ContentTruncated = text, false
		short.Rows = append(short.Rows, row)
	}
	return &short
}

// quoted makes a path safe for a shell.
func quoted(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
