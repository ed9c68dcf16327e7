package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"recalld/internal/lint/ledger"
)

// The page that lists the heavy rows.
const heavyPage = "docs/spec/README.md"

// The ledger pages.
var ledgerPages = []string{"docs/spec/block-reach.md", "docs/spec/read-track.md", "docs/spec/reliable-recall.md"}

// Ledgers flags rows marked held that no test names, tests and mutations that
// name rows that do not exist, and a list of heavy rows that differs from the
// asterisks in the ledgers. A tree without ledgers has nothing to flag.
func Ledgers(t *Tree) []Finding {
	const rule = "ledger"
	var found []Finding
	known, heavy := map[string]bool{}, map[string]bool{}
	named := t.NamedRows()
	for _, text := range t.Texts {
		if !slices.Contains(ledgerPages, text.Path) {
			continue
		}
		rows, err := ledger.Parse(text.Body)
		if err != nil {
			found = append(found, Finding{text.Path, 1, rule, err.Error()})
		}
		for _, row := range rows {
			known[row.ID] = true
			if row.Heavy {
				heavy[row.ID] = true
			}
			if row.Status.Named() && !named[row.ID] {
				found = append(found, Finding{text.Path, row.Line, rule, row.ID + " is marked " + string(row.Status) + ", but no test names it"})
			}
		}
	}
	if len(known) == 0 {
		return found
	}
	listed := t.HeavyRows()
	for id := range listed {
		if !heavy[id] {
			found = append(found, Finding{heavyPage, 1, rule, id + " is listed, but has no asterisk in its ledger"})
		}
	}
	for id := range heavy {
		if !listed[id] {
			found = append(found, Finding{heavyPage, 1, rule, id + " has an asterisk in its ledger, but is not listed"})
		}
	}
	for _, text := range t.Texts {
		if !namesRows(text.Path) && !within(text.Path, "mutation/list") {
			continue
		}
		for i, line := range strings.Split(text.Body, "\n") {
			for _, id := range ledger.Mentioned(line) {
				if !known[id] {
					found = append(found, Finding{text.Path, i + 1, rule, fmt.Sprintf("%s is in no ledger", id)})
				}
			}
		}
	}
	return sorted(found)
}

// NamedRows returns the ledger rows that a test file or a file below a testdata
// folder names. The tests of the rules themselves name rows that do not exist,
// so they do not count.
func (t *Tree) NamedRows() map[string]bool {
	named := map[string]bool{}
	for _, text := range t.Texts {
		if !namesRows(text.Path) {
			continue
		}
		for _, id := range ledger.Mentioned(text.Body) {
			named[id] = true
		}
	}
	return named
}

// HeavyRows returns the rows that docs/spec/README.md lists.
func (t *Tree) HeavyRows() map[string]bool {
	listed := map[string]bool{}
	for _, text := range t.Texts {
		if text.Path == heavyPage {
			for _, id := range ledger.Listed(text.Body) {
				listed[id] = true
			}
		}
	}
	return listed
}

func namesRows(name string) bool {
	if within(name, "internal/lint", "mutation/mutation_test.go") {
		return false
	}
	return strings.HasSuffix(path.Base(name), "_test.go") || inTestdata(name)
}

// LedgerPages returns the ledgers of a tree.
func (t *Tree) LedgerPages() []Text {
	var pages []Text
	for _, text := range t.Texts {
		if slices.Contains(ledgerPages, text.Path) {
			pages = append(pages, text)
		}
	}
	return pages
}
