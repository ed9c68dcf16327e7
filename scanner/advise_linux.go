package scanner

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// populateStep is how much of a file is read in one call to the system.
const populateStep = 8 << 20

// populate maps a file's pages ahead of the first scan, which would fault them in
// one by one. It ends early with the context.
func populate(ctx context.Context, mapped []byte) {
	for len(mapped) > 0 && ctx.Err() == nil {
		n := min(populateStep, len(mapped))
		if unix.Madvise(mapped[:n], unix.MADV_POPULATE_READ) != nil {
			return // older kernels do not know it: scans fault pages in
		}
		mapped = mapped[n:]
	}
}

// adviseRandom keeps the system from reading ahead of single rows.
func adviseRandom(mapped []byte) {
	if len(mapped) > 0 {
		_ = unix.Madvise(mapped, unix.MADV_RANDOM) // advice: without it reads are only slower
	}
}

// prefetch begins to read the bytes from one place to another.
func prefetch(mapped []byte, from, to int64) {
	page := int64(os.Getpagesize())
	from -= from % page
	if from < to && to <= int64(len(mapped)) {
		_ = unix.Madvise(mapped[from:to], unix.MADV_WILLNEED) // as above
	}
}

// majorFaults is how many pages this process had to wait for the disk for.
func majorFaults() int64 {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return int64(usage.Majflt)
}

// anonymous is the memory of this process, in bytes, that no file stands behind.
func anonymous() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kB, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kB << 10
			}
		}
	}
	return 0
}

// lockPages keeps pages in memory until they are unmapped.
func lockPages(mapped []byte) error { return unix.Mlock(mapped) }

// lockLimit says how many bytes the process may lock, and how to change that.
func lockLimit() string {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return ""
	}
	return fmt.Sprintf(" (RLIMIT_MEMLOCK is %d bytes; raise it with ulimit -l or LimitMEMLOCK=, or go without locking)", limit.Cur)
}
