package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"recalld/memory"
)

// View is one snapshot of the file: one read transaction on one connection. Its
// methods may be called from several goroutines, which then take turns. A
// callback must not call the view it came from. Close gives the connection back;
// a view that stays open keeps the log from being emptied.
type View struct {
	ctx   context.Context
	store *Store
	mu    sync.Mutex
	conn  *conn
	seq   int64
	// damaged are the records that were left out of what the view returned.
	damaged         map[memory.Ref]bool
	damagedProfiles []int64
}

// View opens a snapshot in which every record is in the full-text index. The
// context bounds the wait for a free connection and every read through the view.
func (s *Store) View(ctx context.Context) (*View, error) {
	if s.writer != nil && s.writer.unindexed.Load() > 0 {
		if err := s.submit(indexJob(ctx)); err != nil && err != ErrClosed {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			s.log.Warn("the full-text index could not be brought up to date", "path", s.path, "error", err)
		}
	}
	return s.ViewRecords(ctx)
}

// ViewRecords is [Store.View] without waiting for the full-text index: right for
// what does not call [View.MatchFTS].
func (s *Store) ViewRecords(ctx context.Context) (*View, error) {
	v := &View{ctx: ctx, store: s}
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case v.conn = <-s.readers:
	case <-s.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := s.gate.enter(ctx, v, s.now()); err != nil {
		s.readers <- v.conn
		return nil, err
	}
	if err := v.begin(); err != nil {
		v.Close()
		return nil, fmt.Errorf("open a snapshot: %w", err)
	}
	return v, nil
}

// begin starts the transaction; the first read pins the snapshot.
func (v *View) begin() error {
	if _, _, err := v.conn.exec("BEGIN"); err != nil {
		return err
	}
	r, err := v.conn.first(v.ctx, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'index_changes'), 0)")
	if err != nil {
		return err
	}
	v.seq = r.int(0)
	return nil
}

// Seq is the change sequence of the snapshot: the last change that it holds.
func (v *View) Seq() int64 { return v.seq }

// Close ends the snapshot. A second call does nothing.
func (v *View) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn == nil {
		return nil
	}
	var err error
	if !v.conn.raw.AutoCommit() {
		_, _, err = v.conn.exec("ROLLBACK")
	}
	v.store.gate.leave(v)
	v.store.readers <- v.conn
	v.conn = nil
	return err
}

func (v *View) query(sql string, args []any, each func(row) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn == nil {
		return errors.New("the snapshot is closed")
	}
	return v.conn.query(v.ctx, sql, args, each)
}

// Columns that make a record, in the order that the decoders read.
const (
	memoryColumns = `m.id, c.agent, c.project, c.channel, m.content, m.message_id, m.version, m.superseded_by,
		m.source_type, m.source_id, m.source_name, m.metadata, m.time, m.time_offset, m.created, m.created_offset,
		m.updated, m.updated_offset, m.locked, n.count, n.last, n.last_offset, m.digest`
	memoryTables   = `memory m JOIN cell c ON c.id = m.cell LEFT JOIN recall_count n ON n.kind = 2 AND n.parent = m.id`
	episodeColumns = `m.id, c.agent, c.project, c.channel, m.summary, m.keywords, m.resolved, m.start, m.start_offset,
		m.finish, m.finish_offset, m.created, m.created_offset, m.updated, m.updated_offset, m.locked, n.count, n.last, n.last_offset, m.digest`
	episodeTables = `episode m JOIN cell c ON c.id = m.cell LEFT JOIN recall_count n ON n.kind = 1 AND n.parent = m.id`
)

func timeAt(r row, i int) memory.Time {
	if r.null(i) {
		return memory.Time{}
	}
	return memory.Time{Milli: r.int(i), Offset: int16(r.int(i + 1)), Known: true}
}

func decodeMemory(r row) memory.Record {
	rec := memory.Record{
		Ref:       memory.Ref{Kind: memory.KindMemory, ID: r.int(0)},
		Cell:      memory.Cell{Agent: r.text(1), Project: r.text(2), Channel: r.text(3)},
		Content:   r.text(4),
		MessageID: r.text(5),
		Version:   int(r.int(6)),
		Source:    memory.Source{Type: r.text(8), ID: r.text(9), Name: r.text(10)},
		Time:      timeAt(r, 12),
		Created:   timeAt(r, 14),
		Updated:   timeAt(r, 16),
		Locked:    r.int(18) != 0,

		RecallCount:  r.int(19),
		LastRecalled: timeAt(r, 20),
	}
	if !r.null(7) {
		rec.SupersededBy = memory.Ref{Kind: memory.KindMemory, ID: r.int(7)}
	}
	if !r.null(11) {
		rec.Metadata = json.RawMessage(r.text(11))
	}
	return rec
}

func decodeEpisode(r row) memory.Record {
	return memory.Record{
		Ref:      memory.Ref{Kind: memory.KindEpisode, ID: r.int(0)},
		Cell:     memory.Cell{Agent: r.text(1), Project: r.text(2), Channel: r.text(3)},
		Content:  r.text(4),
		Version:  1,
		Keywords: splitKeywords(r.text(5)),
		Resolved: r.int(6) != 0,
		Time:     timeAt(r, 7),
		End:      timeAt(r, 9),
		Created:  timeAt(r, 11),
		Updated:  timeAt(r, 13),
		Locked:   r.int(15) != 0,

		RecallCount:  r.int(16),
		LastRecalled: timeAt(r, 17),
	}
}
