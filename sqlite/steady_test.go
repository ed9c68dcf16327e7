package sqlite_test

import (
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// What a recall reads is compiled once a connection, not with every binding.
func TestStatementsAreCompiledOnce(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	store(t, s, sqlite.NewMemory{Cell: cell("mia", "atlas", ""), Content: "会議は火曜日"})
	v := view(t, s)
	defer v.Close()
	compiled := 0
	v.Compiling(func() { compiled++ })
	scope, refs := memory.Scope{Agent: "mia"}, []memory.Ref{mem(1)}
	for name, read := range map[string]func() error{
		"cells": func() error { _, err := v.Cells(scope); return err },
		"newest": func() error {
			_, err := v.Recent(scope, []memory.Kind{memory.KindMemory, memory.KindEpisode}, 10)
			return err
		},
		"records":      func() error { _, err := v.Hydrate(scope, refs); return err },
		"superseded":   func() error { _, err := v.Superseded(refs); return err },
		"profiles":     func() error { _, err := v.Profiles("mia", nil, 3); return err },
		"thresholds":   func() error { _, err := v.Calibrations("mia"); return err },
		"blocks":       func() error { _, _, err := v.BlocksOf(1, refs[0]); return err },
		"block counts": func() error { _, err := v.BlockStats(1, []int64{1}); return err },
	} {
		if err := read(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := compiled
		if err := read(); err != nil || compiled > before {
			t.Errorf("%s: %v, compiled again in %d steps", name, err, compiled-before)
		}
	}
	if compiled == 0 {
		t.Error("compiling is not seen")
	}
}
