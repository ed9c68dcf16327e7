package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"recalld/memory"
)

const (
	// announcementName is the file in a data folder that says where its server
	// listens.
	announcementName = "server.json"
	// maxSocketPath is the longest path that every supported system takes; Linux
	// has 108 bytes with the final NUL, others 104 (DECISIONS 32).
	maxSocketPath = 103
	// probeTimeout bounds how long a socket may take to accept.
	probeTimeout = time.Second
)

// Announcement is what DATA/server.json says about the server of a data folder.
type Announcement struct {
	PID     int       `json:"pid"`
	Socket  string    `json:"socket"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
}

// Listen opens the socket of a data folder and announces it in the folder. The
// caller holds the folder's lock. What a killed server left behind is taken
// over; a server that still answers is [memory.ErrBusy]. The socket has mode
// 0600 in a folder of mode 0700 that this user owns. Close the listener first,
// then call withdraw, which takes the announcement back.
func Listen(dataDir, version string, started time.Time) (l net.Listener, withdraw func() error, err error) {
	socket, err := socketPath(dataDir)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for %s: %w", dataDir, err)
	}
	if err := clear(socket); err != nil {
		return nil, nil, fmt.Errorf("listen for %s: %w", dataDir, err)
	}
	l, err = net.Listen("unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for %s: %w", dataDir, err)
	}
	mine := Announcement{PID: os.Getpid(), Socket: socket, Started: started.UTC(), Version: version}
	err = os.Chmod(socket, 0o600)
	if err == nil {
		err = announce(dataDir, mine)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen for %s: %w", dataDir, withKind(err)), l.Close())
	}
	return l, func() error { return retract(dataDir, mine) }, nil
}

// Dial returns a client of the server that runs on a data folder, after that
// server accepted a connection. It wraps [ErrNoServer] when none runs, and when
// what is announced is another folder's server or not this user's.
func Dial(dataDir string) (*Client, error) {
	a, err := Announced(dataDir)
	if err != nil {
		return nil, err
	}
	if err := trusted(dataDir, a.Socket); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	connection, err := net.DialTimeout("unix", a.Socket, probeTimeout)
	if err != nil {
		return nil, fmt.Errorf("%w: process %d was announced: %w", ErrNoServer, a.PID, err)
	}
	if err := connection.Close(); err != nil {
		return nil, fmt.Errorf("probe %s: %w", a.Socket, err)
	}
	return NewClient(a.Socket), nil
}

// Announced reads a data folder's announcement, which may be a dead server's.
// It wraps [ErrNoServer] when there is none that can be read.
func Announced(dataDir string) (Announcement, error) {
	file, err := os.Open(filepath.Join(dataDir, announcementName))
	if err != nil {
		return Announcement{}, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return Announcement{}, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	var a Announcement
	if err := json.Unmarshal(text, &a); err != nil || a.Socket == "" {
		return Announcement{}, fmt.Errorf("%w: %s is not an announcement", ErrNoServer, announcementName)
	}
	return a, nil
}

// announce writes server.json so that a reader sees all of it or nothing.
func announce(dataDir string, a Announcement) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	path := filepath.Join(dataDir, announcementName)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// retract removes the announcement if it is still this one.
func retract(dataDir string, mine Announcement) error {
	a, err := Announced(dataDir)
	if err != nil || a.PID != mine.PID || a.Socket != mine.Socket || !a.Started.Equal(mine.Started) {
		return nil
	}
	return os.Remove(filepath.Join(dataDir, announcementName))
}

// clear removes a socket that nobody answers on.
func clear(socket string) error {
	connection, err := net.DialTimeout("unix", socket, probeTimeout)
	if err == nil {
		return errors.Join(fmt.Errorf("a server answers on %s: %w", socket, memory.ErrBusy), connection.Close())
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// socketPath chooses where a data folder's server listens: a short name made of
// the folder's own path, in the user's folder for sockets.
func socketPath(dataDir string) (string, error) {
	name, err := socketName(dataDir)
	if err != nil {
		return "", err
	}
	folder, err := SocketFolder(maxSocketPath - len("/") - len(name))
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, name), nil
}

// SocketFolder makes, or finds, the folder that this user alone can enter and that
// has a path of at most so many bytes: in the user's runtime folder or, where that
// does not serve, in /tmp.
func SocketFolder(most int) (string, error) {
	var folders []string
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		folders = append(folders, filepath.Join(runtime, "recalld"))
	}
	folders = append(folders, "/tmp/recalld-"+strconv.Itoa(os.Getuid()))
	var problems []error
	for _, folder := range folders {
		if len(folder) > most {
			problems = append(problems, fmt.Errorf("%s is too long for sockets (limit: %d bytes)", folder, most))
			continue
		}
		err := privateFolder(folder)
		if err == nil {
			return folder, nil
		}
		problems = append(problems, err)
	}
	return "", fmt.Errorf("no folder for the socket; set XDG_RUNTIME_DIR to a short path of your own: %w", errors.Join(problems...))
}

// socketName is the same for every way to write a folder's path.
func socketName(dataDir string) (string, error) {
	absolute, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(resolved))
	return hex.EncodeToString(sum[:8]) + ".sock", nil
}

// privateFolder makes a folder that only this user can enter, or checks that it
// is one: a name in /tmp could be another user's trap.
func privateFolder(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	uid, ok := ownerOf(info)
	if !info.IsDir() || !ok || uid != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder that this user alone can enter (%s, owner %d)", folder, info.Mode(), uid)
	}
	return nil
}

// trusted refuses a socket that is not the data folder's own, as in a copied
// folder, or that somebody other than this user or the folder's owner put
// there.
func trusted(dataDir, socket string) error {
	name, err := socketName(dataDir)
	if err != nil {
		return err
	}
	if filepath.Base(socket) != name {
		return fmt.Errorf("%s is the socket of another data folder", socket)
	}
	folder, err := os.Lstat(filepath.Dir(socket))
	if err != nil {
		return err
	}
	data, err := os.Stat(dataDir)
	if err != nil {
		return err
	}
	owner, known := ownerOf(folder)
	dataOwner, _ := ownerOf(data)
	if !folder.IsDir() || !known || (owner != os.Getuid() && owner != dataOwner) {
		return fmt.Errorf("%s is in a folder of user %d", socket, owner)
	}
	return nil
}

func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(stat.Uid), true
}
