package bench

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// forget drops a file from memory, and returns the part that stays there.
func forget(path string) (part float64, bytes int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	err = errors.Join(unix.Fsync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	if err != nil {
		return 0, 0, err
	}
	return pagesOf(path)
}

// pagesOf is the part of a file that can be read without waiting for a disk, and
// its length. A file system that does not tell makes it -1.
func pagesOf(path string) (part float64, bytes int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	var one [1]byte
	pages, there := 0, 0
	for at := int64(0); at < info.Size(); at += int64(os.Getpagesize()) {
		pages++
		n, err := unix.Preadv2(int(f.Fd()), [][]byte{one[:]}, at, unix.RWF_NOWAIT)
		switch {
		case err == nil && n == 1:
			there++
		case errors.Is(err, unix.EOPNOTSUPP):
			return -1, info.Size(), nil
		case err != nil && !errors.Is(err, unix.EAGAIN):
			return 0, 0, err
		}
	}
	return float64(there) / float64(max(1, pages)), info.Size(), nil
}
