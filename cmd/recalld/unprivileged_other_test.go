//go:build !linux

package main

import (
	"errors"
	"os"
)

// dropOverrides can drop nothing here: the tests must not run as root.
func dropOverrides() error {
	if os.Getuid() == 0 {
		return errors.New("run the tests as another user than root")
	}
	return nil
}
