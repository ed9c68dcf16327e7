package coordinator

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"recalld/coordinator/arm"
	"recalld/shards"
)

// Scanner says who compares vectors and blocks with a query. The answers have the
// same bytes either way.
type Scanner struct {
	// Command is the program of the scanner's process and its arguments, such as
	// recalld scanner; empty: no process, the coordinator compares.
	Command []string
	Runtime string    // an existing folder for sockets, with a short path (DECISIONS 32)
	Off     bool      // no process, whatever the setting scanner says
	Stderr  io.Writer // what the process writes there; nil: nowhere
	// Patience is how long a recall waits for the process to come up before it is
	// answered without; 0: a second.
	Patience time.Duration
}

// The values of the setting scanner.
const (
	ScannerAuto = "auto"
	ScannerOff  = "off"
)

// derivedFolder is where everything is that follows from the store.
func (cfg *Config) derivedFolder() string {
	if cfg.Derived != "" {
		return cfg.Derived
	}
	return filepath.Join(filepath.Dir(cfg.Store.Path()), "derived")
}

// codesFolder is where the matrices behind the scanner are.
func (cfg *Config) codesFolder() string { return filepath.Join(cfg.derivedFolder(), "codes") }

// openCodes opens the matrices behind the scanner; nil when there is none. A store
// that is only read has none: its files could not be kept. Where the setting says
// that there is to be none, what an earlier run left goes. busy says that somebody
// is being answered.
func openCodes(ctx context.Context, cfg Config, p Policy, busy func() bool, log *slog.Logger) (*shards.Codes, error) {
	switch {
	case cfg.Store.ReadOnly():
		return nil, nil
	case p.Scanner == ScannerOff:
		if err := removeCodes(cfg.codesFolder()); err != nil {
			log.Warn("files of codes that are of no use could not be removed", "error", err)
		}
		return nil, nil
	case cfg.Scanner.Off || len(cfg.Scanner.Command) == 0:
		return nil, nil
	}
	command := cfg.Scanner.Command
	if p.ScannerLock {
		command = append(append([]string(nil), command...), "--mlock")
	}
	return shards.OpenCodes(ctx, cfg.Store, shards.CodesOptions{
		Folder: cfg.codesFolder(), Command: command, Runtime: cfg.Scanner.Runtime,
		Lean: p.ScannerLean, Busy: busy, Clock: cfg.Clock, Stderr: cfg.Scanner.Stderr, Log: log,
	})
}

// searchThrough makes the arms of vectors and blocks: through the scanner where
// there is one, with the index in this process for what it does not answer.
func (c *Coordinator) searchThrough(codes *shards.Codes) arm.Arm {
	local := arm.AtMost(arm.NewCodes(c.matrices), mostInProcess)
	if codes == nil {
		c.blocks = arm.NewBlocks(local)
		return arm.NewVector(c.matrices, nil)
	}
	c.blocks = arm.NewBlocks(arm.NewScannedBlocks(codes, local))
	return arm.NewVector(c.matrices, codes)
}

// openDerived opens what follows from the store. Words come second and go first:
// they may be searched by the same process.
func (c *Coordinator) openDerived(ctx context.Context, cfg Config, p Policy) (err error) {
	c.codesFolder = cfg.codesFolder()
	if c.codes, err = openCodes(ctx, cfg, p, func() bool { return c.asking.Load() > 0 }, c.log); err != nil {
		return err
	}
	if c.words, err = openWords(ctx, cfg, c.codes, c.log); err != nil && c.codes != nil {
		err = errors.Join(err, c.codes.Close())
	}
	return err
}

// removeCodes removes everything that a run with a scanner left. A folder that
// cannot be there needs no removing.
func removeCodes(folder string) error {
	err := os.RemoveAll(folder)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// eraseDerived returns once no derived file holds words or vectors of what was
// deleted. gone says that a text was: files that a run with a scanner left, and
// that nobody in this one follows, are removed then, and built anew by the next.
func (c *Coordinator) eraseDerived(ctx context.Context, gone bool) error {
	err := c.words.Erase(ctx)
	switch {
	case c.codes != nil:
		failed := c.codes.Erase(ctx)
		if !errors.Is(failed, syscall.ENOTDIR) { // where no folder can be, nothing is
			err = errors.Join(err, failed)
		}
	case gone:
		err = errors.Join(err, removeCodes(c.codesFolder))
	}
	return err
}

// sealed is the last change that every derived file holds; the log is kept from
// there.
func (c *Coordinator) sealed() int64 {
	if c.codes == nil {
		return c.words.Sealed()
	}
	return min(c.words.Sealed(), c.codes.Sealed())
}

// closeDerived lets go of the derived files and ends the scanner's process.
func (c *Coordinator) closeDerived() error {
	err := c.words.Close()
	if c.codes != nil {
		err = errors.Join(err, c.codes.Close())
	}
	return err
}
