package scanner

import (
	"fmt"
	"sync"
)

// locking keeps codes in memory whatever else the machine needs memory for.
type locking struct {
	pages func([]byte) error // locks them; nil: that is not wanted
	say   func(problem string)

	mu      sync.Mutex
	problem string // "" when everything that should be locked is
}

// lock locks the codes of the files that are not yet, as far as the system lets it.
// What it does not is said once; nothing else depends on it.
func (l *locking) lock(files []*file) {
	if l.pages == nil {
		return
	}
	problem := ""
	for _, f := range files {
		if f.segment == nil || f.locked.Load() {
			continue
		}
		if err := l.pages(f.mapped()); err != nil {
			problem = fmt.Sprintf("%d bytes of codes cannot be locked in memory: %v%s; they stay there as long as the system has no better use for it", unlocked(files), err, lockLimit())
			break
		}
		f.locked.Store(true)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if problem != "" && problem != l.problem {
		l.say(problem)
	}
	l.problem = problem
}

// trouble is what keeps codes from being locked, "" when nothing does.
func (l *locking) trouble() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

func unlocked(files []*file) (n int) {
	for _, f := range files {
		if f.segment != nil && !f.locked.Load() {
			n += len(f.mapped())
		}
	}
	return n
}
