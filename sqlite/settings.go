package sqlite

import (
	"context"
	"fmt"
)

// SetSetting stores a setting; an empty value removes it.
func (s *Store) SetSetting(ctx context.Context, name, value string) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() (err error) {
			if value == "" {
				_, _, err = t.exec("DELETE FROM setting WHERE name = ?", name)
			} else {
				_, _, err = t.exec("INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", name, value)
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("store setting %s: %w", name, err)
	}
	return nil
}

// Settings returns the stored settings by name.
func (v *View) Settings() (map[string]string, error) {
	settings := make(map[string]string)
	err := v.query("SELECT name, value FROM setting", nil, func(r row) error {
		settings[r.text(0)] = r.text(1)
		return nil
	})
	return settings, err
}

// Settings returns the stored settings by name.
func (s *Store) Settings(ctx context.Context) (map[string]string, error) {
	return read(ctx, s, (*View).Settings)
}
