package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
)

// Where SQL text may stand: the truth itself, and benchmarks that measure a
// bare loop or a peer beside it.
var sqlRooms = []string{"sqlite", "bench"}

// Where tests may look into, or damage, the file behind the server's back.
var sqlTestRooms = []string{"cmd", "front", "coordinator", "ingest", "doctor", "shards"}

// A statement's beginning. Upper-case verbs are enough; in lower case the
// statement's second word is asked for, so that English passes.
var statement = regexp.MustCompile(`^\s*(` +
	`SELECT\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+(OR\s+\w+\s+)?\w+\s+SET\s|DELETE\s+FROM\s|REPLACE\s+INTO\s|` +
	`CREATE\s+(TEMP\s+|TEMPORARY\s+|UNIQUE\s+|VIRTUAL\s+)?(TABLE|INDEX|TRIGGER|VIEW)\s|ALTER\s+TABLE\s|DROP\s+(TABLE|INDEX|TRIGGER|VIEW)\s|` +
	`PRAGMA\s|WITH\s+(RECURSIVE\s+)?\w+(\([^)]*\))?\s+AS\s|VACUUM(\s+INTO\b|;?\s*$)|ATTACH\s|BEGIN\s+(IMMEDIATE|EXCLUSIVE|DEFERRED)\b|SAVEPOINT\s|` +
	`(?s:select\s.*\sfrom\s)|insert\s+(or\s+\w+\s+)?into\s+\w+\s*(\(|values\b|select\b)|update\s+\w+\s+set\s+\w+\s*=|delete\s+from\s+\w+\s*(where\b|;|$)|` +
	`create\s+(temp\s+|temporary\s+|unique\s+|virtual\s+)?(table|index|trigger|view)\s+(if\s+not\s+exists\s+)?\w+\s*(\(|on\b|using\b|as\b)|` +
	`pragma\s+\w+\s*(=|\(|;|$))`)

// SQL flags statement texts, and imports of database/sql or the SQLite driver,
// outside the rooms that may hold them.
func SQL(t *Tree) []Finding {
	const rule = "sql"
	var found []Finding
	for _, f := range t.Files {
		if within(f.Dir, sqlRooms...) || within(f.Dir, "internal/lint") || f.Test && within(f.Dir, sqlTestRooms...) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			switch {
			case err != nil:
			case text == "database/sql" || text == "github.com/mattn/go-sqlite3":
				found = append(found, t.at(t.fset, lit.Pos(), rule, "only sqlite may import "+text))
			case statement.MatchString(text):
				found = append(found, t.at(t.fset, lit.Pos(), rule, "SQL outside sqlite"))
			}
			return true
		})
	}
	return sorted(found)
}
