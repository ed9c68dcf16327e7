package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"recalld/front/api"
	"recalld/memory"
)

const (
	// serverLog is where a server in the background writes, inside the data folder.
	serverLog = "server.log"
	// maxServerLog is the size from which a log is put aside at the next start.
	maxServerLog = 4 << 20
	// startPatience is how long a server may take to open its folder: it may have to
	// wait for a command, or to migrate the file.
	startPatience = 2 * time.Minute
)

// cannotWrite reports whether the data folder can only be read.
func (a *app) cannotWrite() (bool, error) {
	lock, err := api.LockFolder(a.data)
	switch {
	case errors.Is(err, memory.ErrReadOnly):
		return true, nil
	case errors.Is(err, memory.ErrBusy):
		return false, nil
	case err != nil:
		return false, err
	}
	return false, lock.Unlock()
}

// startServer returns once a server answers for the data folder: the one that
// runs, or one that it starts as a process of its own, in a session of its own,
// which no client that ends takes along. Of servers started at once the folder's
// lock lets one live.
func (a *app) startServer(ctx context.Context, idle time.Duration, log *slog.Logger) error {
	if a.answers() {
		return nil
	}
	server, logged, err := a.serverProcess(idle)
	if err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	defer logged.Close()
	begin, err := logged.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	log.Info("started a server", "process", server.Process.Pid)
	exited := make(chan error, 1)
	go func() { exited <- server.Wait() }() // ends with the process, or with this one
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(startPatience)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			return fmt.Errorf("the server does not answer after %s; see %s", startPatience, logged.Name())
		case err := <-exited:
			// Another one may have come first, or may still be opening the folder.
			if a.answers() {
				return nil
			}
			if a.taken() {
				exited = nil
				continue
			}
			return fmt.Errorf("the server ended (%v); see %s: %s", err, logged.Name(), lastLine(logged, begin))
		case <-tick.C:
			if a.answers() {
				return nil
			}
		}
	}
}

// taken reports whether another process has the data folder.
func (a *app) taken() bool {
	lock, err := api.LockFolder(a.data)
	if err == nil {
		err = lock.Unlock()
	}
	return errors.Is(err, memory.ErrBusy)
}

func (a *app) answers() bool {
	client, err := api.Dial(a.data)
	return err == nil && client.Close() == nil
}

// serverProcess is this program as a server, not yet started, and its log.
func (a *app) serverProcess(idle time.Duration) (*exec.Cmd, *os.File, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	data, err := filepath.Abs(a.data)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(data, serverLog)
	if info, err := os.Stat(path); err == nil && info.Size() > maxServerLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, nil, err
		}
	}
	logged, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	args := []string{os.Args[0], "serve", "--data", data, "--idle", idle.String()}
	if a.logLevel != "" {
		args = append(args, "--log-level", a.logLevel)
	}
	return &exec.Cmd{
		Path: program, Args: args, Dir: "/",
		Stdout: logged, Stderr: logged,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}, logged, nil
}

// lastLine is the last thing that a process wrote from an offset on.
func lastLine(log *os.File, begin int64) string {
	text, err := io.ReadAll(io.NewSectionReader(log, begin, 16<<10))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || lines[len(lines)-1] == "" {
		return "it wrote nothing"
	}
	return lines[len(lines)-1]
}
