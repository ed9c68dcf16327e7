package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// missingPeer is why a contestant cannot take part.
type missingPeer struct{ reason string }

func (m *missingPeer) Error() string { return m.reason }

// script is a process that answers lines of JSON with lines of JSON.
type script struct {
	command  *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	problems *strings.Builder // what it wrote to standard error; read once it has ended
}

// startScript starts one and reads its first line, which says who answers.
func startScript(ctx context.Context, python, path string, env []string, arguments ...string) (s *script, version string, err error) {
	if python == "" {
		return nil, "", &missingPeer{"no Python with its library is named"}
	}
	if _, err := os.Stat(path); err != nil {
		return nil, "", &missingPeer{"its script is not there"}
	}
	s = &script{command: exec.CommandContext(ctx, python, append([]string{"-B", path}, arguments...)...), problems: &strings.Builder{}}
	s.command.Env = append(os.Environ(), env...)
	s.command.Stderr = s.problems
	if s.in, err = s.command.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	s.out = bufio.NewReaderSize(out, 1<<16)
	if err := s.command.Start(); err != nil {
		return nil, "", &missingPeer{"its Python does not start"}
	}
	var hello struct{ Version, Missing string }
	if err := s.read(&hello); err != nil {
		return nil, "", errors.Join(err, s.close())
	}
	if hello.Missing != "" {
		return nil, "", errors.Join(&missingPeer{hello.Missing}, s.close())
	}
	return s, hello.Version, nil
}

// ask sends a request and reads its answer.
func (s *script) ask(request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return errors.Join(err, s.close())
	}
	return s.read(answer)
}

func (s *script) read(answer any) error {
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		ended := s.close()
		return errors.Join(fmt.Errorf("it ended: %s", strings.TrimSpace(s.problems.String())), ended)
	}
	var failure struct{ Error string }
	if err := json.Unmarshal(line, &failure); err != nil {
		return fmt.Errorf("it answers what is no JSON object: %w", err)
	}
	if failure.Error != "" {
		return errors.New(failure.Error)
	}
	return json.Unmarshal(line, answer)
}

func (s *script) memory() (float64, error) {
	var answer struct {
		RSS float64 `json:"rss_mb"`
	}
	err := s.ask(map[string]string{"op": "memory"}, &answer)
	return round(answer.RSS), err
}

// close ends the process, which does so at the end of its input.
func (s *script) close() error {
	if s.command == nil {
		return nil
	}
	command := s.command
	s.command = nil
	return errors.Join(s.in.Close(), command.Wait())
}

// pythonPeer is one library in a process of its own.
type pythonPeer struct {
	*script
	said string
	took time.Duration
	name string
}

func newPythonPeer(ctx context.Context, o *PeersOptions, name string, set *peerSet) (p *pythonPeer, err error) {
	s, version, err := startScript(ctx, o.Python, filepath.Join(o.Scripts, "peer.py"), nil, name)
	if err != nil {
		return nil, err
	}
	folder := o.file(name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, errors.Join(err, s.close())
	}
	var answer struct {
		Seconds float64 `json:"build_s"`
	}
	err = s.ask(map[string]any{"op": "load", "task": set.task, "rows": set.rows, "dims": set.dims, "k": set.k, "vectors": set.vectorPath, "queries": set.queryPath, "folder": folder}, &answer)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &pythonPeer{script: s, said: version, took: time.Duration(answer.Seconds * float64(time.Second)), name: name}, nil
}

func (p *pythonPeer) version() string                         { return p.said }
func (p *pythonPeer) memory(context.Context) (float64, error) { return p.script.memory() }
func (p *pythonPeer) built() time.Duration                    { return p.took }

// can is false where the library answers one query with one thread whatever it has.
func (p *pythonPeer) can(threads, together int) bool {
	alone := []string{"sqlite-vec", "faiss-hnsw", "usearch-hnsw"}
	return threads == 1 || together > 1 || !slices.Contains(alone, p.name)
}

func (p *pythonPeer) search(_ context.Context, from, count, threads int) (took time.Duration, answers []peerAnswer, err error) {
	var found struct {
		MS        float64
		IDs       [][]int64
		Distances [][]float64
	}
	if err := p.ask(map[string]any{"op": "search", "from": from, "count": count, "threads": threads}, &found); err != nil {
		return 0, nil, err
	}
	if len(found.IDs) != len(found.Distances) {
		return 0, nil, fmt.Errorf("%d lists of rows and %d of distances", len(found.IDs), len(found.Distances))
	}
	for i, ids := range found.IDs {
		answers = append(answers, peerAnswer{ids, found.Distances[i]})
	}
	return time.Duration(found.MS * float64(time.Millisecond)), answers, nil
}
