package ledger

import (
	"strings"
	"testing"
)

const page = `# A ledger

| ID | Requirement | Status |
|---|---|---|
| RR-001 | first | open |
| RR-002 | has a ` + "`a|b`" + ` inside | held * |
| RR-003 | third, see RR-001 | partly |
| RR-004 | fourth | context |
| RR-005 | fifth | wont |
`

func TestParseReadsStatusAndWeight(t *testing.T) {
	rows, err := Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []Row{
		{"RR-001", Open, false, 5}, {"RR-002", Held, true, 6}, {"RR-003", Partly, false, 7},
		{"RR-004", Context, false, 8}, {"RR-005", Wont, false, 9},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, row := range rows {
		if row != want[i] {
			t.Errorf("row %d: %+v, want %+v", i, row, want[i])
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, bad := range map[string]string{
		"an unknown status":     "| RR-001 | a | done |",
		"a row without one":     "| RR-001 | a |",
		"an ID that comes back": "| RR-001 | a | open |\n| RR-001 | b | open |",
	} {
		if rows, err := Parse(bad); err == nil {
			t.Errorf("%s was accepted: %+v", name, rows)
		}
	}
}

func TestRefreshMovesStatusesWithTheTests(t *testing.T) {
	named := map[string]bool{"RR-001": true, "RR-003": true, "RR-004": true}
	heavy := map[string]bool{"RR-003": true}
	got, err := Refresh(page, named, heavy)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		"first | open |", "first | held |",
		"inside | held * |", "inside | open |",
		"RR-001 | partly |", "RR-001 | partly * |",
		"fourth | context |", "fourth | held |",
	).Replace(page)
	if got != want {
		t.Errorf("refreshed:\n%s\nwant:\n%s", got, want)
	}
	again, err := Refresh(got, named, heavy)
	if err != nil || again != got {
		t.Errorf("a second refresh changed the page (%v):\n%s", err, again)
	}
}

func TestMentionedFindsWholeIDsOnly(t *testing.T) {
	got := strings.Join(Mentioned("// RR-071, BR-044: not XRR-001, RR-0712 or RT-12; RT-120."), " ")
	if got != "RR-071 BR-044 RT-120" {
		t.Errorf("mentioned %q", got)
	}
}
