package cpersona

import (
	"context"
	"database/sql"
	"fmt"
)

// Kinds of row.
const (
	Memory  = "memory"
	Episode = "episode"
	Profile = "profile"
)

// Row is one memory, episode or profile as it stands in a file; what its kind
// does not have is empty.
type Row struct {
	Kind, Agent, Project, Channel string
	ID                            int64
	Content                       string // an episode's summary
	MessageID                     string
	Source, Metadata              string // JSON, or whatever text was stored
	Time                          string // a memory's; with or without a zone
	Start, End                    string // an episode's
	Keywords                      string
	Resolved, Locked              bool
	Recalls                       int64
	Recalled                      string // when for the last time
	Created, Updated              string // UTC without a zone
	Vector                        []byte // little-endian float32, or none
	Model                         string // what made the vector, as its writer said; "" for not known
	UserID                        string
	// InPool tells that the agent's global pool has the same message id too.
	InPool bool
}

// Size is what a row adds to [Survey.Bytes].
func (r *Row) Size() int64 {
	return int64(len(r.Content)+len(r.Vector)+len(r.Source)+len(r.Metadata)) + 64
}

// Rows streams the rows of one kind whose id is above after, in the order of ids.
func (f *File) Rows(ctx context.Context, kind string, after int64, limit int) ([]Row, error) {
	var query string
	label := "''"
	if f.labels {
		label = "embedding_model"
	}
	switch kind {
	case Memory:
		query = `SELECT id, agent_id, project_id, channel, content, msg_id, source, metadata, timestamp, '', '', '', 0, locked <> 0,
			recall_count, last_recalled_at, created_at, '', embedding, ` + label + `, '',
			msg_id <> '' AND project_id <> '' AND EXISTS (SELECT 1 FROM memories o WHERE o.agent_id = m.agent_id AND o.msg_id = m.msg_id AND o.project_id = '')
			FROM memories m WHERE id > ? ORDER BY id LIMIT ?`
	case Episode:
		query = `SELECT id, agent_id, project_id, channel, summary, '', '', '', '', start_time, end_time, keywords, resolved <> 0, 0,
			0, '', created_at, '', embedding, ` + label + `, '', 0 FROM episodes WHERE id > ? ORDER BY id LIMIT ?`
	case Profile:
		query = `SELECT id, agent_id, project_id, '', content, '', '', '', '', '', '', '', 0, 0,
			0, '', '', updated_at, NULL, '', user_id, 0 FROM profiles WHERE id > ? ORDER BY id LIMIT ?`
	default:
		return nil, fmt.Errorf("read import: no rows of kind %q", kind)
	}
	var rows []Row
	err := f.each(ctx, query, []any{after, limit}, func(scan func(...any) error) error {
		r := Row{Kind: kind}
		var texts [16]sql.NullString
		err := scan(&r.ID, &texts[0], &texts[1], &texts[2], &texts[3], &texts[4], &texts[5], &texts[6], &texts[7], &texts[8], &texts[9], &texts[10],
			&r.Resolved, &r.Locked, &r.Recalls, &texts[11], &texts[12], &texts[13], &r.Vector, &texts[14], &texts[15], &r.InPool)
		for i, into := range []*string{&r.Agent, &r.Project, &r.Channel, &r.Content, &r.MessageID, &r.Source, &r.Metadata, &r.Time, &r.Start, &r.End,
			&r.Keywords, &r.Recalled, &r.Created, &r.Updated, &r.Model, &r.UserID} {
			*into = texts[i].String
		}
		rows = append(rows, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read import: %w", err)
	}
	return rows, nil
}

// Survey is what a file holds.
type Survey struct {
	Schema                       int
	Memories, Episodes, Profiles int64
	Bytes                        int64 // as the rows' sizes add up
	// Elsewhere counts what is in the file beside its records, by its name, in
	// the order entities, relations, folders.
	Elsewhere []Count
}

// Count is one number with its name.
type Count struct {
	Name string
	N    int64
}

// Survey counts what the file holds, from the rows' headers where it can.
func (f *File) Survey(ctx context.Context) (Survey, error) {
	s := Survey{Schema: f.schema}
	for _, q := range []struct {
		query string
		into  *int64
	}{
		{"SELECT count(*) AS n, coalesce(sum(octet_length(content) + coalesce(octet_length(embedding), 0) + octet_length(source) + octet_length(metadata) + 64), 0) FROM memories", &s.Memories},
		{"SELECT count(*) AS n, coalesce(sum(octet_length(summary) + coalesce(octet_length(embedding), 0) + 64), 0) FROM episodes", &s.Episodes},
		{"SELECT count(*) AS n, coalesce(sum(octet_length(content) + 64), 0) FROM profiles", &s.Profiles},
	} {
		var size int64
		if err := f.tx.QueryRowContext(ctx, q.query).Scan(q.into, &size); err != nil {
			return s, fmt.Errorf("survey import: %w", err)
		}
		s.Bytes += size
	}
	for _, table := range []string{"entities", "relations", "folders"} {
		if !f.tables[table] {
			continue
		}
		c := Count{Name: table}
		if err := f.tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&c.N); err != nil {
			return s, fmt.Errorf("survey import: %w", err)
		}
		if c.N > 0 {
			s.Elsewhere = append(s.Elsewhere, c)
		}
	}
	return s, nil
}
