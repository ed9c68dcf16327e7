package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The demo fills an empty folder once, answers its questions with the records
// that hold the answers, prints a line that registers a working MCP server, has a
// scanner as any server has, and ends cleanly.
func TestDemo(t *testing.T) {
	data := t.TempDir()
	var exports [2]string
	for i, word := range []string{"first start", "second start"} {
		began := time.Now()
		demo, out := start(t, "demo", "--data", data)
		screen, command := readDemo(t, out)
		t.Logf("%s: %s until it serves", word, time.Since(began).Round(time.Millisecond))
		if filled := strings.HasPrefix(screen, "filled "+data+" with 330 sample records\n"); filled != (i == 0) {
			t.Errorf("%s: %q", word, screen)
		}
		recalls := strings.Split(screen, "\n$ ")[1:]
		if len(recalls) != len(demoQuestions()) {
			t.Fatalf("%s shows %d recalls", word, len(recalls))
		}
		for k, q := range demoQuestions() {
			first, _, _ := strings.Cut(recalls[k], "\n2. ")
			if !strings.Contains(first, q.answer) || !strings.Contains(first, "because: ") {
				t.Errorf("%s: the first row is not the answer:\n%s", word, recalls[k])
			}
		}
		if i == 0 {
			callRegistered(t, command)
		}
		var state bytes.Buffer
		if code := run([]string{"index", "status", "--data", data}, nil, &state, &state); code != exitOK || !strings.Contains(state.String(), " cells") {
			t.Errorf("%s serves without a scanner: %s", word, state.String())
		}
		if err := demo.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
			t.Errorf("%s: after Ctrl-C: %q, %v", word, rest, err)
		}
		if err := demo.Wait(); err != nil {
			t.Fatalf("%s ended with %v", word, err)
		}
		for _, agent := range []string{"engineer", "companion"} {
			var b bytes.Buffer
			if code := run([]string{"export", "--data", data, "--agent", agent}, nil, &b, &b); code != exitOK {
				t.Fatalf("export: %s", b.String())
			}
			exports[i] += b.String()
		}
	}
	if exports[0] != exports[1] {
		t.Error("the second start changed the data")
	}
}

// readDemo reads the screen up to the line that registers the server.
func readDemo(t *testing.T, out *bufio.Reader) (screen string, command []string) {
	t.Helper()
	var b strings.Builder
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after:\n%s", err, b.String())
		}
		b.WriteString(line)
		if _, registered, found := strings.Cut(line, "claude mcp add memory -- "); found {
			return b.String(), shellWords(registered)
		}
	}
}

// callRegistered speaks MCP with the registered command.
func callRegistered(t *testing.T, command []string) {
	t.Helper()
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	// The printed program is the test binary, which is recalld under that name.
	program := exec.Command("recalld", command[1:]...)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: program}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "recall", Arguments: map[string]any{"query": "ERR_FUTURE_EVENT", "project_id": "atlas"}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError || !strings.Contains(string(answer), "ERR_FUTURE_EVENT") {
		t.Fatalf("recall through the registered server: %s", answer)
	}
}

// A filling that was killed goes on at the next start and ends with the same
// records.
func TestInterruptedFillingGoesOn(t *testing.T) {
	whole, cut := t.TempDir(), t.TempDir()
	fill := func(data string, corpus []byte) {
		t.Helper()
		a := newApp(data)
		s, err := a.openToServe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := a.fill(t.Context(), s, corpus); err == nil != (len(corpus) == len(sampleCorpus)) {
			t.Fatalf("filling: %v", err)
		}
	}
	fill(whole, sampleCorpus)
	fill(cut, append(bytes.Clone(sampleCorpus[:bytes.LastIndexByte(sampleCorpus[:len(sampleCorpus)/2], '\n')+1]), "broken"...))
	fill(cut, sampleCorpus)
	for _, agent := range []string{"engineer", "companion"} {
		var a, b bytes.Buffer
		run([]string{"export", "--data", whole, "--agent", agent}, nil, &a, &a)
		run([]string{"export", "--data", cut, "--agent", agent}, nil, &b, &b)
		if a.String() != b.String() || !strings.Contains(a.String(), `"type":"memory"`) {
			t.Errorf("agent %s: the fillings differ:\n%s\n\n%s", agent, a.String(), b.String())
		}
	}
}
