package embed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// Thresholds of [Compare], as cosines of a probe's two vectors (DECISIONS 10).
const (
	SameCosine      = 0.999 // at or above, for every probe: the same model
	DifferentCosine = 0.98  // below, for any probe: vectors must not be mixed
)

// Identity is what a model is known by: its name, and what it answers. It is
// stored beside the vectors that the model made (BR-107).
type Identity struct {
	Backend      string // backend and, for in-process models, nothing else
	Name         string // the model's name in settings, or the in-process model's version
	Dims         int
	PromptPolicy string      // how a text is dressed before it is sent
	ProbeVersion int         // which sentences were asked
	Probes       [][]float32 // len(probes) × Dims unit vectors
}

// Key returns a fingerprint of everything in the identity, probe vectors
// included, as 32 hexadecimal digits. Equal keys mean equal identities; a model
// that answers slightly differently has another key and may still be the
// [Same] model.
func (id Identity) Key() string {
	h := sha256.New()
	field := func(s string) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	field(id.Backend)
	field(id.Name)
	field(id.PromptPolicy)
	field(fmt.Sprintf("%d/%d/%d", id.Dims, id.ProbeVersion, len(id.Probes)))
	for _, v := range id.Probes {
		b := make([]byte, 0, 4*len(v))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		field(string(b))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Verdict says whether vectors of two identities may stand in one index.
type Verdict uint8

// Verdicts, from best to worst.
const (
	Same      Verdict = iota // the same model
	Drifted                  // close enough to go on, worth a notice
	Different                // mixing stops
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case Same:
		return "same"
	case Drifted:
		return "drifted"
	default:
		return "different"
	}
}

// Compare tells whether two identities are of one model: [Same] when every
// probe's cosine is at least [SameCosine], [Different] when any is below
// [DifferentCosine] or the two cannot be compared (other dimension, prompt
// policy, probe version or number of probes, or a missing probe vector). Names do
// not decide: a server that was renamed and answers alike is the same model.
func Compare(a, b Identity) Verdict {
	if a.Dims != b.Dims || a.PromptPolicy != b.PromptPolicy || a.ProbeVersion != b.ProbeVersion ||
		len(a.Probes) != len(b.Probes) || len(a.Probes) == 0 {
		return Different
	}
	verdict := Same
	for i := range a.Probes {
		if len(a.Probes[i]) != a.Dims || len(b.Probes[i]) != a.Dims {
			return Different
		}
		// Written so that a cosine that is not a number is no match.
		c := cosine(a.Probes[i], b.Probes[i])
		if !(c >= DifferentCosine) {
			return Different
		}
		if c < SameCosine {
			verdict = Drifted
		}
	}
	return verdict
}

// ChangedError says that the server behind a model's URL answers as another
// model. It is an [ErrChanged].
type ChangedError struct {
	Was, Now Identity
}

// Error implements error.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("the embedding server answers as another model than %q did (%d dimensions then, %d now); bring the old model back, or run `recalld model accept` or `recalld model rebuild`",
		e.Was.Name, e.Was.Dims, e.Now.Dims)
}

// Is makes every ChangedError an [ErrChanged] and an [ErrUnavailable].
func (e *ChangedError) Is(target error) bool { return target == ErrChanged || target == ErrUnavailable }
