package sqlite

import "encoding/json"

// GlobalMessages returns which of the message ids the agent's global pool holds:
// a plain store of one of them into a project is a duplicate (RR-444).
func (v *View) GlobalMessages(agent string, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	err = v.query(`SELECT message_id FROM memory INDEXED BY memory_message
		WHERE pool = (SELECT pool FROM cell WHERE agent = ? AND project = '' LIMIT 1)
		AND message_id IN (SELECT value FROM json_each(?)) AND message_id <> ''`, []any{agent, string(list)}, func(r row) error {
		known[r.text(0)] = true
		return nil
	})
	return known, err
}
