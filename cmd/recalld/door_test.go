package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// served is a server with a door, as a process of its own.
type served struct {
	*exec.Cmd
	url string
	mu  sync.Mutex
	err bytes.Buffer // standard error so far
}

// serveHTTP starts recalld serve with the arguments and waits for its address.
func serveHTTP(t *testing.T, env []string, args ...string) *served {
	t.Helper()
	s := &served{Cmd: exec.Command("recalld", append([]string{"serve", "--http", "127.0.0.1:0", "--log-level", "debug"}, args...)...)}
	s.Env = append(os.Environ(), append(env, "XDG_RUNTIME_DIR="+runtimeFolder(t))...)
	pipe, err := s.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	address, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer close(address)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			s.mu.Lock()
			fmt.Fprintln(&s.err, lines.Text())
			s.mu.Unlock()
			if _, rest, ok := strings.Cut(lines.Text(), " at http://"); ok && strings.HasPrefix(lines.Text(), "serving ") {
				address <- "http://" + strings.TrimSuffix(rest, "; stop with Ctrl-C")
			}
		}
	}()
	t.Cleanup(func() {
		if s.ProcessState == nil {
			s.Process.Kill()
			<-read
			s.Wait()
		}
	})
	s.url = <-address
	if s.url == "" {
		t.Fatalf("the server did not start:\n%s", s.said())
	}
	return s
}

func (s *served) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.String()
}

// call makes one call as curl does.
func (s *served) call(t *testing.T, token, method, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("POST", s.url+"/recalld.v1.MemoryService/"+method, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// A server over HTTP lets clients in as the file of grants says, takes a changed
// file at SIGHUP, keeps the old grants when the new file is bad, and shows no
// token.
func TestServeWithGrants(t *testing.T) {
	const ci, phone = "ci-token-0123456789abc", "phone-token-0123456789"
	folder := t.TempDir()
	file := filepath.Join(folder, "grants.json")
	write := func(level string) {
		t.Helper()
		text := `{"clients": [{"name": "ci", "token": "${CI_TOKEN}", "agents": {"mia": "read-write"}}, {"name": "phone", "token": "` + phone + `", "agents": {"mia": "` + level + `"}}]}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("none")
	s := serveHTTP(t, []string{"CI_TOKEN=" + ci}, "--data", filepath.Join(folder, "data"), "--grants", file)
	if status, body := s.call(t, ci, "Store", `{"agent":"mia","items":[{"content":"会議は火曜 会议在周二 on Tuesday"}]}`); status != 200 || !strings.Contains(body, "stored") {
		t.Fatalf("%d %s", status, body)
	}
	recall := `{"agent":"mia","query":"会議"}`
	for _, token := range []string{"", "no-such-token-0123456"} {
		if status, body := s.call(t, token, "Recall", recall); status != 401 {
			t.Errorf("%d %s", status, body)
		}
	}
	if status, body := s.call(t, phone, "Recall", recall); status != 403 {
		t.Errorf("%d %s", status, body)
	}

	hangUp := func(log string) {
		t.Helper()
		before := strings.Count(s.said(), log)
		if err := s.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if !until(func() bool { return strings.Count(s.said(), log) > before }) {
			t.Fatalf("no %q in\n%s", log, s.said())
		}
	}
	write("read")
	hangUp("grants read again")
	if status, body := s.call(t, phone, "Recall", recall); status != 200 || !strings.Contains(body, "会议") {
		t.Errorf("%d %s", status, body)
	}
	write("everything")
	hangUp("the grants stay as they were")
	if status, body := s.call(t, phone, "Recall", recall); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.call(t, phone, "Store", `{"agent":"mia","items":[{"content":"x"}]}`); status != 403 {
		t.Errorf("%d %s", status, body)
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("the server ended with %v:\n%s", err, s.said())
	}
	for _, secret := range []string{ci, phone, "no-such-token"} {
		if strings.Contains(s.said(), secret) {
			t.Errorf("a token is in the log:\n%s", s.said())
		}
	}
}

// One token in the environment is enough; without any, the server says loudly
// what that means. Both confine files.
func TestServeWithOneTokenAndWithNone(t *testing.T) {
	const token = "the-one-token-0123456789"
	for name, args := range map[string][]string{"token": nil, "none": {"--insecure-no-token"}} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			files := filepath.Join(folder, "files")
			if err := os.Mkdir(files, 0o700); err != nil {
				t.Fatal(err)
			}
			s := serveHTTP(t, []string{"RECALLD_TOKEN=" + token}, append(args, "--data", filepath.Join(folder, "data"), "--files", files)...)
			if got := strings.Contains(s.said(), "NO TOKEN IS ASKED FOR"); got != (name == "none") {
				t.Errorf("a warning is there: %v", got)
			}
			status, body := s.call(t, "", "Status", `{}`)
			if want := map[string]int{"token": 401, "none": 200}[name]; status != want {
				t.Errorf("without a token: %d %s", status, body)
			}
			if status, body := s.call(t, token, "Status", `{}`); status != 200 {
				t.Errorf("with the token: %d %s", status, body)
			}
			for path, want := range map[string]string{"copy.db": "", files + "/second.db": "", "../escaped.db": "leads out", filepath.Join(folder, "escaped.db"): "leads out", "/etc/passwd": "leads out"} {
				answer := s.stream(t, token, "Backup", fmt.Sprintf(`{"path":%q}`, path))
				if got := strings.Contains(answer, `"error"`); got != (want != "") || !strings.Contains(answer, want) {
					t.Errorf("backup to %s: %s", path, answer)
				}
			}
			if found, _ := filepath.Glob(filepath.Join(files, "*.db")); len(found) != 2 {
				t.Errorf("files %v", found)
			}
			if found, _ := filepath.Glob(filepath.Join(folder, "*.db")); len(found) != 0 {
				t.Errorf("outside %v", found)
			}
		})
	}
}

// stream makes one call whose answer is a stream, and returns its bytes.
func (s *served) stream(t *testing.T, token, method, body string) string {
	t.Helper()
	size := len(body)
	frame := string([]byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}) + body
	r, err := http.NewRequest("POST", s.url+"/recalld.v1.MemoryService/"+method, strings.NewReader(frame))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/connect+json")
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
