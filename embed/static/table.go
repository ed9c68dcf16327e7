package static

import (
	_ "embed" // the artefact
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// What is known of the artefact without reading it.
const (
	Name   = "static-e5-v2"
	Dims   = 256
	Window = 512 // pieces of one text that a vector is meant to speak for; longer ones are divided

	// Checksum is the SHA-256 of the artefact.
	Checksum = "69b0818a33bb9ac19938ceff678b979f77484c36587d2ca9f85ebea1e775a9ce"
)

//go:embed static-e5-v2.bin
var artefact string

// The artefact's layout, all numbers little-endian:
//
//	 0  "RCSTATIC"
//	 8  uint32 version            1
//	12  uint32 dimensions         256
//	16  uint32 pieces             n
//	20  uint32 longest piece      code points
//	24  int32  score of an unknown code point
//	28  uint32 weight of one sign of an unknown code point's vector
//	32  uint32 bytes of strings   s
//	36  uint32 CRC-32 (IEEE) of everything from 64 on
//	64  n × int16  scores, in 1/1024 of a natural logarithm
//	    n × uint16 scales
//	    n × uint8  lengths of the strings
//	    s bytes    the pieces, UTF-8, in byte order, one after another
//	    padding to a multiple of 64
//	    n × 256 × int8 codes; a vector is its codes times its scale
const (
	magic      = "RCSTATIC"
	version    = 1
	headerSize = 64
)

// ErrCorrupt: the artefact is not what the layout says. Only a broken build can
// bring it about.
var ErrCorrupt = errors.New("the static model's table is damaged")

// Table is the loaded artefact. It is read-only and may be used concurrently.
type Table struct {
	codes         string // pieces × Dims int8
	scales        []uint16
	scores        []int16
	trie          trie
	longest       int
	unknownScore  int64
	unknownWeight int64
}

// Load reads the artefact that is part of the binary.
func Load() (*Table, error) { return parse(artefact) }

func parse(raw string) (*Table, error) {
	if len(raw) < headerSize || raw[:8] != magic {
		return nil, fmt.Errorf("%w: no header", ErrCorrupt)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32([]byte(raw[at : at+4])) }
	n, stringBytes := int64(word(16)), int64(word(32))
	if word(8) != version || word(12) != Dims {
		return nil, fmt.Errorf("%w: version %d of %d dimensions", ErrCorrupt, word(8), word(12))
	}
	scoresAt := int64(headerSize)
	scalesAt := scoresAt + 2*n
	lengthsAt := scalesAt + 2*n
	stringsAt := lengthsAt + n
	codesAt := (stringsAt + stringBytes + 63) / 64 * 64
	if n == 0 || codesAt+n*Dims != int64(len(raw)) {
		return nil, fmt.Errorf("%w: %d bytes for %d pieces", ErrCorrupt, len(raw), n)
	}
	t := &Table{
		codes:         raw[codesAt:],
		scales:        make([]uint16, n),
		scores:        make([]int16, n),
		longest:       int(word(20)),
		unknownScore:  int64(int32(word(24))),
		unknownWeight: int64(word(28)),
	}
	for i := range n {
		t.scores[i] = int16(uint16(raw[scoresAt+2*i]) | uint16(raw[scoresAt+2*i+1])<<8)
		t.scales[i] = uint16(raw[scalesAt+2*i]) | uint16(raw[scalesAt+2*i+1])<<8
	}
	t.trie = newTrie(int(n))
	for i, at := int64(0), stringsAt; i < n; i++ {
		end := at + int64(raw[lengthsAt+i])
		if end == at || end > stringsAt+stringBytes {
			return nil, fmt.Errorf("%w: piece %d", ErrCorrupt, i)
		}
		t.trie.add(raw[at:end], int32(i))
		at = end
	}
	return t, nil
}

// Verify compares the artefact with its own checksum. It reads all of it, which
// [Load] does not.
func Verify() error {
	if len(artefact) < headerSize {
		return fmt.Errorf("%w: no header", ErrCorrupt)
	}
	want := binary.LittleEndian.Uint32([]byte(artefact[36:40]))
	if got := crc32.ChecksumIEEE([]byte(artefact[headerSize:])); got != want {
		return fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	return nil
}
