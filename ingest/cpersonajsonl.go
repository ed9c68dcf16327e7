package ingest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"recalld/memory"
	"recalld/sqlite/cpersona"
)

// exportLine is a line of CPersona's export: the header, a record, or a part of
// its graph.
type exportLine struct {
	Kind           string          `json:"_type"`
	Version        string          `json:"version"` // header
	Memories       *int64          `json:"memory_count"`
	Episodes       *int64          `json:"episode_count"`
	Profiles       *int64          `json:"profile_count"`
	ID             int64           `json:"id"`
	Agent          string          `json:"agent_id"`
	Project        string          `json:"project_id"`
	Channel        string          `json:"channel"`
	MessageID      string          `json:"msg_id"`
	Content        string          `json:"content"`
	Summary        string          `json:"summary"`
	Source         json.RawMessage `json:"source"`
	SourceText     *string         `json:"source_text"`
	Timestamp      string          `json:"timestamp"`
	Metadata       json.RawMessage `json:"metadata"`
	MetadataText   *string         `json:"metadata_text"`
	Created        string          `json:"created_at"`
	Updated        string          `json:"updated_at"`
	Locked         json.RawMessage `json:"locked"`
	Recalls        int64           `json:"recall_count"`
	Recalled       string          `json:"last_recalled_at"`
	Keywords       json.RawMessage `json:"keywords"`
	Start          string          `json:"start_time"`
	End            string          `json:"end_time"`
	Resolved       bool            `json:"resolved"`
	UserID         string          `json:"user_id"`
	Embedding      string          `json:"embedding_b64"`
	EmbeddingModel string          `json:"embedding_model"`
}

// export is what was read of an export so far.
type export struct {
	header exportLine
	seen   map[string]int64
	inPool map[[2]string]bool // agent and message id of the global pool
}

// openCPersonaJSONL reads what CPersona's export_memories wrote.
func openCPersonaJSONL(path string) (*Reader, error) {
	e := &export{seen: map[string]int64{}, inPool: map[[2]string]bool{}}
	if err := e.firstPass(path); err != nil {
		return nil, err
	}
	l, err := openLines(path, e.decode)
	if err != nil {
		return nil, err
	}
	l.finish = e.complete
	return &Reader{source: l, agents: true, left: e.left}, nil
}

// firstPass reads which message ids the global pools have, and which lines there
// are. Bad lines are passed over; they are refused when they are read.
func (e *export) firstPass(path string) error {
	l, err := openLines(path, func(line []byte) ([]Item, error) {
		var x exportLine
		if json.Unmarshal(line, &x) != nil {
			return nil, nil
		}
		e.seen[x.Kind]++
		switch {
		case x.Kind == "header" && e.seen[x.Kind] == 1:
			e.header = x
		case x.Kind == "memory" && x.Project == "" && x.MessageID != "":
			e.inPool[[2]string{x.Agent, x.MessageID}] = true
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	for {
		if _, _, err := l.next(); err != nil {
			return l.Close()
		}
	}
}

func (e *export) decode(line []byte) ([]Item, error) {
	var x exportLine
	if err := decodeLoose(line, &x); err != nil {
		return nil, err
	}
	switch x.Kind {
	case "header", "entity", "mention", "relation", "folder", "folder_member":
		return nil, nil
	case cpersona.Memory, cpersona.Episode, cpersona.Profile:
	default:
		return nil, &memory.FieldError{Field: "_type", Problem: memory.Shape(x.Kind) + " is unknown", Limit: "memory, episode, profile and what an export has beside them", Next: "give the file of CPersona's export_memories as it is"}
	}
	row, err := x.row()
	if err != nil {
		return nil, err
	}
	row.InPool = row.Project != "" && e.inPool[[2]string{row.Agent, row.MessageID}]
	item, err := itemOfRow(&row)
	if err != nil {
		return nil, err
	}
	return []Item{item}, nil
}

// row is the row that a line was written from.
func (x *exportLine) row() (cpersona.Row, error) {
	r := cpersona.Row{
		Kind: x.Kind, ID: x.ID, Agent: x.Agent, Project: x.Project, Channel: x.Channel, MessageID: x.MessageID, Content: x.Content,
		Source: string(x.Source), Metadata: string(x.Metadata), Time: x.Timestamp, Start: x.Start, End: x.End, Resolved: x.Resolved,
		Recalls: x.Recalls, Recalled: x.Recalled, Created: x.Created, Updated: x.Updated, Model: x.EmbeddingModel, UserID: x.UserID,
	}
	if x.Kind == cpersona.Episode {
		r.Content = x.Summary
	}
	if x.SourceText != nil {
		r.Source = *x.SourceText
	}
	if x.MetadataText != nil {
		r.Metadata = *x.MetadataText
	}
	switch locked := string(x.Locked); locked {
	case "", "0", "false", "null":
	default:
		r.Locked = true
	}
	var list []string
	if json.Unmarshal(x.Keywords, &r.Keywords) != nil && json.Unmarshal(x.Keywords, &list) == nil {
		for _, word := range list {
			r.Keywords += word + ","
		}
	}
	var err error
	if r.Vector, err = base64.StdEncoding.DecodeString(x.Embedding); err != nil {
		return r, &memory.FieldError{Field: "embedding_b64", Problem: "is not base64", Next: "export the file again"}
	}
	return r, nil
}

// complete refuses a file that has fewer records than its header says.
func (e *export) complete() error {
	for _, c := range []struct {
		kind string
		want *int64
	}{{cpersona.Memory, e.header.Memories}, {cpersona.Episode, e.header.Episodes}, {cpersona.Profile, e.header.Profiles}} {
		if c.want != nil && *c.want != e.seen[c.kind] {
			return fmt.Errorf("the file ends here with %d lines of type %s, its header says %d; it was cut: export it again", e.seen[c.kind], c.kind, *c.want)
		}
	}
	return nil
}

func (e *export) left() []Left {
	var all []Left
	for _, c := range []struct{ kind, name string }{{"entity", "entities"}, {"relation", "relations"}, {"folder", "folders"}} {
		if n := e.seen[c.kind]; n > 0 {
			all = append(all, Left{What: c.name, Count: n})
		}
	}
	return all
}
