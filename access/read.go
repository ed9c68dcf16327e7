package access

import (
	"fmt"
	"io"
	"os"
	"strings"

	"recalld/memory"
)

// Limits of a grants file.
const (
	maxFile    = 1 << 20 // bytes
	maxClients = 1_000
	maxEntries = 10_000 // agents of one client
)

// ReadFile reads the grants of a file:
//
//	{"clients": [
//	  {"name": "ci", "token": "${CI_TOKEN}", "agents": {"mia": "read-write", "*": "read"}}
//	]}
//
// A token is the text itself, or ${NAME}, which lookup answers as [os.LookupEnv]
// does. A warning is something that works and should not stay so. Any mistake is
// a *[memory.FieldError] that names its place, and then nothing is granted.
func ReadFile(path string, lookup func(name string) (string, bool)) (grants *Grants, warnings []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read grants: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("read grants: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &memory.FieldError{Field: path, Problem: "is not a regular file", Next: "name the file of grants"}
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, nil, &memory.FieldError{Field: path, Problem: fmt.Sprintf("can be changed by others (%s)", info.Mode().Perm()), Limit: "written by its owner alone", Next: "run `chmod go-w` on it"}
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read grants: %w", err)
	}
	if len(raw) > maxFile {
		return nil, nil, &memory.FieldError{Field: path, Problem: "is too large", Limit: fmt.Sprintf("%d bytes", maxFile), Next: "name the file of grants"}
	}
	grants, literal, err := parse(path, raw, lookup)
	if err != nil {
		return nil, nil, err
	}
	if literal && info.Mode().Perm()&0o044 != 0 {
		warnings = append(warnings, fmt.Sprintf("%s holds tokens and can be read by others (%s); run `chmod 600` on it, or write tokens as ${NAME}", path, info.Mode().Perm()))
	}
	return grants, warnings, nil
}

// parse reads the text of a grants file; literal says that a token stands in it.
func parse(file string, raw []byte, lookup func(string) (string, bool)) (g *Grants, literal bool, err error) {
	root, err := parseTree(file, raw)
	if err != nil {
		return nil, false, err
	}
	r := reader{file: file, lookup: lookup, names: map[string]node{}, tokens: map[digest]string{}, g: &Grants{}}
	top, err := r.object(root, "clients")
	if err != nil {
		return nil, false, err
	}
	clients := top["clients"]
	if clients.kind != "list" || len(clients.items) == 0 || len(clients.items) > maxClients {
		return nil, false, r.refuse(clients, "is not a list of clients", fmt.Sprintf("1 to %d clients", maxClients), "name each client with its token and agents")
	}
	for _, c := range clients.items {
		if err := r.client(c); err != nil {
			return nil, false, err
		}
	}
	return r.g, r.literal, nil
}

type reader struct {
	file    string
	lookup  func(string) (string, bool)
	names   map[string]node   // the client of each name
	tokens  map[digest]string // the path of each token
	literal bool
	g       *Grants
}

func (r *reader) place(n node) string {
	return strings.TrimSuffix(fmt.Sprintf("%s line %d, %s", r.file, n.line, n.path), ", ")
}

func (r *reader) refuse(n node, problem, limit, next string) error {
	return &memory.FieldError{Field: r.place(n), Problem: problem, Limit: limit, Next: next}
}

// object returns the members of an object that has exactly the keys.
func (r *reader) object(n node, keys ...string) (map[string]node, error) {
	limit := "the keys " + strings.Join(keys, ", ")
	if n.kind != "object" {
		return nil, r.refuse(n, "is not an object", limit, "write {…}")
	}
	found := map[string]node{}
	for _, m := range n.members {
		found[m.key] = m.value
	}
	for _, key := range keys {
		if _, ok := found[key]; !ok {
			return nil, r.refuse(n, "has no "+key, limit, "add it")
		}
	}
	for _, m := range n.members {
		known := false
		for _, key := range keys {
			known = known || m.key == key
		}
		if !known {
			return nil, r.refuse(m.value, "is an unknown key", limit, "remove it or correct its name")
		}
	}
	return found, nil
}

func (r *reader) client(n node) error {
	fields, err := r.object(n, "name", "token", "agents")
	if err != nil {
		return err
	}
	name := fields["name"]
	if err := memory.CheckName(r.place(name), name.text); err != nil {
		return err
	}
	if name.kind != "text" || name.text == "" {
		return r.refuse(name, "is not a name", fmt.Sprintf("1 to %d code points", memory.MaxName), "name the client")
	}
	if first, ok := r.names[name.text]; ok {
		return r.refuse(name, fmt.Sprintf("is the same as %s on line %d", first.path, first.line), "one entry for each client", "keep one of them")
	}
	r.names[name.text] = name
	token, err := r.token(fields["token"])
	if err != nil {
		return err
	}
	agents, err := r.agents(fields["agents"])
	if err != nil {
		return err
	}
	r.g.clients = append(r.g.clients, &Client{name.text, agents})
	r.g.digests = append(r.g.digests, token)
	return nil
}

// token returns the digest of a token that stands there or in the environment.
func (r *reader) token(n node) (digest, error) {
	text, field := n.text, r.place(n)
	if n.kind != "text" {
		return digest{}, r.refuse(n, "is not a text", "the token, or ${NAME}", "write it in quotes")
	}
	if strings.Contains(text, "$") {
		name, closed := strings.CutSuffix(strings.TrimPrefix(text, "${"), "}")
		if !closed || !strings.HasPrefix(text, "${") || !isVariable(name) {
			return digest{}, r.refuse(n, "is neither a token nor a variable", "${NAME} and nothing beside it", "write the variable alone")
		}
		value, ok := r.lookup(name)
		if !ok {
			return digest{}, r.refuse(n, "names the variable "+name+", which is not set", "a variable of the server's environment", "set it before the server starts")
		}
		text, field = value, field+" (variable "+name+")"
	} else {
		r.literal = true
	}
	secret, err := NewSecret(field, text)
	if err != nil {
		return digest{}, err
	}
	d := digestOf(secret.text)
	if first, ok := r.tokens[d]; ok {
		return digest{}, r.refuse(n, "is the same as "+first, "one token for each client", "give each client its own")
	}
	r.tokens[d] = fmt.Sprintf("%s on line %d", n.path, n.line)
	return d, nil
}

func isVariable(name string) bool {
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func (r *reader) agents(n node) (map[string]Level, error) {
	if n.kind != "object" || len(n.members) > maxEntries {
		return nil, r.refuse(n, "is not an object of agents", fmt.Sprintf(`up to %d of "agent": "level"`, maxEntries), `write {"mia": "read-write"}`)
	}
	agents := map[string]Level{}
	for _, m := range n.members {
		if err := memory.CheckName(r.place(m.value), m.key); err != nil {
			return nil, err
		}
		if m.key == "" {
			return nil, r.refuse(m.value, "names no agent", `an agent, or "*"`, "name it")
		}
		level, err := parseLevel(r.place(m.value), m.value.text)
		if err != nil {
			return nil, err
		}
		agents[m.key] = level
	}
	return agents, nil
}
