package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"recalld/front/api"
)

// start runs recalld as a process of its own, in a runtime folder of its own,
// and kills it when the test leaves it behind.
func start(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	c := exec.Command("recalld", args...)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtimeFolder(t))
	c.Stderr = &bytes.Buffer{}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
		if t.Failed() {
			t.Logf("standard error of recalld %s:\n%s", strings.Join(args, " "), c.Stderr)
		}
	})
	return c, bufio.NewReader(out)
}

func runtimeFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "rt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// A call that is under way when the server is told to stop is answered and
// kept; new calls are not taken.
func TestCallInFlightFinishes(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			data := t.TempDir()
			server, _ := start(t, "serve", "--data", data)
			if !until(func() bool {
				client, err := api.Dial(data)
				return err == nil && client.Close() == nil
			}) {
				t.Fatal("the server does not answer")
			}
			announced, err := api.Announced(data)
			if err != nil {
				t.Fatal(err)
			}
			connection, err := net.Dial("unix", announced.Socket)
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()

			// The server asks for the body once its handler has the call.
			body := `{"agent":"mia","items":[{"content":"said while the server stops"}]}`
			fmt.Fprintf(connection, "POST /recalld.v1.MemoryService/Store HTTP/1.1\r\nHost: recalld\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
			answers := bufio.NewReader(connection)
			if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
				t.Fatalf("%q, %v", line, err)
			}
			if _, err := answers.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := server.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if !until(func() bool {
				another, err := net.Dial("unix", announced.Socket)
				if err == nil {
					another.Close()
				}
				return err != nil
			}) {
				t.Fatal("the server still takes calls")
			}
			fmt.Fprint(connection, body)
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("status %s", answer.Status)
			}
			if err := server.Wait(); err != nil {
				t.Fatalf("the server ended with %v", err)
			}

			var out bytes.Buffer
			if code := run([]string{"list", "--data", data, "--agent", "mia"}, strings.NewReader(""), &out, &out); code != exitOK {
				t.Fatalf("exit code %d: %s", code, out.String())
			}
			if !strings.Contains(out.String(), "said while the server stops") {
				t.Fatalf("the record is not there: %s", out.String())
			}
		})
	}
}
