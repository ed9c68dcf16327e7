package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"recalld/memory"
)

// digestSize is how many bytes of a text's SHA-256 a row keeps (DECISIONS 11).
const digestSize = 16

func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:digestSize]
}

// digestOfRevision takes the digest out of a [memory.Revision].
func digestOfRevision(revision string) ([]byte, error) {
	b, err := hex.DecodeString(revision)
	if err != nil || len(b) != sha256.Size {
		return nil, &memory.FieldError{Field: "revision", Problem: fmt.Sprintf("%s is not a SHA-256 in hexadecimal", memory.Shape(revision)), Next: "take it from the row that was embedded"}
	}
	return b[:digestSize], nil
}

func joinKeywords(words []string) string { return strings.Join(words, "\n") }

func splitKeywords(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
