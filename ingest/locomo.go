package ingest

import (
	"fmt"

	"recalld/memory"
)

// Turn is a line of LoCoMo's turns.jsonl (Maharana et al. 2024,
// arXiv:2402.17753), and of the Temporal Memory Dataset's, which numbers its
// turns besides.
type Turn struct {
	Conversation string `json:"conversation"`
	Session      int    `json:"session"`
	DiaID        string `json:"dia_id"`
	N            int    `json:"n"`
	Speaker      string `json:"speaker"`
	Time         string `json:"time"`
	Text         string `json:"text"`
}

// Item makes the record of a turn: a project per conversation, the session as
// source, "speaker: text" as content.
func (t Turn) Item() Item {
	return Item{
		Type:      TypeMemory,
		Project:   t.Conversation,
		Content:   t.Speaker + ": " + t.Text,
		MessageID: t.DiaID,
		Time:      t.Time,
		Source:    memory.Source{Type: "chat", ID: fmt.Sprintf("%s/session-%d", t.Conversation, t.Session), Name: t.Speaker},
	}
}

func decodeTurn(line []byte) (Item, error) {
	var t Turn
	if err := decodeStrict(line, &t); err != nil {
		return Item{}, err
	}
	switch {
	case t.Conversation == "":
		return Item{}, &memory.FieldError{Field: "conversation", Problem: "is empty", Limit: "the name of a conversation", Next: "give the file turns.jsonl of the dataset as it is"}
	case t.DiaID == "":
		return Item{}, &memory.FieldError{Field: "dia_id", Problem: "is empty", Limit: "the turn's id", Next: "give the file turns.jsonl of the dataset as it is"}
	case t.Text == "":
		return Item{}, &memory.FieldError{Field: "text", Problem: "is empty", Limit: "what was said", Next: "remove the line"}
	}
	return t.Item(), nil
}
