package cpersonatest

import (
	"database/sql"
	"fmt"
	"strings"

	_ "github.com/mattn/go-sqlite3" // the driver
)

// Create makes an empty file of a schema version, in write-ahead mode as
// CPersona's. Close it before it is read as one that no server holds.
func Create(path string, schema int) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", path+"?_journal_mode=WAL&_synchronous=OFF")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(tables(schema)); err != nil {
		db.Close()
		return nil, fmt.Errorf("make a file of schema %d: %w", schema, err)
	}
	return db, nil
}

func tables(schema int) string {
	label := ""
	if schema >= 18 {
		label = "embedding_model TEXT NOT NULL DEFAULT '',"
	}
	const stamp = "TEXT NOT NULL DEFAULT (datetime('now'))"
	var b strings.Builder
	fmt.Fprintf(&b, `CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at %[1]s);
		INSERT INTO schema_version (version) VALUES (%[3]d);
		CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, project_id TEXT NOT NULL DEFAULT '',
			msg_id TEXT NOT NULL DEFAULT '', content TEXT NOT NULL, source TEXT NOT NULL DEFAULT '{}', timestamp TEXT NOT NULL,
			metadata TEXT NOT NULL DEFAULT '{}', embedding BLOB, channel TEXT NOT NULL DEFAULT '', recall_count INTEGER NOT NULL DEFAULT 0,
			last_recalled_at TEXT, locked INTEGER NOT NULL DEFAULT 0, %[2]s created_at %[1]s);
		CREATE TABLE episodes (id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, project_id TEXT NOT NULL DEFAULT '',
			summary TEXT NOT NULL, keywords TEXT NOT NULL DEFAULT '', embedding BLOB, start_time TEXT, end_time TEXT,
			resolved INTEGER NOT NULL DEFAULT 0, channel TEXT NOT NULL DEFAULT '', %[2]s created_at %[1]s);
		CREATE TABLE profiles (id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, project_id TEXT NOT NULL DEFAULT '',
			user_id TEXT NOT NULL DEFAULT '', content TEXT NOT NULL, updated_at %[1]s, UNIQUE (agent_id, user_id));
		CREATE UNIQUE INDEX idx_memories_dedup_content ON memories (agent_id, project_id, channel, content);
		CREATE UNIQUE INDEX idx_memories_dedup_msg_id ON memories (agent_id, project_id, msg_id) WHERE msg_id <> '';
		`, stamp, label, schema)
	if schema >= 15 {
		b.WriteString(`CREATE TABLE entities (id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, project_id TEXT NOT NULL DEFAULT '',
			channel TEXT NOT NULL DEFAULT '', name TEXT NOT NULL, normalized TEXT NOT NULL, declared_by TEXT NOT NULL, created_at TEXT NOT NULL);
		CREATE TABLE relations (id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, subject_kind TEXT NOT NULL, subject_id INTEGER NOT NULL,
			predicate TEXT NOT NULL, object_kind TEXT NOT NULL, object_id INTEGER NOT NULL);
		`)
	}
	if schema >= 21 {
		b.WriteString(`CREATE TABLE folders (id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, name TEXT NOT NULL);
		`)
	}
	return b.String()
}
