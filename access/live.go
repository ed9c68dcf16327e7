package access

import "sync/atomic"

// Live are grants that can be read again while they are in use.
type Live struct {
	path    string
	lookup  func(string) (string, bool)
	current atomic.Pointer[Grants]
}

// Open reads a file of grants as [ReadFile] does and keeps them.
func Open(path string, lookup func(name string) (string, bool)) (*Live, []string, error) {
	l := &Live{path: path, lookup: lookup}
	warnings, err := l.Reload()
	if err != nil {
		return nil, nil, err
	}
	return l, warnings, nil
}

// Reload reads the file again. When it has a mistake, the grants stay as they
// were and the error says which.
func (l *Live) Reload() (warnings []string, err error) {
	grants, warnings, err := ReadFile(l.path, l.lookup)
	if err != nil {
		return nil, err
	}
	l.current.Store(grants)
	return warnings, nil
}

// Grants are those in force.
func (l *Live) Grants() *Grants { return l.current.Load() }
