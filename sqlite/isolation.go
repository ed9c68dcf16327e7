package sqlite

import "recalld/memory"

// predicate returns the one condition that limits rows to a scope, over a
// column that holds a cell id, and its arguments. It says in SQL what
// [memory.Scope.Contains] says in Go (RR-439 to RR-441, BR-070). Nothing else
// in the project restricts rows by agent, project or channel.
func predicate(column string, s memory.Scope) (sql string, args []any) {
	sql, args = axes(s)
	return column + " IN (SELECT id FROM cell WHERE " + sql + ")", args
}

// axes is the predicate over the rows of table cell itself.
func axes(s memory.Scope) (sql string, args []any) {
	sql, args = "agent = ?", []any{s.Agent}
	if s.Project != nil {
		sql += " AND project IN ('', ?)"
		args = append(args, *s.Project)
	}
	if s.Channel != nil && *s.Channel != "" {
		sql += " AND channel IN ('', ?)"
		args = append(args, *s.Channel)
	}
	return sql, args
}

// covering selects the cells whose records are visible wherever a record of the
// cell would be: its own, the global pool, and the channel-less ones. A store
// that finds its text there adds nothing (RR-444).
func covering(c memory.Cell) (sql string, args []any) {
	return "agent = ? AND project IN ('', ?) AND channel IN ('', ?)", []any{c.Agent, c.Project, c.Channel}
}
