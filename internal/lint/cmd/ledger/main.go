package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"recalld/internal/lint"
	"recalld/internal/lint/ledger"
)

func main() {
	if err := refresh(); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}

func refresh() error {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(module)))
	tree, err := lint.Load(root, "recalld")
	if err != nil {
		return err
	}
	named, heavy := tree.NamedRows(), tree.HeavyRows()
	for _, page := range tree.LedgerPages() {
		body, err := ledger.Refresh(page.Body, named, heavy)
		if err != nil {
			return fmt.Errorf("refresh %s: %w", page.Path, err)
		}
		if body != page.Body {
			if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(page.Path)), []byte(body), 0o644); err != nil {
				return err
			}
		}
		if err := report(page.Path, body); err != nil {
			return err
		}
	}
	return nil
}

func report(path, body string) error {
	rows, err := ledger.Parse(body)
	if err != nil {
		return fmt.Errorf("read %s back: %w", path, err)
	}
	count := map[ledger.Status]int{}
	var waiting []string
	for _, row := range rows {
		count[row.Status]++
		if row.Heavy && row.Status != ledger.Held {
			waiting = append(waiting, row.ID)
		}
	}
	fmt.Printf("%-32s %3d rows: %d held, %d partly, %d open, %d context, %d wont\n", path, len(rows),
		count[ledger.Held], count[ledger.Partly], count[ledger.Open], count[ledger.Context], count[ledger.Wont])
	if len(waiting) > 0 {
		fmt.Printf("  heavy and not held: %s\n", strings.Join(waiting, " "))
	}
	return nil
}
