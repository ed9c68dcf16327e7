package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"recalld/memory"
)

// maxNesting is deeper than any grants file.
const maxNesting = 8

// node is one value of a file, with the place where it stands: what goes wrong
// later can name the line.
type node struct {
	line    int
	path    string // such as clients[0].agents
	kind    string // object, list, text, other
	text    string
	members []member // in file order, each key once
	items   []node
}

type member struct {
	key   string
	line  int
	value node
}

// parseTree reads one JSON value. Unlike encoding/json it refuses a key given
// twice, naming both places, and texts that it would have to mend.
func parseTree(file string, raw []byte) (node, error) {
	p := &treeParser{file: file, raw: raw, decoder: json.NewDecoder(bytes.NewReader(raw))}
	if !utf8.Valid(raw) {
		return node{}, p.refuse("", 0, "is not valid UTF-8", "", "save it as UTF-8")
	}
	p.decoder.UseNumber()
	root, err := p.value("", 0)
	if err != nil {
		return node{}, err
	}
	if _, err := p.decoder.Token(); !errors.Is(err, io.EOF) {
		return node{}, p.refuse("", p.line(), "goes on after its end", "one JSON object", "remove what follows it")
	}
	return root, nil
}

type treeParser struct {
	file    string
	raw     []byte
	decoder *json.Decoder
}

// line is where the token that was read last ends, from 1.
func (p *treeParser) line() int {
	return 1 + bytes.Count(p.raw[:p.decoder.InputOffset()], []byte{'\n'})
}

func (p *treeParser) refuse(path string, line int, problem, limit, next string) error {
	field := p.file
	if line > 0 {
		field += " line " + strconv.Itoa(line)
	}
	if path != "" {
		field += ", " + path
	}
	return &memory.FieldError{Field: field, Problem: problem, Limit: limit, Next: next}
}

func (p *treeParser) token() (json.Token, error) {
	t, err := p.decoder.Token()
	if err != nil {
		return nil, p.refuse("", p.line(), "is not JSON", "one JSON object", "check quotes, commas and brackets")
	}
	if s, ok := t.(string); ok && (strings.ContainsRune(s, utf8.RuneError) || strings.ContainsRune(s, 0)) {
		return nil, p.refuse("", p.line(), "has a text with NUL or a character that is none", "whole characters", "write the characters themselves as UTF-8")
	}
	return t, nil
}

func (p *treeParser) value(path string, depth int) (node, error) {
	t, err := p.token()
	if err != nil {
		return node{}, err
	}
	n := node{line: p.line(), path: path, kind: "other"}
	if depth == maxNesting {
		return node{}, p.refuse(path, n.line, "nests too deep", strconv.Itoa(maxNesting)+" levels", "flatten it")
	}
	switch t := t.(type) {
	case string:
		n.kind, n.text = "text", t
	case json.Delim:
		if t == '{' {
			n.kind = "object"
			err = p.members(&n, depth)
		} else {
			n.kind = "list"
			err = p.items(&n, depth)
		}
	}
	return n, err
}

func (p *treeParser) members(n *node, depth int) error {
	seen := map[string]int{}
	for p.decoder.More() {
		t, err := p.token()
		if err != nil {
			return err
		}
		key, _ := t.(string) // the decoder refuses other keys
		m := member{key: key, line: p.line()}
		path := strings.TrimPrefix(n.path+"."+key, ".")
		if first := seen[key]; first > 0 {
			return p.refuse(path, m.line, fmt.Sprintf("is given twice, first on line %d", first), "one value for each key", "keep one of them")
		}
		seen[key] = m.line
		if m.value, err = p.value(path, depth+1); err != nil {
			return err
		}
		n.members = append(n.members, m)
	}
	_, err := p.token()
	return err
}

func (p *treeParser) items(n *node, depth int) error {
	for p.decoder.More() {
		item, err := p.value(fmt.Sprintf("%s[%d]", n.path, len(n.items)), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := p.token()
	return err
}
