package ingest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"recalld/memory"
	"recalld/sqlite/cpersona"
)

// Keys under which metadata keeps what has no field of its own here, so that an
// export gives it back.
const (
	KeySource    = "cpersona_source"    // a source that is more than type, id and name
	KeyMetadata  = "cpersona_metadata"  // metadata that is no object
	KeyTimestamp = "cpersona_timestamp" // a timestamp that is no time
)

// openCPersonaDB reads CPersona's database file.
func openCPersonaDB(ctx context.Context, path string) (*Reader, error) {
	f, err := cpersona.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	survey, err := f.Survey(ctx)
	if err != nil {
		f.Close()
		return nil, err
	}
	var left []Left
	for _, c := range survey.Elsewhere {
		left = append(left, Left{What: c.Name, Count: c.N})
	}
	s := &database{ctx: ctx, file: f, total: survey.Bytes, kinds: []string{cpersona.Profile, cpersona.Episode, cpersona.Memory}}
	return &Reader{source: s, agents: true, left: func() []Left { return left }}, nil
}

// rowsPage is how many rows are read at a time.
const rowsPage = 256

// database is a source of one unit a row.
type database struct {
	ctx    context.Context
	file   *cpersona.File
	total  int64
	kinds  []string // that are to come, the first is being read
	page   []cpersona.Row
	after  int64
	rows   int
	offset int64
}

func (d *database) size() int64  { return d.total }
func (d *database) Close() error { return d.file.Close() }

func (d *database) skipTo(offset int64) error {
	for d.offset < offset {
		if _, err := d.row(); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) next() ([]entry, int64, error) {
	row, err := d.row()
	if err != nil {
		return nil, d.offset, err
	}
	e := entry{line: d.rows, where: fmt.Sprintf("%s %d", row.Kind, row.ID)}
	e.item, e.err = itemOfRow(&row)
	return []entry{e}, d.offset, nil
}

func (d *database) row() (row cpersona.Row, err error) {
	for len(d.page) == 0 {
		if len(d.kinds) == 0 {
			return row, io.EOF
		}
		if d.page, err = d.file.Rows(d.ctx, d.kinds[0], d.after, rowsPage); err != nil {
			return row, err
		}
		if len(d.page) == 0 {
			d.kinds, d.after = d.kinds[1:], 0
		}
	}
	row, d.page = d.page[0], d.page[1:]
	d.after = row.ID
	d.rows++
	d.offset += row.Size()
	return row, nil
}

// itemOfRow is the item that a row becomes. Its texts are as they were; what does
// not fit the fields is in metadata.
func itemOfRow(r *cpersona.Row) (Item, error) {
	item := Item{Type: r.Kind, Agent: r.Agent, Project: r.Project, Channel: r.Channel, Locked: r.Locked}
	if kept := keptOf(r); kept != (Kept{}) {
		item.Kept = &kept
	}
	switch r.Kind {
	case cpersona.Profile:
		// A profile belongs to the whole agent.
		item.Content, item.UserID, item.Project = r.Content, r.UserID, ""
		return item, nil
	case cpersona.Episode:
		item.Summary, item.Keywords, item.Resolved = r.Content, words(r.Keywords), r.Resolved
		for _, t := range []struct {
			field, text string
			into        *string
		}{{"start_time", r.Start, &item.Start}, {"end_time", r.End, &item.End}} {
			var ok bool
			if *t.into, ok = readTime(t.text); !ok {
				return item, &memory.FieldError{Field: t.field, Problem: memory.Shape(t.text) + " is not a time", Next: "correct it in the file"}
			}
		}
		return item, nil
	}
	item.Content, item.MessageID = r.Content, r.MessageID
	if r.InPool {
		// The pool's record of the same message id is visible here and would make
		// this one a duplicate.
		item.OnConflict, item.Version = "version", 1
	}
	more := map[string]any{}
	var whole bool
	if item.Source, whole = sourceOf(r.Source); !whole {
		more[KeySource] = rawOrText(r.Source)
	}
	var object bool
	if item.Metadata, object = objectOf(r.Metadata); !object {
		more[KeyMetadata] = rawOrText(r.Metadata)
	}
	var ok bool
	if item.Time, ok = readTime(r.Time); !ok {
		more[KeyTimestamp] = r.Time
	}
	if len(more) > 0 {
		item.Metadata = withMetadata(item.Metadata, more)
	}
	return item, fromRecalld(&item, r)
}

// keptOf is what a row keeps. A time of its bookkeeping that is no time is left
// out.
func keptOf(r *cpersona.Row) Kept {
	k := Kept{Recalls: r.Recalls}
	k.Created, _ = readTime(r.Created)
	k.Updated, _ = readTime(r.Updated)
	k.Recalled, _ = readTime(r.Recalled)
	if r.Kind != cpersona.Profile {
		k.ID = r.ID
	}
	if len(r.Vector) > 0 {
		k.Vector, k.Model = base64.StdEncoding.EncodeToString(r.Vector), r.Model
	}
	return k
}

// words divides the text in which CPersona keeps keywords: at commas where it has
// any, else at spaces.
func words(text string) []string {
	split := strings.Fields(text)
	if strings.ContainsAny(text, ",、，") {
		split = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '、' || r == '，' })
	}
	var all []string
	for _, word := range split {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, word)
		}
	}
	return all
}

// sourceOf reads a source; whole is false when it says more than type, id and
// name.
func sourceOf(text string) (s memory.Source, whole bool) {
	var fields map[string]json.RawMessage
	if strings.TrimSpace(text) == "" {
		return s, true
	}
	if json.Unmarshal([]byte(text), &fields) != nil {
		return s, false
	}
	whole = true
	for key, value := range fields {
		into, known := map[string]*string{"type": &s.Type, "id": &s.ID, "name": &s.Name}[key]
		if !known || json.Unmarshal(value, into) != nil {
			whole = false
		}
	}
	return s, whole
}

// objectOf returns a JSON object as it stands, nil for one without keys; ok is
// false for what is no object.
func objectOf(text string) (object json.RawMessage, ok bool) {
	if strings.TrimSpace(text) == "" {
		return nil, true
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return nil, false
	}
	if len(fields) == 0 {
		return nil, true
	}
	return json.RawMessage(text), true
}

// rawOrText is a JSON value as such, and any other text as a string.
func rawOrText(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
