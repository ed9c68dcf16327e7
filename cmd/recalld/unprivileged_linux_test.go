package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropOverrides gives up root's right to pass over the modes of files. It takes
// effect at the next exec, which is this program again.
func dropOverrides() error {
	const done = "RECALLD_TEST_UNPRIVILEGED"
	if os.Getuid() != 0 || os.Getenv(done) != "" {
		return nil
	}
	runtime.LockOSThread()
	for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return err
		}
	}
	program, err := exec.LookPath("recalld-unprivileged")
	if err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{"recalld-unprivileged"}, os.Args[1:]...), append(os.Environ(), done+"=1"))
}
