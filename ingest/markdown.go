package ingest

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"recalld/memory"
)

// openMarkdown reads a folder of Markdown files, or one file.
func openMarkdown(path string) (*Reader, error) {
	s, err := newFolder(path, isMarkdown, func(f file) (source, error) {
		return &whole{file: f, read: func(text []byte) []entry { return markdown(f.name, text) }}, nil
	})
	if err != nil {
		return nil, err
	}
	return &Reader{source: s}, nil
}

// markdown makes the records of one file: one for each heading that has text of
// its own, and one for what stands before the first. The file is the source, the
// headings down to the record's are its name; a heading that comes with another
// text later is a newer version of the same record. The front matter's date is
// the time of all.
func markdown(name string, text []byte) []entry {
	if !utf8.Valid(text) {
		return []entry{{line: 1, where: name, err: errors.New("is not valid UTF-8 (limit: UTF-8); convert the file")}}
	}
	all := strings.Split(strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n"), "\n")
	front, first := frontMatter(all)
	title := strings.TrimSuffix(path.Base(name), path.Ext(name))
	if front["title"] != "" {
		title = front["title"]
	}
	var when string
	for _, key := range []string{"date", "created", "updated"} {
		if t, ok := readTime(front[key]); ok && t != "" {
			when = t
			break
		}
	}
	var entries []entry
	times := map[string]int{} // how often a path of headings has come
	for _, s := range sections(all, first, title) {
		if strings.TrimSpace(s.body) == "" && s.parent {
			continue
		}
		at := strings.Join(s.headings, " > ")
		times[at]++
		id := name + "#" + at
		if n := times[at]; n > 1 {
			id = fmt.Sprintf("%s (%d)", id, n)
		}
		id, _ = memory.Prefix(id, memory.MaxMessageID-len("#part-99999"))
		content := at
		if body := strings.Trim(s.body, "\n"); strings.TrimSpace(body) != "" {
			content += "\n\n" + body
		}
		for _, item := range split(Item{
			Type: TypeMemory, Content: content, MessageID: id, OnConflict: "version", Time: when,
			Source: memory.Source{Type: FormatMarkdown, ID: name, Name: at},
		}) {
			entries = append(entries, entry{item: item, line: s.line, where: name})
		}
	}
	return entries
}

// section is the text below one heading.
type section struct {
	headings []string // from the file's title or the first level down
	line     int      // of the heading, from 1
	body     string
	parent   bool // deeper headings follow
}

// sections divides a file's lines from first on. A line that looks like a
// heading inside a fenced block is none.
func sections(all []string, first int, title string) []section {
	type open struct {
		level int
		text  string
	}
	var found []section
	var path []open
	current := section{headings: []string{title}, line: first + 1}
	var body []string
	level, fence := 0, ""
	finish := func() {
		current.body = strings.Join(body, "\n")
		if level > 0 || strings.TrimSpace(current.body) != "" {
			found = append(found, current)
		}
		body = nil
	}
	for i := first; i < len(all); i++ {
		line := all[i]
		if mark := fenceOf(line); mark != "" && (fence == "" || strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark) {
			if fence == "" {
				fence = mark
			} else {
				fence = ""
			}
		}
		depth, text, used := heading(all, i)
		if fence != "" || depth == 0 {
			body = append(body, line)
			continue
		}
		current.parent = depth > level && level > 0
		finish()
		for len(path) > 0 && path[len(path)-1].level >= depth {
			path = path[:len(path)-1]
		}
		path = append(path, open{depth, text})
		current, level = section{line: i + 1}, depth
		for _, o := range path {
			current.headings = append(current.headings, o.text)
		}
		i += used - 1
	}
	current.parent = false
	finish()
	return found
}

// fenceOf returns the marks that open or close a fenced block, "" for none.
func fenceOf(line string) string {
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 {
		return ""
	}
	for _, mark := range []string{"`", "~"} {
		if n := len(trimmed) - len(strings.TrimLeft(trimmed, mark)); n >= 3 {
			return strings.Repeat(mark, n)
		}
	}
	return ""
}

// heading returns the level and text of the heading that begins at a line, and
// how many lines it takes; level 0 for none.
func heading(all []string, i int) (level int, text string, used int) {
	line := all[i]
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 {
		return 0, "", 0
	}
	n := len(trimmed) - len(strings.TrimLeft(trimmed, "#"))
	if rest := trimmed[n:]; n >= 1 && n <= 6 && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
		text = strings.TrimSpace(rest)
		if closed := strings.TrimRight(text, "#"); closed == "" || strings.HasSuffix(closed, " ") {
			text = strings.TrimSpace(closed)
		}
		return n, text, 1
	}
	if i+1 == len(all) || strings.TrimSpace(line) == "" || i > 0 && strings.TrimSpace(all[i-1]) != "" || strings.ContainsAny(trimmed[:1], "-*+>|`~") {
		return 0, "", 0
	}
	switch under := strings.TrimRight(all[i+1], " "); {
	case len(under) >= 2 && strings.Trim(under, "=") == "":
		return 1, strings.TrimSpace(line), 2
	case len(under) >= 2 && strings.Trim(under, "-") == "":
		return 2, strings.TrimSpace(line), 2
	}
	return 0, "", 0
}

// frontMatter reads the plain "key: value" lines between the two --- that a file
// begins with, and returns the line after them.
func frontMatter(all []string) (values map[string]string, first int) {
	if len(all) == 0 || strings.TrimRight(all[0], " ") != "---" {
		return nil, 0
	}
	values = map[string]string{}
	for i, line := range all[1:] {
		if mark := strings.TrimRight(line, " "); mark == "---" || mark == "..." {
			return values, i + 2
		}
		key, value, ok := strings.Cut(line, ":")
		if ok && key == strings.TrimLeft(key, " \t-") {
			values[strings.ToLower(strings.TrimSpace(key))] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return nil, 0
}
