package bench

import "golang.org/x/sys/unix"

// hugePages returns zeroed memory on huge pages where the system gives them, as a
// mapped file lies in memory, and what gives it back.
func hugePages(n int) (memory []byte, free func(), err error) {
	memory, err = unix.Mmap(-1, 0, max(n, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, err
	}
	// Where this is refused, the pages are small ones.
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	whole := memory
	return memory[:n], func() { _ = unix.Munmap(whole) }, nil
}
