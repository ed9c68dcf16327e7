//go:build !linux

package bench

import "errors"

var errPages = errors.New("which pages are in memory can be asked and changed on Linux alone")

func forget(string) (float64, int64, error)  { return 0, 0, errPages }
func pagesOf(string) (float64, int64, error) { return 0, 0, errPages }
