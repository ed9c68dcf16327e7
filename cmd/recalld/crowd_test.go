package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/front/api"
)

const crowdToken = "a-token-of-the-crowd-0123"

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// httpFront is a front over HTTP in a process of its own, and where it is.
func (p *place) httpFront() (url string) {
	p.t.Helper()
	c := exec.Command("recalld", "mcp", "--data", p.data, "--http", "127.0.0.1:0")
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+p.runtime, "RECALLD_TOKEN="+crowdToken)
	said, err := c.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "MCP at "); ok {
			url, _, _ = strings.Cut(at, ";")
			break
		}
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		for lines.Scan() {
		}
	}()
	p.t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		<-rest
		if err := c.Wait(); err != nil {
			p.t.Errorf("the front at %s: %v", url, err)
		}
	})
	if url == "" {
		p.t.Fatal("the front does not say where it is")
	}
	return url
}

// member is one client of the crowd and what it was told is kept.
type member struct {
	p       *place
	session *sdk.ClientSession
	agent   string
	name    string
	random  *rand.Rand
	kept    []string
}

// do stores one text, or recalls one that was kept; every row of the answer must
// be the agent's own.
func (m *member) do(i int) error {
	if len(m.kept) == 0 || m.random.IntN(2) == 0 {
		text := fmt.Sprintf("%s keeps %s fact %d: %s %d", m.agent, m.name, i, []string{"the pump was repaired", "ポンプを直した", "水泵修好了"}[i%3], m.random.IntN(1000))
		answer, err := m.p.call(m.session, "store", map[string]any{"agent_id": m.agent, "content": text})
		if err != nil || answer["result"] != "stored" {
			return fmt.Errorf("store %q: %v %w", text, answer, err)
		}
		m.kept = append(m.kept, text)
		return nil
	}
	text := m.kept[m.random.IntN(len(m.kept))]
	answer, err := m.p.call(m.session, "recall", map[string]any{"agent_id": m.agent, "query": text, "limit": 10})
	if err != nil {
		return fmt.Errorf("recall %q: %w", text, err)
	}
	rows, _ := answer["messages"].([]any)
	found := false
	for _, row := range rows {
		content, _ := row.(map[string]any)["content"].(string)
		if !strings.HasPrefix(content, m.agent+" keeps ") {
			return fmt.Errorf("recall of %s gave %q", m.agent, content)
		}
		found = found || content == text
	}
	if !found {
		return fmt.Errorf("recall %q: it is not among %d rows", text, len(rows))
	}
	return nil
}

// crowd lets eight clients at each of two fronts store and recall in one file
// until each has enough, and then looks for everything that was acknowledged.
func crowd(t *testing.T, enough func(i int) bool) {
	p := newPlace(t)
	const fronts, clients, agents = 2, 8, 4
	var members []*member
	for f := range fronts {
		url := p.httpFront()
		for c := range clients {
			session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
				&sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(crowdToken)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Close() })
			n := f*clients + c
			members = append(members, &member{
				p: p, session: session, agent: fmt.Sprintf("agent%d", n%agents), name: fmt.Sprintf("client %d", n), random: rand.New(rand.NewPCG(1, uint64(n))),
			})
		}
	}
	var running sync.WaitGroup
	for _, m := range members {
		running.Go(func() {
			for i := 0; !enough(i); i++ {
				if err := m.do(i); err != nil {
					t.Errorf("%s: %v", m.name, err)
					return
				}
			}
		})
	}
	running.Wait()
	client, err := api.Dial(p.data)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for a := range agents {
		agent, want, total := fmt.Sprintf("agent%d", a), map[string]bool{}, 0
		for _, m := range members {
			for _, text := range m.kept {
				if m.agent == agent {
					want[text] = true
				}
			}
		}
		if err := client.Export(t.Context(), exportOf(agent), func(line json.RawMessage) error {
			var record struct{ Content string }
			if err := json.Unmarshal(line, &record); err != nil {
				return err
			}
			if !want[record.Content] {
				t.Errorf("%s has %q, which nobody was told is kept", agent, record.Content)
			}
			total++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if total != len(want) {
			t.Errorf("%s has %d records, %d were acknowledged", agent, total, len(want))
		}
		t.Logf("%s: %d records", agent, total)
	}
	if p.starts() != 1 {
		t.Errorf("%d servers served the folder", p.starts())
	}
}

// Two fronts, eight clients each, one file: no lost write, no error, no foreign
// row.
func TestCrowdShort(t *testing.T) { crowd(t, func(i int) bool { return i == 12 }) }
