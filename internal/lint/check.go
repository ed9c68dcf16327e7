package lint

// Check applies every rule to a tree and returns what breaks one, in path and
// line order. The error names the packages that do not build; the rules that
// need types were not applied to those.
func Check(t *Tree) ([]Finding, error) {
	loaded, err := t.Types()
	var found []Finding
	for _, rule := range []func(*Tree) []Finding{Imports, SQL, Rooms, Docs, Words, Skips, Ledgers, Dependencies} {
		found = append(found, rule(t)...)
	}
	found = append(found, Floats(t, loaded)...)
	found = append(found, Sources(t, loaded)...)
	found = append(found, State(t, loaded)...)
	return sorted(found), err
}
