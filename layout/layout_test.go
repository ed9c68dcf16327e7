package layout

import (
	"math/rand/v2"
	"testing"

	"recalld/memory"
)

func source(dims int) Source {
	return Source{TruthID: "5f0c2a9f3c1e4b7d8a6b9c0d1e2f3a4b", Model: 7, Identity: [32]byte{1, 2, 3}, Dims: dims}
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	vw, err := CreateValues(dir, ValuesSpec{source(256), 3})
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create(dir, Spec{Source: source(256), Kind: Signs})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		v := make([]byte, 256)
		for j := range v {
			v[j] = byte(rng.Uint32())
		}
		p, err := vw.Add(v)
		if err != nil {
			t.Fatal(err)
		}
		code := v[:32]
		if i%17 == 0 {
			code = nil
		}
		if err := w.Add(Row{Cell: Cell{uint64(i / 100), 0, 0}, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(i/10 + 1)}, Block: i % 10, Code: code, Value: p}); err != nil {
			t.Fatal(err)
		}
	}
	vn, err := vw.Finish()
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenSegment(dir, n, source(256))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	v, err := OpenValues(dir, vn, source(256))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := s.Ranges(Scope{Agent: 3})
	if err != nil || len(r) != 1 || r[0] != (Range{300, 400}) {
		t.Fatal(r, err)
	}
}
