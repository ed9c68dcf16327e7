package sqlite

import "recalld/memory"

// Text is what a direct lexical reading needs of one record.
type Text struct {
	Ref      memory.Ref
	Cell     int64
	Content  string // an episode's summary
	Keywords string // an episode's, separated by line feeds
	SourceID string
	Time     memory.Time
}

// Texts calls each for every record of the cells: cell by cell in the order
// given, episodes before memories, each by source id, time and id, undated ones
// first. Neighbours in a conversation are neighbours here (DECISIONS 17).
func (v *View) Texts(cells []int64, each func(Text) error) error {
	for _, cell := range cells {
		err := v.query("SELECT id, summary, keywords, start, start_offset FROM episode WHERE cell = ? ORDER BY start, id", []any{cell}, func(r row) error {
			return each(Text{Ref: memory.Ref{Kind: memory.KindEpisode, ID: r.int(0)}, Cell: cell, Content: r.text(1), Keywords: r.text(2), Time: timeAt(r, 3)})
		})
		if err != nil {
			return err
		}
		err = v.query("SELECT id, content, source_id, time, time_offset FROM memory INDEXED BY memory_cell WHERE cell = ? ORDER BY source_id, time, id", []any{cell}, func(r row) error {
			return each(Text{Ref: memory.Ref{Kind: memory.KindMemory, ID: r.int(0)}, Cell: cell, Content: r.text(1), SourceID: r.text(2), Time: timeAt(r, 3)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
