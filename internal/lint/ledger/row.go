package ledger

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Status says how a row stands.
type Status string

// The statuses, as the package comment explains them.
const (
	Open    Status = "open"
	Held    Status = "held"
	Partly  Status = "partly"
	Context Status = "context"
	Wont    Status = "wont"
)

var statuses = []Status{Open, Held, Partly, Context, Wont}

// Named reports whether a row of this status must be named by a test.
func (s Status) Named() bool { return s == Held || s == Partly }

// A Row is one line of a ledger's table. Line is 1 or more; Heavy marks the
// rows that carry the most weight.
type Row struct {
	ID     string
	Status Status
	Heavy  bool
	Line   int
}

const id = `(?:RR|BR|RT)-[0-9]{3}`

var (
	rowStart = regexp.MustCompile(`^\| (` + id + `) \|`)
	anyID    = regexp.MustCompile(`\b` + id + `\b`)
	lastCell = regexp.MustCompile(`^(.*\|) ([a-z]+)( \*)? \|$`)
)

// Parse returns the rows of a ledger page in line order. It fails on a row
// without a known status and on an ID that stands twice.
func Parse(page string) ([]Row, error) {
	var rows []Row
	seen := map[string]bool{}
	for i, line := range strings.Split(page, "\n") {
		start := rowStart.FindStringSubmatch(line)
		if start == nil {
			continue
		}
		if seen[start[1]] {
			return nil, fmt.Errorf("line %d: %s stands twice", i+1, start[1])
		}
		seen[start[1]] = true
		cell := lastCell.FindStringSubmatch(line)
		if cell == nil || !slices.Contains(statuses, Status(cell[2])) {
			return nil, fmt.Errorf("line %d: %s: the last cell is not a status (%v)", i+1, start[1], statuses)
		}
		rows = append(rows, Row{ID: start[1], Status: Status(cell[2]), Heavy: cell[3] != "", Line: i + 1})
	}
	return rows, nil
}

// Listed returns the IDs that begin a table row of a page, in line order.
func Listed(page string) []string {
	var ids []string
	for _, line := range strings.Split(page, "\n") {
		if start := rowStart.FindStringSubmatch(line); start != nil {
			ids = append(ids, start[1])
		}
	}
	return ids
}

// Mentioned returns the IDs that a line names, in the order it names them.
func Mentioned(line string) []string { return anyID.FindAllString(line, -1) }

// Refresh returns a ledger page with the statuses that follow from the rows
// that tests name, and the asterisks that follow from the heavy rows. An open,
// context or wont row becomes held once named, held and partly become open once
// no longer named. The page must parse.
func Refresh(page string, named, heavy map[string]bool) (string, error) {
	rows, err := Parse(page)
	if err != nil {
		return "", err
	}
	lines := strings.Split(page, "\n")
	for _, row := range rows {
		status := row.Status
		switch {
		case named[row.ID] && !status.Named():
			status = Held
		case !named[row.ID] && status.Named():
			status = Open
		}
		cell := lastCell.FindStringSubmatch(lines[row.Line-1])
		mark := ""
		if heavy[row.ID] {
			mark = " *"
		}
		lines[row.Line-1] = cell[1] + " " + string(status) + mark + " |"
	}
	return strings.Join(lines, "\n"), nil
}
