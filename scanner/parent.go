package scanner

import (
	"os"
	"time"
)

// Lifeline is the environment variable that says which file descriptor is the
// reading end of a pipe whose other end the parent alone holds. Its value is
// LifelineFD: the first file that exec hands on after the standard ones.
const Lifeline = "RECALLD_SCANNER_LIFELINE"

// LifelineFD is the descriptor's number.
const LifelineFD = "3"

// watchParent ends the process when the parent is gone: the pipe ends, or the
// process has another parent. Signals on a parent's death are tied to the thread
// that started the child, which Go ends when it likes (DECISIONS 33).
func watchParent() {
	parent := os.Getppid()
	if os.Getenv(Lifeline) == LifelineFD {
		go func() {
			pipe := os.NewFile(3, "lifeline")
			_, _ = pipe.Read(make([]byte, 1)) // nothing is ever written
			os.Exit(0)
		}()
	}
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			os.Exit(0)
		}
	}
}
