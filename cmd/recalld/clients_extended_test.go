//go:build extended

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// realClients is the folder that front/mcp/clients/setup.sh filled.
func realClients(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("RECALLD_CLIENTS_VENV")
	if !filepath.IsAbs(folder) {
		t.Fatal("these tests need real MCP clients: run `front/mcp/clients/setup.sh FOLDER`, then `RECALLD_CLIENTS_VENV=FOLDER make test-extended`, with an absolute path")
	}
	return folder
}

func (p *place) environment(more ...string) []string {
	return append(os.Environ(), append([]string{"XDG_RUNTIME_DIR=" + p.runtime}, more...)...)
}

// program is recalld for a client that starts it by its path.
func program(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("recalld")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The Python SDK lists and calls every default tool, in three languages, on
// standard input and over HTTP, in the newest version of the protocol and in an
// older one.
func TestPythonSDK(t *testing.T) {
	folder := realClients(t)
	script, err := filepath.Abs("../../front/mcp/clients/every.py")
	if err != nil {
		t.Fatal(err)
	}
	for mode, version := range map[string]string{"auto": "2026-07-28", "legacy": "2025-11-25"} {
		for _, way := range []string{"stdio", "http"} {
			t.Run(way+" "+version, func(t *testing.T) {
				p := newPlace(t)
				args := []string{script, "stdio", program(t), "mcp", "--data", p.data}
				if way == "http" {
					args = []string{script, "http", p.httpFront(), crowdToken}
				}
				c := exec.Command(filepath.Join(folder, "bin", "python"), args...)
				c.Env = p.environment("MODE=" + mode)
				out, err := c.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "negotiated "+version) || !strings.Contains(string(out), "all tools answer") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// The official inspector, in its command line mode, finds nothing in the schemas
// that any client could not read, and calls every default tool.
func TestInspector(t *testing.T) {
	folder := realClients(t)
	p := newPlace(t)
	inspect := func(args ...string) map[string]any {
		t.Helper()
		c := exec.Command(filepath.Join(folder, "inspector", "node_modules", ".bin", "mcp-inspector"),
			append([]string{"--cli", program(t), "mcp", "--data", p.data, "--agent", "mia"}, args...)...)
		c.Env = p.environment("PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"), "HOME="+p.runtime)
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, said.String())
		}
		var answer map[string]any
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return answer
	}
	var listed []string
	for _, tool := range inspect("--method", "tools/list", "--strict")["tools"].([]any) {
		listed = append(listed, tool.(map[string]any)["name"].(string))
	}
	called := map[string]bool{}
	ask := func(tool string, arguments ...string) map[string]any {
		t.Helper()
		called[tool] = true
		args := []string{"--method", "tools/call", "--tool-name", tool}
		for _, a := range arguments {
			args = append(args, "--tool-arg", a)
		}
		answer := inspect(args...)
		if answer["isError"] == true {
			t.Fatalf("%s: %v", tool, answer)
		}
		structured, ok := answer["structuredContent"].(map[string]any)
		if !ok {
			t.Fatalf("%s: %v", tool, answer)
		}
		return structured
	}
	const fact = "会議は木曜の三時から。"
	if got := ask("store", "content="+fact); got["ref"] != "mem:1" {
		t.Errorf("store: %v", got)
	}
	for _, tool := range []string{"recall", "recall_with_context"} {
		if got := ask(tool, "query=会議"); !strings.Contains(fmt.Sprint(got["messages"]), fact) {
			t.Errorf("%s: %v", tool, got)
		}
	}
	ask("get_contents", `refs=["mem:1"]`)
	ask("archive_episode", "summary=合同定在周五签。", "keywords=合同")
	ask("list_memories", "limit=3")
	ask("list_episodes")
	ask("update_profile", "profile=Prefers tea.")
	if got := ask("get_profile"); got["profile"] != "Prefers tea." {
		t.Errorf("profile: %v", got)
	}
	ask("update_memory", "memory_id=1", "content=The meeting is on Friday.")
	ask("lock_memory", "memory_id=1")
	ask("unlock_memory", "memory_id=1")
	ask("delete_memory", "memory_id=1")
	for _, name := range listed {
		if !called[name] {
			t.Errorf("%s was not called", name)
		}
	}
	if len(listed) != 13 || !slices.IsSorted(listed) {
		t.Errorf("listed %v", listed)
	}
}
