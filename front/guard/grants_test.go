package guard_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recalld/access"
	"recalld/coordinator"
	"recalld/front/api"
	"recalld/front/guard"
)

// reached is a service whose every method panics, which the API answers as an
// internal error: the call got in.
type reached struct{ coordinator.Service }

// A tool of the model below: what it asks of one agent, of two, or of the server.
type tool struct {
	procedure string
	body      string // AGENT and OTHER stand for agents
	writes    bool
	server    bool
	stream    bool
}

func tools() []tool {
	return []tool{
		{procedure: "Store", body: `{"agent":AGENT,"items":[{"content":"x","agent":OTHER}]}`, writes: true},
		{procedure: "Recall", body: `{"agent":AGENT,"query":"どこ"}`},
		{procedure: "GetContents", body: `{"agent":AGENT,"refs":["mem:1"]}`},
		{procedure: "List", body: `{"agent":AGENT}`},
		{procedure: "Update", body: `{"agent":AGENT,"ref":"mem:1"}`, writes: true},
		{procedure: "Delete", body: `{"agent":AGENT,"all":true}`, writes: true},
		{procedure: "Lock", body: `{"agent":AGENT,"refs":["ep:1"],"locked":true}`, writes: true},
		{procedure: "PutProfile", body: `{"agent":AGENT,"user_id":"u","content":"c"}`, writes: true},
		{procedure: "Profiles", body: `{"agent":AGENT}`},
		{procedure: "Pause", body: `{"agent":AGENT,"seconds":1}`, writes: true},
		{procedure: "Paused", body: `{"agent":AGENT}`},
		{procedure: "Calibrate", body: `{"agent":AGENT,"dry_run":true}`, writes: true},
		{procedure: "Calibrations", body: `{"agent":AGENT}`},
		{procedure: "DeepCheck", body: `{"agent":AGENT}`},
		{procedure: "Export", body: `{"agent":AGENT}`, stream: true},
		{procedure: "Settings", body: `{}`, server: true},
		{procedure: "SetSetting", body: `{"name":"fusion.mode","value":"rrf"}`, server: true, writes: true},
		{procedure: "Models", body: `{}`, server: true},
		{procedure: "ChangeModel", body: `{"action":"rebuild","agent":AGENT}`, server: true, writes: true},
		{procedure: "Status", body: `{}`, server: true},
		{procedure: "Doctor", body: `{}`, server: true},
		{procedure: "Doctor", body: `{"fix":true}`, server: true, writes: true},
		{procedure: "Index", body: `{}`, server: true},
		{procedure: "ChangeIndex", body: `{"action":"compact"}`, server: true, writes: true, stream: true},
		{procedure: "Vacuum", body: `{}`, server: true, writes: true, stream: true},
	}
}

// model is what a file of grants means, said once more: words in a table, looked
// up first by the agent's name and then by "*".
type model map[string]string

func (m model) allows(t tool, agent string) bool {
	word, listed := m[agent]
	if t.server || !listed {
		word = m["*"]
	}
	if t.writes {
		return word == "read-write"
	}
	return word == "read" || word == "read-write"
}

// 10,000 random triples of client, tool and agent, each as a request with a
// token to the whole front: what gets in is what an independent model says.
//
// RR-449
func TestRandomCallsAgreeWithTheModel(t *testing.T) {
	const files, calls = 50, 200
	random := rand.New(rand.NewPCG(5, 10_000))
	agents := []string{"mia", "Mia", "mia ", "m", "蓮", "王小明", "*", "", "bob", "ops", "none"}
	levels := []string{"none", "read", "read-write"}
	got := map[bool]int{}
	for range files {
		h := front(t, random, agents, levels)
		for range calls {
			token := h.tokens[random.IntN(len(h.tokens))]
			use := tools()[random.IntN(len(tools()))]
			agent := agents[random.IntN(len(agents))]
			answer := h.call(token, use, agent, agents[random.IntN(len(agents))])
			denied := strings.Contains(answer, `"code":"permission_denied"`)
			if denied == strings.Contains(answer, "internal error") {
				t.Fatalf("%s for %q: neither denied nor let in: %s", use.procedure, agent, answer)
			}
			if want := h.models[token].allows(use, agent); denied == want {
				t.Fatalf("%s for %q with %v: denied is %v", use.procedure, agent, h.models[token], denied)
			}
			got[denied]++
		}
	}
	if got[true]+got[false] != files*calls || got[true] < 2_000 || got[false] < 2_000 {
		t.Errorf("denied and let in: %v", got)
	}
}

// fronted is a front with grants, and the model of each token.
type fronted struct {
	handler http.Handler
	tokens  []string
	models  map[string]model
}

func front(t *testing.T, random *rand.Rand, agents, levels []string) fronted {
	t.Helper()
	f := fronted{models: map[string]model{}}
	type client struct {
		Name   string            `json:"name"`
		Token  string            `json:"token"`
		Agents map[string]string `json:"agents"`
	}
	var file struct {
		Clients []client `json:"clients"`
	}
	for i := range 1 + random.IntN(6) {
		m := model{}
		if random.IntN(4) > 0 {
			m["*"] = levels[random.IntN(len(levels))]
		}
		for range random.IntN(9) {
			if agent := agents[random.IntN(len(agents))]; agent != "" && strings.TrimSpace(agent) == agent {
				m[agent] = levels[random.IntN(len(levels))]
			}
		}
		token := fmt.Sprintf("token-%d-%016x", i, random.Uint64())
		f.tokens, f.models[token] = append(f.tokens, token), m
		file.Clients = append(file.Clients, client{fmt.Sprint("client ", i), token, m})
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "grants.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	grants, _, err := access.ReadFile(path, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	f.handler, err = guard.New(api.NewServer(guard.Service(reached{}, nil), api.Options{}), guard.Options{Grants: func() *access.Grants { return grants }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// call makes one call as JSON and returns the answer's body.
func (f fronted) call(token string, use tool, agent, other string) string {
	body := strings.NewReplacer("AGENT", quote(agent), "OTHER", quote(other)).Replace(use.body)
	kind := "application/json"
	if use.stream {
		kind = "application/connect+json"
		body = "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
	}
	r := httptest.NewRequest("POST", "/recalld.v1.MemoryService/"+use.procedure, strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "Bearer "+token)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})))
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Body.String()
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string has a JSON form
	return string(text)
}
