package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"recalld/embed/static"
	"recalld/ingest"
	"recalld/memory"
)

// locomoChars is from how many code points on a record takes no further session.
const locomoChars = 6_000

// locomoFiles is what is wanted of a folder.
const locomoFiles = "a folder of turns.jsonl and questions.jsonl"

// locomoTexts joins the sessions of each conversation into long records, and
// finds the questions whose one turn of evidence begins behind the first 512
// pieces of its record, the first limit of them.
func locomoTexts(folder string, limit int) ([]reachText, error) {
	turns, err := readTurns(filepath.Join(folder, "turns.jsonl"))
	if err != nil {
		return nil, missing("--path", locomoFiles, err)
	}
	asked, err := readQuestions(filepath.Join(folder, "questions.jsonl"))
	if err != nil {
		return nil, missing("--path", locomoFiles, err)
	}
	texts, places := joinSessions(turns)
	windows, err := firstWindows(texts)
	if err != nil {
		return nil, err
	}
	questions := 0
	for _, q := range asked {
		if len(q.Evidence) != 1 || limit > 0 && questions == limit {
			continue
		}
		at, ok := places[[2]string{q.Conversation, q.Evidence[0]}]
		if !ok || at.span.Start < windows[at.record] {
			continue
		}
		text := &texts[at.record]
		statement, _ := at.span.Slice(text.content)
		text.questions = append(text.questions, reachQuestion{family: "locomo", language: "en", text: q.Question, target: at.span, statement: statement})
		questions++
	}
	return texts, nil
}

// turnPlace is where a turn stands: in which record, and where in it.
type turnPlace struct {
	record int
	span   memory.Span
}

// joinSessions puts the turns of a conversation into records, whole sessions
// each. A turn is a line "speaker: text"; its span is the text.
func joinSessions(turns []ingest.Turn) (texts []reachText, places map[[2]string]turnPlace) {
	places = map[[2]string]turnPlace{}
	var record strings.Builder
	length := 0
	for i, turn := range turns {
		head := turn.Speaker + ": "
		start := length + memory.Len(head)
		end := start + memory.Len(turn.Text)
		places[[2]string{turn.Conversation, turn.DiaID}] = turnPlace{len(texts), memory.Span{Start: start, End: end}}
		record.WriteString(head + turn.Text + "\n")
		length = end + 1
		last := i+1 == len(turns) || turns[i+1].Conversation != turn.Conversation
		if last || length >= locomoChars && turns[i+1].Session != turn.Session {
			texts = append(texts, reachText{content: record.String()})
			record.Reset()
			length = 0
		}
	}
	return texts, places
}

// firstWindows returns how many code points of each record the built-in model's
// window holds.
func firstWindows(texts []reachText) ([]int, error) {
	table, err := static.Load()
	if err != nil {
		return nil, err
	}
	var scratch static.Scratch
	windows := make([]int, len(texts))
	for i, text := range texts {
		_, windows[i] = table.Count(&scratch, text.content)
	}
	return windows, nil
}

func readTurns(path string) (turns []ingest.Turn, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read turns: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	for {
		var turn ingest.Turn
		switch err := d.Decode(&turn); {
		case errors.Is(err, io.EOF):
			return turns, nil
		case err != nil:
			return nil, fmt.Errorf("read turns: number %d: %w", len(turns)+1, err)
		}
		turns = append(turns, turn)
	}
}
