package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"recalld/memory"
)

// Bounds of a token's length, in bytes.
const (
	MinToken = 16
	MaxToken = 512
)

const redacted = "[redacted]"

// Secret is a token that never shows: every way to print, log or encode one
// gives "[redacted]".
type Secret struct{ text string }

// NewSecret checks a token: [MinToken] to [MaxToken] bytes of the characters
// that a bearer token may have. The error names the field and never the token.
func NewSecret(field, text string) (Secret, error) {
	problem := ""
	switch {
	case text == "":
		problem = "is empty"
	case strings.ContainsFunc(text, notOfToken):
		problem = "has a character that no bearer token may have"
	case len(text) < MinToken:
		problem = fmt.Sprintf("has %d characters", len(text))
	case len(text) > MaxToken:
		problem = fmt.Sprintf("has %d characters", len(text))
	default:
		return Secret{text}, nil
	}
	return Secret{}, &memory.FieldError{Field: field, Problem: problem, Limit: fmt.Sprintf("%d to %d of A-Z a-z 0-9 - . _ ~ + / =", MinToken, MaxToken), Next: "make one with `openssl rand -hex 32`"}
}

func notOfToken(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("-._~+/=", r)
}

// String implements [fmt.Stringer].
func (Secret) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (Secret) GoString() string { return redacted }

// Format implements [fmt.Formatter], so that no verb shows the text.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText implements [encoding.TextMarshaler], and with it JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements [slog.LogValuer].
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// digest is what is kept of a token. A token of [MinToken] random characters
// cannot be found from it.
type digest [sha256.Size]byte

func digestOf(token string) digest { return sha256.Sum256([]byte(token)) }

// same compares in a time that depends on neither digest.
func (d digest) same(e digest) int { return subtle.ConstantTimeCompare(d[:], e[:]) }
