package sqlite

import (
	"context"
	"fmt"
	"unicode/utf8"

	"recalld/memory"
)

// PutProfile sets the profile text of one user of an agent and returns it. It was
// updated now, unless Updated says when.
func (s *Store) PutProfile(ctx context.Context, p memory.Profile) (memory.Profile, error) {
	if err := (memory.Scope{Agent: p.Agent}).Check(); err != nil {
		return memory.Profile{}, err
	}
	if err := memory.CheckName("user_id", p.UserID); err != nil {
		return memory.Profile{}, err
	}
	if err := memory.CheckContent("content", p.Content, memory.MaxProfile); err != nil {
		return memory.Profile{}, err
	}
	err := s.submit(&job{ctx: ctx, erase: true, run: func(t *tx) error {
		return t.item(func() error {
			if p.Updated.IsZero() {
				p.Updated = t.w.store.stamp()
			}
			_, _, err := t.exec(`INSERT INTO profile (agent, user_id, content, updated, updated_offset) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (agent, user_id) DO UPDATE SET content = excluded.content, updated = excluded.updated, updated_offset = excluded.updated_offset`,
				p.Agent, p.UserID, p.Content, p.Updated.Milli, p.Updated.Offset)
			if err != nil {
				return err
			}
			r, err := t.first(context.Background(), "SELECT id FROM profile WHERE agent = ? AND user_id = ?", p.Agent, p.UserID)
			if err != nil {
				return err
			}
			p.ID = r.int(0)
			return nil
		})
	}})
	if err != nil {
		return memory.Profile{}, fmt.Errorf("store the profile: %w", err)
	}
	return p, nil
}

// DeleteProfile removes a profile; found is false when there was none.
func (s *Store) DeleteProfile(ctx context.Context, agent, userID string) (found bool, err error) {
	err = s.submit(&job{ctx: ctx, erase: true, run: func(t *tx) error {
		return t.item(func() error {
			n, _, err := t.exec("DELETE FROM profile WHERE agent = ? AND user_id = ?", agent, userID)
			found = n > 0
			return err
		})
	}})
	if err != nil {
		return false, fmt.Errorf("delete the profile: %w", err)
	}
	return found, nil
}

// Profiles returns up to n profiles of an agent, newest first; a nil userID
// means every user's (RR-447). One that is no UTF-8 is left out, and is in
// [View.DamagedProfiles].
func (v *View) Profiles(agent string, userID *string, n int) ([]memory.Profile, error) {
	sql, args := "SELECT id, agent, user_id, content, updated, updated_offset FROM profile WHERE agent = ?", []any{agent}
	if userID != nil {
		sql += " AND user_id = ?"
		args = append(args, *userID)
	}
	var profiles []memory.Profile
	var damaged []int64
	err := v.query(sql+" ORDER BY updated DESC, id DESC LIMIT ?", append(args, n), func(r row) error {
		p := memory.Profile{ID: r.int(0), Agent: r.text(1), UserID: r.text(2), Content: r.text(3), Updated: timeAt(r, 4)}
		if utf8.ValidString(p.Content) && utf8.ValidString(p.UserID) {
			profiles = append(profiles, p)
		} else {
			damaged = append(damaged, p.ID)
		}
		return nil
	})
	v.leaveProfilesOut(damaged)
	return profiles, err
}
