package shards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"recalld/lexical"
)

const (
	manifestName    = "MANIFEST"
	manifestVersion = 1
)

// manifest is one generation: one line of JSON and one line with its CRC32C.
type manifest struct {
	Version  int    `json:"version"`
	Format   int    `json:"format"`   // lexical.FormatVersion
	Analyser int    `json:"analyser"` // lexical.AnalyserVersion
	Truth    string `json:"truth"`
	// Sequence is the change up to which the files hold everything, and Lineage
	// that change's own; both are 0 for a store without changes.
	Sequence int64   `json:"sequence"`
	Lineage  int64   `json:"lineage"`
	Missing  []Span  `json:"missing"` // cells that are not built
	Files    []entry `json:"files"`
}

// entry names one file of a generation.
type entry struct {
	Name  string       `json:"name"` // SHA-256 of the bytes, and the suffix
	Bytes int64        `json:"bytes"`
	Rows  int64        `json:"rows"`
	First lexical.Cell `json:"first"`
	Last  lexical.Cell `json:"last"`
}

// errNoManifest says that there is no generation to go on from.
var errNoManifest = errors.New("no usable manifest")

// readManifest reads the current generation. A manifest that is absent, damaged
// or of another version is errNoManifest: it is built anew.
func readManifest(dir string) (manifest, error) {
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return manifest{}, errNoManifest
	case errors.Is(err, syscall.EISDIR):
		if err := setAside(dir, manifestName); err != nil {
			return manifest{}, err
		}
		return manifest{}, fmt.Errorf("%w: a folder had its name", errNoManifest)
	case err != nil:
		return manifest{}, err
	}
	line, rest, _ := bytes.Cut(raw, []byte("\n"))
	var m manifest
	switch {
	case string(rest) != checkLine(line):
		return manifest{}, fmt.Errorf("%w: its checksum does not match", errNoManifest)
	case json.Unmarshal(line, &m) != nil:
		return manifest{}, fmt.Errorf("%w: it is not one that this program wrote", errNoManifest)
	case m.Version != manifestVersion || m.Format != lexical.FormatVersion || m.Analyser != lexical.AnalyserVersion:
		return manifest{}, fmt.Errorf("%w: it is of version %d, format %d, analyser %d", errNoManifest, m.Version, m.Format, m.Analyser)
	}
	return m, nil
}

// write replaces the current generation. It is durable on return.
func (m manifest) write(dir string) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return place(dir, manifestName, append(append(line, '\n'), checkLine(line)...), 0o600)
}

func checkLine(line []byte) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)))
}
