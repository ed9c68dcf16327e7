package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/front/api"
)

// place is a data folder with the runtime folder of its server. What a test
// leaves running there is stopped.
type place struct {
	t             *testing.T
	data, runtime string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t, t.TempDir(), runtimeFolder(t)}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(p.data, serverLog))
			t.Logf("%s:\n%s", serverLog, text)
		}
		if a, err := api.Announced(p.data); err == nil {
			_ = syscall.Kill(a.PID, syscall.SIGTERM)
		}
		// Its files may be removed once it has gone.
		until(func() bool {
			lock, err := api.LockFolder(p.data)
			return err == nil && lock.Unlock() == nil
		})
	})
	return p
}

// front is a client of a front in a process of its own.
func (p *place) front(args ...string) (*sdk.ClientSession, *os.Process) {
	p.t.Helper()
	c := exec.Command("recalld", append([]string{"mcp", "--data", p.data, "--agent", "mia"}, args...)...)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+p.runtime)
	c.Stderr = os.Stderr
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(p.t.Context(), &sdk.CommandTransport{Command: c}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = session.Close() })
	return session, c.Process
}

// call returns a tool's answer; an error is one of the protocol.
func (p *place) call(session *sdk.ClientSession, tool string, arguments map[string]any) (answer map[string]any, err error) {
	result, err := session.CallTool(p.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err == nil && result.IsError {
		err = fmt.Errorf("%s: %v", tool, answer["error"])
	}
	return answer, err
}

func (p *place) keep(session *sdk.ClientSession, text string) {
	p.t.Helper()
	if answer, err := p.call(session, "store", map[string]any{"content": text}); err != nil || answer["ok"] != true {
		p.t.Fatalf("store %s: %v %v", text, answer, err)
	}
}

// kept is everything that the agent has, as one text.
func (p *place) kept() string {
	p.t.Helper()
	client, err := api.Dial(p.data)
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	var b strings.Builder
	if err := client.Export(p.t.Context(), exportOf("mia"), func(line json.RawMessage) error {
		b.Write(append(line, '\n'))
		return nil
	}); err != nil {
		p.t.Fatal(err)
	}
	return b.String()
}

func (p *place) serverPID() int {
	p.t.Helper()
	a, err := api.Announced(p.data)
	if err != nil {
		p.t.Fatal(err)
	}
	return a.PID
}

// starts counts the servers that ever served the folder.
func (p *place) starts() int {
	text, err := os.ReadFile(filepath.Join(p.data, serverLog))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "serving "+p.data)
}

// The server that the first front started serves the second one after the first
// was killed, and its process is neither front's child to take along.
func TestFrontsShareAServerThatOutlivesThem(t *testing.T) {
	p := newPlace(t)
	first, process := p.front()
	p.keep(first, "said by the first 一番目")
	second, _ := p.front()
	p.keep(second, "said by the second 第二")
	server := p.serverPID()
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err == nil {
		t.Log("the first front ended without an error")
	}
	p.keep(second, "said after that")
	if answer, err := p.call(second, "recall", map[string]any{"query": "一番目"}); err != nil || !strings.Contains(fmt.Sprint(answer), "said by the first") {
		t.Errorf("recall: %v %v", answer, err)
	}
	if now := p.serverPID(); now != server || p.starts() != 1 {
		t.Errorf("the server %d became %d after %d starts", server, now, p.starts())
	}
}

// A server that is killed is started again by the next call, and by calls under
// way. What was acknowledged is there.
func TestKilledServerIsStartedByTheNextCall(t *testing.T) {
	p := newPlace(t)
	session, _ := p.front()
	p.keep(session, "said before")
	if err := syscall.Kill(p.serverPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.keep(session, "said after")

	const writers, kills = 4, 3
	var acknowledged sync.Map
	var count atomic.Int64
	var running sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("note %d of writer %d 記録", i, w)
				answer, err := p.call(session, "store", map[string]any{"content": text})
				switch {
				case err == nil && answer["ok"] == true:
					acknowledged.Store(text, true)
					count.Add(1)
				case err == nil || !strings.Contains(err.Error(), api.ErrNoServer.Error()):
					t.Errorf("%s: %v %v", text, answer, err)
					return
				}
			}
		})
	}
	for range kills {
		goal := count.Load() + 8
		if !until(func() bool { return count.Load() >= goal || t.Failed() }) {
			t.Error("no store is acknowledged any more")
		}
		if a, err := api.Announced(p.data); err == nil {
			_ = syscall.Kill(a.PID, syscall.SIGKILL)
		}
	}
	goal := count.Load() + 8
	until(func() bool { return count.Load() >= goal || t.Failed() })
	close(stop)
	running.Wait()
	all := p.kept()
	lost := 0
	acknowledged.Range(func(text, _ any) bool {
		if strings.Count(all, fmt.Sprintf("%q", text)) != 1 {
			lost++
		}
		return true
	})
	if lost > 0 || !strings.Contains(all, "said before") || !strings.Contains(all, "said after") {
		t.Errorf("of %d acknowledged stores %d are not there once", count.Load(), lost)
	}
}

// Fronts that start at once share one server.
func TestRacingFrontsStartOneServer(t *testing.T) {
	p := newPlace(t)
	const fronts = 8
	sessions := make([]*sdk.ClientSession, fronts)
	var running sync.WaitGroup
	for i := range fronts {
		running.Go(func() { sessions[i], _ = p.front() })
	}
	running.Wait()
	for i, session := range sessions {
		if session == nil {
			t.Fatalf("front %d did not start", i)
		}
		p.keep(session, fmt.Sprintf("said by front %d", i))
	}
	if got := strings.Count(p.kept(), "said by front"); got != fronts {
		t.Errorf("%d records, want %d", got, fronts)
	}
	if p.starts() != 1 {
		t.Errorf("%d servers served the folder, want 1", p.starts())
	}
}

// A server that was started on demand ends after its idle time, and not while a
// front is there that says nothing.
func TestIdleServerEnds(t *testing.T) {
	p := newPlace(t)
	session, _ := p.front("--server-idle", "200ms")
	p.keep(session, "said once")
	server := p.serverPID()
	select {
	case <-time.After(time.Second): // several idle times
	case <-t.Context().Done():
	}
	if now := p.serverPID(); now != server || p.starts() != 1 {
		t.Errorf("the server %d of a silent front became %d", server, now)
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if !until(func() bool {
		_, err := api.Dial(p.data)
		return err != nil
	}) {
		t.Error("the server stays without a front")
	}
}

// Where a server is required and none runs, nothing is started.
func TestRequiredServerIsNotStarted(t *testing.T) {
	p := newPlace(t)
	c := exec.Command("recalld", "mcp", "--data", p.data, "--server", "require")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "recalld serve --data") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(p.data, serverLog)); err == nil {
		t.Error("a server was started")
	}
}

// A server that cannot start says why.
func TestServerThatCannotStartIsExplained(t *testing.T) {
	p := newPlace(t)
	if err := os.WriteFile(filepath.Join(p.data, truthName), []byte("no database at all, and long enough for a header of one"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("recalld", "mcp", "--data", p.data)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+p.runtime)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), serverLog) || !strings.Contains(string(out), truthName) {
		t.Errorf("%v: %s", err, out)
	}
}

func exportOf(agent string) coordinator.ExportRequest { return coordinator.ExportRequest{Agent: agent} }
