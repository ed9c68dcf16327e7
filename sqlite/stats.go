package sqlite

import (
	"context"
	"os"
	"time"
)

// Stats is the file's own state.
type Stats struct {
	Memories, Episodes, Profiles int64
	Agents, Cells                int64
	FileBytes, WALBytes          int64
	FreePages                    int64
	OldestReader                 time.Duration // age of the oldest open snapshot
	OpenReaders                  int
	ForeignWrites                int64 // times that another program's writes were noticed
	ErasePending                 bool  // deleted bytes are still in the log
	Commits, Writes              int64 // since opening; many writes share a commit
	OldestChange, LastChange     int64
	LastMemory, LastEpisode      int64 // the highest numbers given out so far
}

// ErasePending reports whether deleted bytes are still in the log, because a
// snapshot from before their deletion is open. The writer tries again until they
// are gone (DECISIONS 14).
func (s *Store) ErasePending() bool { return s.writer != nil && s.writer.erasePending.Load() }

// Stats counts the file and its log.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	st, err := read(ctx, s, func(v *View) (st Stats, err error) {
		st.LastChange = v.Seq()
		err = v.query(`SELECT (SELECT coalesce(sum(memories), 0) FROM cell_stats WHERE model = 0), (SELECT coalesce(sum(episodes), 0) FROM cell_stats WHERE model = 0),
			(SELECT count(*) FROM profile), (SELECT count(DISTINCT agent) FROM cell), (SELECT count(*) FROM cell),
			(SELECT coalesce(min(seq), 0) FROM index_changes), (SELECT freelist_count FROM pragma_freelist_count)`, nil, func(r row) error {
			st.Memories, st.Episodes, st.Profiles = r.int(0), r.int(1), r.int(2)
			st.Agents, st.Cells, st.OldestChange, st.FreePages = r.int(3), r.int(4), r.int(5), r.int(6)
			return nil
		})
		if err == nil {
			st.LastMemory, st.LastEpisode, err = v.Marks()
		}
		return st, err
	})
	if err != nil {
		return Stats{}, err
	}
	if info, err := os.Stat(s.path); err == nil {
		st.FileBytes = info.Size()
	}
	if info, err := os.Stat(s.path + "-wal"); err == nil {
		st.WALBytes = info.Size()
	}
	if began, open := s.gate.oldest(); open > 0 {
		st.OldestReader, st.OpenReaders = s.now().Sub(began), open
	}
	if w := s.writer; w != nil {
		st.ForeignWrites, st.ErasePending = w.foreign.Load(), s.ErasePending()
		st.Commits, st.Writes = w.commits.Load(), w.written.Load()
	}
	return st, nil
}
