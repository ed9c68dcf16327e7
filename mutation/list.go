package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutation is one entry of a list.
type mutation struct {
	list string // base name of its list without extension
	line int    // of its first key, 1 or more
	name string
	row  string
	file string // slash-separated, relative to the root
	pkg  string // "./coordinator"
	test string // regular expression for -run
	old  string
	new  string
}

// id is what reports call a mutation.
func (m mutation) id() string { return m.list + "/" + m.name }

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	rowPattern  = regexp.MustCompile(`^((RR|BR|RT)-[0-9]{3}|DECISIONS [0-9]+)(, ((RR|BR|RT)-[0-9]{3}|DECISIONS [0-9]+))*$`)
	testPattern = regexp.MustCompile(`^(\./[A-Za-z0-9_/.-]+) -run (\S+)$`)
)

var keys = []string{"name", "row", "file", "test", "old", "new"}

// readLists returns the entries of every list in a folder, in order of file name
// and line. The error names file and line.
func readLists(dir string) ([]mutation, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []mutation
	seen := map[string]bool{}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list := strings.TrimSuffix(filepath.Base(name), ".txt")
		entries, err := parseList(list, string(body))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.ToSlash(name), err)
		}
		for _, m := range entries {
			if seen[m.id()] {
				return nil, fmt.Errorf("%s: line %d: name %s stands twice", filepath.ToSlash(name), m.line, m.name)
			}
			seen[m.id()] = true
		}
		all = append(all, entries...)
	}
	return all, nil
}

// parseList reads blocks of "key: value" lines, separated by blank lines. Lines
// that begin with # are comments.
func parseList(list, body string) ([]mutation, error) {
	var all []mutation
	values := map[string]string{}
	first := 0
	flush := func() error {
		if len(values) == 0 {
			return nil
		}
		m, err := newMutation(list, first, values)
		if err != nil {
			return fmt.Errorf("line %d: %w", first, err)
		}
		all = append(all, m)
		values = map[string]string{}
		return nil
	}
	for i, line := range strings.Split(body, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.TrimSpace(line) == "" {
			if err := flush(); err != nil {
				return nil, err
			}
			continue
		}
		key, value, found := strings.Cut(line, ":")
		if !found || !slices.Contains(keys, key) {
			return nil, fmt.Errorf("line %d: want one of %v, a colon and a value", i+1, keys)
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("line %d: %s stands twice in one block; separate blocks with a blank line", i+1, key)
		}
		if len(values) == 0 {
			first = i + 1
		}
		values[key] = strings.TrimPrefix(value, " ")
	}
	return all, flush()
}

func newMutation(list string, line int, values map[string]string) (mutation, error) {
	for _, key := range keys {
		if _, found := values[key]; !found {
			return mutation{}, fmt.Errorf("%s is missing", key)
		}
	}
	test := testPattern.FindStringSubmatch(values["test"])
	switch {
	case !namePattern.MatchString(values["name"]):
		return mutation{}, fmt.Errorf("name %q: want lower-case words joined by hyphens", values["name"])
	case !rowPattern.MatchString(values["row"]):
		return mutation{}, fmt.Errorf("row %q: want RR-071, BR-044, RT-013 or DECISIONS 2, several joined by a comma and a space", values["row"])
	case test == nil:
		return mutation{}, fmt.Errorf("test %q: want ./package -run TestName", values["test"])
	case !filepath.IsLocal(values["file"]) || strings.HasSuffix(values["file"], "_test.go"):
		return mutation{}, fmt.Errorf("file %q: want a path from the root to a file that is not a test", values["file"])
	case values["old"] == "" || values["old"] == values["new"]:
		return mutation{}, fmt.Errorf("old must be there and differ from new")
	}
	return mutation{
		list: list, line: line, name: values["name"], row: values["row"], file: values["file"],
		pkg: test[1], test: test[2], old: values["old"], new: values["new"],
	}, nil
}
