package lint

// Check applies every rule to a tree and returns what breaks one, in path and
// line order. It fails when a package does not build, because then some rules
// cannot be applied.
func Check(t *Tree) ([]Finding, error) {
	loaded, err := t.Types()
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, rule := range []func(*Tree) []Finding{Imports, SQL, Rooms, Docs, Words, Skips, Ledgers} {
		found = append(found, rule(t)...)
	}
	found = append(found, Floats(t, loaded)...)
	found = append(found, Sources(t, loaded)...)
	found = append(found, State(t, loaded)...)
	return sorted(found), nil
}
