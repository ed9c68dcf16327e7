package coordinator

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// together runs all calls at the same time, each on a goroutine, and returns the
// error of the first one in their order that has one. A panic of a call is the
// caller's, with the stack of the call.
func together(calls ...func() error) error {
	errs, panics := make([]error, len(calls)), make([]string, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			defer func() {
				if value := recover(); value != nil {
					panics[i] = fmt.Sprintf("%v\n%s", value, debug.Stack())
				}
			}()
			errs[i] = call()
		})
	}
	all.Wait()
	for _, value := range panics {
		if value != "" {
			panic(value)
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
