package shards

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"recalld/layout"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/sqlite"
)

const (
	catalogName    = "CATALOG"
	catalogVersion = 1
)

// catalog is one generation of matrices: one line of JSON and one line with its
// CRC32C. One in use is never changed; see [catalog.clone].
type catalog struct {
	Version int    `json:"version"`
	Format  int    `json:"format"` // layout.Version
	Policy  int    `json:"policy"` // sqlite.BlockPolicy
	Lean    bool   `json:"lean"`
	Truth   string `json:"truth"`
	Number  uint64 `json:"number"` // of the generation; the next one has a higher one
	// Sequence is the change up to which the files hold everything, and Lineage
	// that change's own; both are 0 for a store without changes.
	Sequence int64 `json:"sequence"`
	Lineage  int64 `json:"lineage"`
	// Seen is the newest change of a snapshot that rows were read in, and SeenLineage
	// that change's own: a store that does not have it never had those rows.
	Seen        int64          `json:"seen"`
	SeenLineage int64          `json:"seen_lineage"`
	Missing     keySpans       `json:"missing"` // agents that are not built
	Models      []codedModel   `json:"models"`
	Segments    []segmentEntry `json:"segments"`
	Values      []valuesEntry  `json:"values"`
	// NextFile is the number of the next value file, NextRun that of the next run.
	NextFile uint32 `json:"next_file"`
	NextRun  uint64 `json:"next_run"`
	// First and Again count bytes of segments that were written for rows that came,
	// and for rows that files had already.
	First int64 `json:"first"`
	Again int64 `json:"again"`
}

// codedModel is a model whose rows files can have.
type codedModel struct {
	ID       int64  `json:"id"`
	Dims     int    `json:"dims"`
	Identity string `json:"identity"` // SHA-256, in hex
}

// segmentEntry names one segment. The segments of one run stand in the order of
// their rows and have no record in common.
type segmentEntry struct {
	Name  string      `json:"name"`
	Model int64       `json:"model"`
	Kind  layout.Kind `json:"kind"`
	Run   uint64      `json:"run"`
	Bytes int64       `json:"bytes"`
	Rows  int64       `json:"rows"`
	First uint64      `json:"first"` // key of its first agent
	Last  uint64      `json:"last"`
	Files []uint32    `json:"files,omitempty"` // numbers of the value files that rows point at
	Dead  []byte      `json:"dead,omitempty"`  // rows that are gone: a portable roaring bitmap
	Gone  int64       `json:"gone,omitempty"`  // how many
	// Erase says that a deleted or changed text is among the dead rows.
	Erase bool `json:"erase,omitempty"`
}

// valuesEntry names one value file.
type valuesEntry struct {
	Name   string `json:"name"`
	Model  int64  `json:"model"`
	Number uint32 `json:"number"`
	Bytes  int64  `json:"bytes"`
	Slots  int64  `json:"slots"`
	// Loose says that it may have rows to which no live row of a segment points.
	Loose bool `json:"loose,omitempty"`
	// Erase says that a deleted or changed text may be among them.
	Erase bool `json:"erase,omitempty"`
}

// readCatalog reads the current generation. One that is absent, damaged or of
// another kind is errNoManifest: it is built anew.
func readCatalog(dir string, lean bool) (catalog, error) {
	raw, err := os.ReadFile(filepath.Join(dir, catalogName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return catalog{}, errNoManifest
	case errors.Is(err, syscall.EISDIR):
		if err := setAside(dir, catalogName); err != nil {
			return catalog{}, err
		}
		return catalog{}, fmt.Errorf("%w: a folder had its name", errNoManifest)
	case err != nil:
		return catalog{}, err
	}
	line, rest, _ := bytes.Cut(raw, []byte("\n"))
	var k catalog
	switch {
	case string(rest) != checkLine(line):
		return catalog{}, fmt.Errorf("%w: its checksum does not match", errNoManifest)
	case json.Unmarshal(line, &k) != nil:
		return catalog{}, fmt.Errorf("%w: it is not one that this program wrote", errNoManifest)
	case k.Version != catalogVersion || k.Format != layout.Version || k.Policy != sqlite.BlockPolicy:
		return catalog{}, fmt.Errorf("%w: it is of version %d, format %d, policy %d", errNoManifest, k.Version, k.Format, k.Policy)
	case k.Lean != lean:
		return catalog{}, fmt.Errorf("%w: it was made with another setting of lean", errNoManifest)
	}
	return k, nil
}

// write replaces the current generation. It is durable on return.
func (k catalog) write(dir string) error {
	line, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := place(dir, catalogName, append(append(line, '\n'), checkLine(line)...), 0o600); err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	return nil
}

// clone returns a catalog whose lists may be changed.
func (k catalog) clone() catalog {
	k.Missing, k.Models = slices.Clone(k.Missing), slices.Clone(k.Models)
	k.Segments, k.Values = slices.Clone(k.Segments), slices.Clone(k.Values)
	return k
}

// names are the names of all files.
func (k catalog) names() map[string]bool {
	names := make(map[string]bool, len(k.Segments)+len(k.Values))
	for name := range k.sizes() {
		names[name] = true
	}
	return names
}

// sizes are the lengths of all files, by name.
func (k catalog) sizes() map[string]int64 {
	sizes := make(map[string]int64, len(k.Segments)+len(k.Values))
	for _, s := range k.Segments {
		sizes[s.Name] = s.Bytes
	}
	for _, v := range k.Values {
		sizes[v.Name] = v.Bytes
	}
	return sizes
}

func (k catalog) model(id int64) (codedModel, bool) {
	i := slices.IndexFunc(k.Models, func(m codedModel) bool { return m.ID == id })
	if i < 0 {
		return codedModel{}, false
	}
	return k.Models[i], true
}

// source is what the files of a model were made from.
func (k catalog) source(m codedModel) layout.Source {
	s := layout.Source{TruthID: k.Truth, Model: m.ID, Dims: m.Dims}
	_, _ = hex.Decode(s.Identity[:], []byte(m.Identity)) // of a wrong length: no file is of it
	return s
}

// identify makes the entry of a model; ok is false for one whose vectors are too
// wide for a file, or gone.
func identify(m sqlite.Model) (coded codedModel, ok bool) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%d\x00%s", m.ID, m.Backend, m.Name, m.Dims, m.PromptPolicy))
	return codedModel{ID: m.ID, Dims: m.Dims, Identity: hex.EncodeToString(sum[:])}, m.State != sqlite.ModelRetired && m.Dims <= layout.MaxDims
}

// without returns the generation without one file, and without the segments that
// point into it. Their agents are missing then. dropped are the files that nobody
// needs any more besides the one named.
func (k catalog) without(name string) (next catalog, dropped []string) {
	next = k.clone()
	gone := func(s segmentEntry) bool { return s.Name == name }
	if i := slices.IndexFunc(k.Values, func(v valuesEntry) bool { return v.Name == name }); i >= 0 {
		file := k.Values[i]
		next.Values = slices.Delete(next.Values, i, i+1)
		gone = func(s segmentEntry) bool { return s.Model == file.Model && slices.Contains(s.Files, file.Number) }
	}
	for _, s := range k.Segments {
		if !gone(s) {
			continue
		}
		next.Missing = next.Missing.with(keySpan{s.First, s.Last})
		for i, v := range next.Values {
			if v.Model == s.Model && slices.Contains(s.Files, v.Number) {
				next.Values[i].Loose, next.Values[i].Erase = true, v.Erase || s.Erase
			}
		}
		if s.Name != name {
			dropped = append(dropped, s.Name)
		}
	}
	next.Segments = slices.DeleteFunc(next.Segments, gone)
	return next, dropped
}

// request is how the scanner is told of the generation.
func (k catalog) request() *scannerv1.PublishRequest {
	r := &scannerv1.PublishRequest{Generation: k.Number, Sequence: k.Sequence}
	for _, m := range k.Models {
		identity := k.source(m).Identity
		r.Models = append(r.Models, &scannerv1.Model{Number: m.ID, Identity: identity[:], Dims: uint32(m.Dims)})
	}
	for _, s := range k.Segments {
		g := &scannerv1.Segment{Model: s.Model, Name: s.Name, Dead: s.Dead}
		if s.Kind == layout.Int8 {
			r.Records = append(r.Records, g)
		} else {
			r.Segments = append(r.Segments, g)
		}
	}
	for _, v := range k.Values {
		r.Values = append(r.Values, &scannerv1.Values{Model: v.Model, Number: v.Number, Name: v.Name})
	}
	return r
}

// sweepCodes removes what no generation names: files that a killed process had
// begun or not yet published, or that another version left, and the folder of a
// rebuild. It returns the names of the files.
func sweepCodes(dir string, named map[string]bool) (removed []string, err error) {
	if !holdsFiles(dir) {
		return nil, nil
	}
	if err := os.RemoveAll(filepath.Join(dir, renewalFolder)); err != nil {
		return nil, err
	}
	return sweep(dir, named, layout.SegmentSuffix, layout.ValuesSuffix, layout.FloatsSuffix)
}

// sweep removes what the generation in use does not name, with a line in the log.
// c.mu is held.
func (c *Codes) sweep() error {
	removed, err := sweepCodes(c.opts.Folder, c.catalog.names())
	if len(removed) > 0 {
		c.opts.Log.Info("files of codes that no generation names were removed", "folder", c.opts.Folder, "files", len(removed), "first", removed[0])
	}
	return err
}
