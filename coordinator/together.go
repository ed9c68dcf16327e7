package coordinator

import "sync"

// together runs all calls at the same time, each on a goroutine, and returns the
// error of the first one in their order that has one. A panic of a call is the
// caller's, as if it had made the call itself.
func together(calls ...func() error) error {
	errs, panics := make([]error, len(calls)), make([]any, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = call()
		})
	}
	all.Wait()
	for _, value := range panics {
		if value != nil {
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
