package ingest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"recalld/sqlite/cpersona"
)

// Keys under which metadata keeps, in CPersona, what has no field there, so that
// an import gives it back.
const (
	KeyVersion = "recalld_version" // the message id and number of one of several versions
	KeyUndated = "recalld_undated" // the timestamp is when it was stored
)

// versionKey is the value under [KeyVersion].
type versionKey struct {
	MessageID string `json:"message_id"`
	Version   int    `json:"version"`
}

// CPersonaWriter makes the file that CPersona's import_memories reads. The header
// that it begins with counts its lines, so that they wait in a temporary file.
type CPersonaWriter struct {
	agent  string
	at     time.Time
	body   *os.File
	out    *bufio.Writer
	counts map[string]int64
	err    error
}

// NewCPersonaWriter begins an export of an agent at that time.
func NewCPersonaWriter(agent string, at time.Time) *CPersonaWriter {
	w := &CPersonaWriter{agent: agent, at: at, counts: map[string]int64{}}
	if w.body, w.err = os.CreateTemp("", "recalld-export-*"); w.err == nil {
		w.out = bufio.NewWriter(w.body)
	}
	return w
}

// Close removes the temporary file.
func (w *CPersonaWriter) Close() error {
	if w.body == nil {
		return nil
	}
	w.body.Close()
	return os.Remove(w.body.Name())
}

// Write adds one item: profiles, episodes and memories in any order.
func (w *CPersonaWriter) Write(item Item) error {
	if w.err != nil {
		return fmt.Errorf("export: %w", w.err)
	}
	kept := item.Kept
	if kept == nil {
		kept = &Kept{}
	}
	kind := item.Type
	if kind == "" {
		kind = TypeMemory
	}
	var line any
	switch kind {
	case TypeProfile:
		line = cpersonaProfile{Kind: kind, Agent: w.agent, UserID: item.UserID, Content: item.Content, Updated: kept.Updated}
	case TypeEpisode:
		line = cpersonaEpisode{Kind: kind, ID: kept.ID, Agent: w.agent, Summary: item.Summary, Keywords: joined(item.Keywords), Start: orNull(item.Start),
			End: orNull(item.End), Created: kept.Created, Resolved: item.Resolved, Project: item.Project, Channel: item.Channel,
			Embedding: kept.Vector, EmbeddingModel: kept.Model}
	default:
		line = w.memory(item, kept)
	}
	w.counts[kind]++
	return w.encode(w.out, line)
}

// encode writes a line as Python's json does: nothing escaped for HTML.
func (w *CPersonaWriter) encode(out io.Writer, line any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(line); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func (w *CPersonaWriter) memory(item Item, kept *Kept) cpersonaMemory {
	m := cpersonaMemory{Kind: TypeMemory, ID: kept.ID, Agent: w.agent, MessageID: item.MessageID, Content: item.Content, Timestamp: item.Time,
		Created: kept.Created, Project: item.Project, Channel: item.Channel, Recalls: kept.Recalls, Recalled: orNull(kept.Recalled),
		Embedding: kept.Vector, EmbeddingModel: kept.Model}
	if item.Locked {
		m.Locked = 1
	}
	metadata := map[string]json.RawMessage{}
	// Metadata is an object or nothing; the store saw to it.
	_ = json.Unmarshal(item.Metadata, &metadata)
	m.Source, _ = json.Marshal(item.Source)
	if raw, ok := metadata[KeySource]; ok {
		m.Source = raw
		delete(metadata, KeySource)
	}
	if raw, ok := metadata[KeyTimestamp]; ok && json.Unmarshal(raw, &m.Timestamp) == nil {
		delete(metadata, KeyTimestamp)
	}
	if item.Version > 1 || kept.Superseded {
		metadata[KeyVersion], _ = json.Marshal(versionKey{item.MessageID, max(1, item.Version)})
	}
	if kept.Superseded {
		// There a message id stands for one text: the newest.
		m.MessageID = ""
	}
	if m.Timestamp == "" {
		m.Timestamp = kept.Created
		metadata[KeyUndated] = json.RawMessage("true")
	}
	if raw, ok := metadata[KeyMetadata]; ok && len(metadata) == 1 {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			m.MetadataText = &text
		} else {
			m.Metadata = raw
			return m
		}
		metadata = map[string]json.RawMessage{}
	}
	m.Metadata, _ = json.Marshal(metadata)
	return m
}

// Finish writes the header and the lines.
func (w *CPersonaWriter) Finish(to io.Writer) error {
	if w.err != nil {
		return fmt.Errorf("export: %w", w.err)
	}
	out := bufio.NewWriter(to)
	if err := w.encode(out, cpersonaHeader{
		Kind: "header", Version: "cpersona-export/1.1", Agent: w.agent, At: w.at.UTC().Format(time.RFC3339),
		Memories: w.counts[TypeMemory], Episodes: w.counts[TypeEpisode], HasProfile: w.counts[TypeProfile] > 0, Profiles: w.counts[TypeProfile],
	}); err != nil {
		return err
	}
	err := w.out.Flush()
	if err == nil {
		_, err = w.body.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = io.Copy(out, w.body)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// joined is the text in which CPersona keeps keywords.
func joined(words []string) string {
	for _, word := range words {
		if strings.ContainsAny(word, " \t\n") {
			return strings.Join(words, ", ")
		}
	}
	return strings.Join(words, " ")
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// The lines of an export, with the keys in CPersona's order.
type (
	cpersonaHeader struct {
		Kind       string `json:"_type"`
		Version    string `json:"version"`
		Agent      string `json:"agent_id"`
		At         string `json:"exported_at"`
		Memories   int64  `json:"memory_count"`
		Episodes   int64  `json:"episode_count"`
		HasProfile bool   `json:"has_profile"`
		Profiles   int64  `json:"profile_count"`
	}
	cpersonaMemory struct {
		Kind           string          `json:"_type"`
		ID             int64           `json:"id,omitempty"`
		Agent          string          `json:"agent_id"`
		MessageID      string          `json:"msg_id"`
		Content        string          `json:"content"`
		Source         json.RawMessage `json:"source"`
		Timestamp      string          `json:"timestamp"`
		Metadata       json.RawMessage `json:"metadata"`
		MetadataText   *string         `json:"metadata_text,omitempty"`
		Created        string          `json:"created_at,omitempty"`
		Project        string          `json:"project_id"`
		Channel        string          `json:"channel"`
		Locked         int             `json:"locked"`
		Recalls        int64           `json:"recall_count"`
		Recalled       *string         `json:"last_recalled_at"`
		Embedding      string          `json:"embedding_b64,omitempty"`
		EmbeddingModel string          `json:"embedding_model,omitempty"`
	}
	cpersonaEpisode struct {
		Kind           string  `json:"_type"`
		ID             int64   `json:"id,omitempty"`
		Agent          string  `json:"agent_id"`
		Summary        string  `json:"summary"`
		Keywords       string  `json:"keywords"`
		Start          *string `json:"start_time"`
		End            *string `json:"end_time"`
		Created        string  `json:"created_at,omitempty"`
		Resolved       bool    `json:"resolved"`
		Project        string  `json:"project_id"`
		Channel        string  `json:"channel"`
		Embedding      string  `json:"embedding_b64,omitempty"`
		EmbeddingModel string  `json:"embedding_model,omitempty"`
	}
	cpersonaProfile struct {
		Kind    string `json:"_type"`
		Agent   string `json:"agent_id"`
		UserID  string `json:"user_id"`
		Content string `json:"content"`
		Updated string `json:"updated_at,omitempty"`
		Project string `json:"project_id"`
	}
)

// fromRecalld undoes what the writer did to a memory.
func fromRecalld(item *Item, r *cpersona.Row) error {
	metadata := map[string]json.RawMessage{}
	if r.Kind != cpersona.Memory || json.Unmarshal(item.Metadata, &metadata) != nil {
		return nil
	}
	if metadata[KeyUndated] == nil && metadata[KeyVersion] == nil {
		return nil
	}
	if string(metadata[KeyUndated]) == "true" {
		item.Time = ""
		delete(metadata, KeyUndated)
	}
	var v versionKey
	if raw, ok := metadata[KeyVersion]; ok && json.Unmarshal(raw, &v) == nil && v.MessageID != "" && v.Version > 0 {
		item.MessageID, item.OnConflict, item.Version = v.MessageID, "version", v.Version
		delete(metadata, KeyVersion)
	}
	if len(metadata) == 0 {
		item.Metadata = nil
		return nil
	}
	var err error
	item.Metadata, err = json.Marshal(metadata)
	return err
}
