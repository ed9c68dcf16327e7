package sqlite

import (
	"context"
	"strings"

	"recalld/memory"
)

// CellStats is one cell with the counts that triggers keep (DECISIONS 8).
type CellStats struct {
	ID       int64
	Cell     memory.Cell
	Memories int64
	Episodes int64
	// Embedded counts the records with a vector, by model.
	Embedded map[int64]int64
	// MinTime and MaxTime bound the times of memories and the starts of episodes,
	// in UTC milliseconds; Dated is false when no record has one.
	MinTime, MaxTime int64
	Dated            bool
	// NewestEpisode is when the newest episode was stored, in UTC milliseconds,
	// 0 without episodes (RR-412).
	NewestEpisode int64
}

// Add folds the counts and bounds of another cell into s.
func (s *CellStats) Add(o CellStats) {
	s.Memories += o.Memories
	s.Episodes += o.Episodes
	for model, n := range o.Embedded {
		if s.Embedded == nil {
			s.Embedded = make(map[int64]int64)
		}
		s.Embedded[model] += n
	}
	if o.Dated {
		if !s.Dated || o.MinTime < s.MinTime {
			s.MinTime = o.MinTime
		}
		if !s.Dated || o.MaxTime > s.MaxTime {
			s.MaxTime = o.MaxTime
		}
		s.Dated = true
	}
	s.NewestEpisode = max(s.NewestEpisode, o.NewestEpisode)
}

// cellSQL selects what [decodeCell] reads.
const cellSQL = `SELECT id, agent, project, channel, memories, episodes, min_time, max_time, newest_episode
	FROM cell JOIN cell_stats ON cell_stats.cell = cell.id AND model = 0`

func decodeCell(r row) CellStats {
	return CellStats{
		ID: r.int(0), Cell: memory.Cell{Agent: r.text(1), Project: r.text(2), Channel: r.text(3)},
		Memories: r.int(4), Episodes: r.int(5), MinTime: r.int(6), MaxTime: r.int(7), Dated: !r.null(6), NewestEpisode: r.int(8),
	}
}

// Cells returns the cells of a scope that hold at least one record, by agent,
// project and channel.
func (v *View) Cells(scope memory.Scope) ([]CellStats, error) {
	where, args := axes(scope)
	var cells []CellStats
	index := make(map[int64]int)
	err := v.query(cellSQL+" WHERE "+where+` AND memories + episodes > 0 ORDER BY agent, project, channel`, args, func(r row) error {
		index[r.int(0)] = len(cells)
		cells = append(cells, decodeCell(r))
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = v.query(`SELECT id, model, memories + episodes FROM cell JOIN cell_stats ON cell_stats.cell = cell.id AND model > 0
		WHERE `+where+` AND memories + episodes > 0 ORDER BY id, model`, args, func(r row) error {
		if i, ok := index[r.int(0)]; ok {
			if cells[i].Embedded == nil {
				cells[i].Embedded = make(map[int64]int64)
			}
			cells[i].Embedded[r.int(1)] = r.int(2)
		}
		return nil
	})
	return cells, err
}

// Stats returns the sum over the cells of a scope; ID and Cell are zero.
func (v *View) Stats(scope memory.Scope) (CellStats, error) {
	cells, err := v.Cells(scope)
	var sum CellStats
	for _, c := range cells {
		sum.Add(c)
	}
	return sum, err
}

// CellsByID returns the names of cells, whatever their agent, in the order of
// ids; unknown ids are absent. It serves what works on the change log, never a
// request.
func (v *View) CellsByID(ids []int64) ([]CellStats, error) {
	var cells []CellStats
	for _, id := range ids {
		err := v.query(cellSQL+" WHERE id = ?", []any{id}, func(r row) error {
			cells = append(cells, decodeCell(r))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// AllCells calls each for every cell of every agent, by agent, project and
// channel. It serves index builds, never a request.
func (v *View) AllCells(each func(CellStats) error) error {
	return v.query(cellSQL+" ORDER BY agent, project, channel", nil, func(r row) error {
		return each(decodeCell(r))
	})
}

// EmbeddedByModel counts the records with a vector of every model, and under 0
// all records, over all agents. It serves operators, never a request.
func (v *View) EmbeddedByModel() (map[int64]int64, error) {
	counts := make(map[int64]int64)
	err := v.query("SELECT model, sum(memories + episodes) FROM cell_stats GROUP BY model", nil, func(r row) error {
		counts[r.int(0)] = r.int(1)
		return nil
	})
	return counts, err
}

// cellIDs returns the ids of a scope's cells, ascending.
func (v *View) cellIDs(scope memory.Scope) ([]int64, error) {
	where, args := axes(scope)
	var ids []int64
	err := v.query("SELECT id FROM cell WHERE "+where+" ORDER BY id", args, func(r row) error {
		ids = append(ids, r.int(0))
		return nil
	})
	return ids, err
}

// intern returns the cell's id and pool, adding it to the file when it is new.
func (t *tx) intern(c memory.Cell) (interned, error) {
	if in, ok := t.w.cells[c]; ok {
		return in, nil
	}
	ctx := context.Background()
	r, err := t.first(ctx, "SELECT id, pool FROM cell WHERE agent = ? AND project = ? AND channel = ?", c.Agent, c.Project, c.Channel)
	if err != nil {
		return interned{}, err
	}
	if r == nil {
		if r, err = t.addCell(ctx, c); err != nil {
			return interned{}, err
		}
	}
	if len(t.w.cells) >= maxInterned {
		clear(t.w.cells)
	}
	// The map outlives the request, and the request's strings may be slices of a
	// large body.
	key := memory.Cell{Agent: strings.Clone(c.Agent), Project: strings.Clone(c.Project), Channel: strings.Clone(c.Channel)}
	in := interned{id: r.int(0), pool: r.int(1)}
	t.w.cells[key] = in
	return in, nil
}

func (t *tx) addCell(ctx context.Context, c memory.Cell) (row, error) {
	sibling, err := t.first(ctx, "SELECT pool FROM cell WHERE agent = ? AND project = ? LIMIT 1", c.Agent, c.Project)
	if err != nil {
		return nil, err
	}
	var pool int64
	if sibling != nil {
		pool = sibling.int(0)
	}
	_, id, err := t.exec("INSERT INTO cell (agent, project, channel, pool) VALUES (?, ?, ?, ?)", c.Agent, c.Project, c.Channel, pool)
	if err != nil {
		return nil, err
	}
	if sibling == nil {
		pool = id
		if _, _, err := t.exec("UPDATE cell SET pool = id WHERE id = ?", id); err != nil {
			return nil, err
		}
	}
	return row{id, pool}, nil
}
