package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/memory"
)

func listen(t *testing.T, dir string) (net.Listener, func() error) {
	t.Helper()
	l, withdraw, err := Listen(dir, "test", time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return l, withdraw
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// DECISIONS 32: the socket is found by its folder, however deep that lies and
// whichever way its path is written, and is its user's alone.
func TestDialFindsTheServerOfAFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", folder(t))
	deep := filepath.Join(folder(t), strings.Repeat("a long name/", 20))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(deep); !errors.Is(err, ErrNoServer) {
		t.Fatalf("before the server: %v", err)
	}
	l, withdraw := listen(t, deep)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- NewServer(&scripted{status: func(context.Context) (*coordinator.Status, error) {
			return &coordinator.Status{Path: deep}, nil
		}}, Options{}).Serve(ctx, l)
	}()
	a, err := Announced(deep)
	if err != nil || a.PID != os.Getpid() || a.Version != "test" || !a.Started.Equal(time.Unix(1_800_000_000, 0)) || len(a.Socket) > maxSocketPath {
		t.Errorf("announced %+v, %v", a, err)
	}
	if got := mode(t, a.Socket); got != 0o600 {
		t.Errorf("the socket has mode %o", got)
	}
	if got := mode(t, filepath.Dir(a.Socket)); got != 0o700 {
		t.Errorf("its folder has mode %o", got)
	}
	link := filepath.Join(folder(t), "link")
	if err := os.Symlink(deep, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{deep, deep + "/.", link} {
		client, err := Dial(path)
		if err != nil {
			t.Fatalf("dial %s: %v", path, err)
		}
		if status, err := client.Status(t.Context()); err != nil || status.Path != deep {
			t.Errorf("%s: %+v, %v", path, status, err)
		}
		_ = client.Close()
	}
	if _, _, err := Listen(deep, "second", time.Now()); !errors.Is(err, memory.ErrBusy) {
		t.Errorf("a second server: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{a.Socket, filepath.Join(deep, announcementName)} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// A killed server leaves a socket and an announcement behind: a caller sees
// that nobody answers, the next server takes over.
func TestStaleSocketIsTakenOver(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", folder(t))
	dir := folder(t)
	l, _ := listen(t, dir)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNoServer) {
		t.Errorf("dial: %v", err)
	}
	l, withdraw := listen(t, dir)
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	if err := errors.Join(l.Close(), withdraw()); err != nil {
		t.Error(err)
	}
}

// The announcement of a later server is not an earlier one's to take back.
func TestWithdrawLeavesAnotherAnnouncement(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", folder(t))
	dir := folder(t)
	l, withdraw := listen(t, dir)
	defer l.Close()
	later := Announcement{PID: os.Getpid() + 1, Socket: "/elsewhere", Started: time.Unix(1_900_000_000, 0)}
	if err := announce(dir, later); err != nil {
		t.Fatal(err)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	if a, err := Announced(dir); err != nil || a.Socket != later.Socket {
		t.Errorf("got %+v, %v", a, err)
	}
}

// A copy of a folder does not speak to the original's server.
func TestCopiedFolderHasNoServer(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", folder(t))
	original, copied := folder(t), folder(t)
	l, _ := listen(t, original)
	defer l.Close()
	text, err := os.ReadFile(filepath.Join(original, announcementName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, announcementName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(copied); !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v", err)
	}
}

func TestDamagedAnnouncementIsNoServer(t *testing.T) {
	dir := folder(t)
	for _, text := range []string{"", "{", "null", `{"socket":""}`, `{"socket":7}`, strings.Repeat(" ", 1<<20)} {
		if err := os.WriteFile(filepath.Join(dir, announcementName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(dir); !errors.Is(err, ErrNoServer) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// A runtime folder that others can enter, that is a link, or whose path is too
// long for a socket is passed over; the folder in /tmp serves.
func TestUnsafeRuntimeFolderIsPassedOver(t *testing.T) {
	dir := folder(t)
	open := folder(t)
	if err := os.Mkdir(filepath.Join(open, "recalld"), 0o755); err != nil {
		t.Fatal(err)
	}
	linked := folder(t)
	if err := os.Symlink(folder(t), filepath.Join(linked, "recalld")); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(folder(t), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, runtime := range map[string]string{"open": open, "link": linked, "long": long, "absent": "/no/such/folder", "relative": "here"} {
		t.Setenv("XDG_RUNTIME_DIR", runtime)
		socket, err := socketPath(dir)
		if want := fmt.Sprintf("/tmp/recalld-%d/", os.Getuid()); err != nil || !strings.HasPrefix(socket, want) {
			t.Errorf("%s: %s, %v; want one in %s", name, socket, err, want)
		}
	}
}

// One process owns a folder; the refusal names it. The lock ends with its
// process, however that ends.
func TestLockFolder(t *testing.T) {
	dir := filepath.Join(folder(t), "new", "data")
	lock, err := LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockFolder(dir)
	if !errors.Is(err, memory.ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("got %v, want busy and this process", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(os.Args[0], "-test.run", "^TestHoldLock$")
	holder.Env = append(os.Environ(), "RECALLD_TEST_HOLD="+dir)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := LockFolder(dir); !errors.Is(err, memory.ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", holder.Process.Pid)) {
		t.Errorf("got %v, want busy and process %d", err, holder.Process.Pid)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	lock, err = LockFolder(dir)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

// TestHoldLock is the other process of TestLockFolder: it holds the lock until
// it is killed.
func TestHoldLock(t *testing.T) {
	dir := os.Getenv("RECALLD_TEST_HOLD")
	if dir == "" {
		return
	}
	if _, err := LockFolder(dir); err != nil {
		t.Fatal(err)
	}
	fmt.Print(".")
	select {}
}

func TestReadOnlyFolderIsNamed(t *testing.T) {
	if err := withKind(fmt.Errorf("open: %w", os.ErrPermission)); !errors.Is(err, memory.ErrReadOnly) || !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
