package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"

	"recalld/memory"
)

const peerSeed = 1

// peerSet is the rows and queries of a run, and the true answers.
type peerSet struct {
	task             string
	rows, dims, k    int
	codes, askCodes  []byte // signs
	vectors, asks    []float32
	vectorPath       string // files of the same
	queryPath        string
	truth            [][]float64 // of each query, the k least distances in order
	free             func()
	tolerance, slack float64 // between distances that are called equal; that a k-th may be missed by
}

// newPeerSet draws rows and queries, writes them for the peers, and finds the true
// answers without the code that is measured.
func newPeerSet(ctx context.Context, o PeersOptions) (*peerSet, error) {
	s := &peerSet{task: o.Task, rows: o.Rows, dims: o.Dims, k: o.K, vectorPath: o.file("vectors"), queryPath: o.file("queries"), free: func() {}}
	r := rand.New(rand.NewPCG(peerSeed, 0))
	if o.Task == TaskSigns {
		width := o.Dims / 8
		codes, free, err := hugePages(o.Rows * width)
		if err != nil {
			return nil, err
		}
		s.codes, s.free = fill(r, codes), free
		s.askCodes = fill(r, make([]byte, o.Queries*width))
		if err := errors.Join(os.WriteFile(s.vectorPath, s.codes, 0o600), os.WriteFile(s.queryPath, s.askCodes, 0o600)); err != nil {
			free()
			return nil, err
		}
	} else {
		// What float32 sums in another order may differ by.
		s.tolerance, s.slack = 1e-4, 1e-6
		topics := newPeerTopics(r, o.Dims)
		s.vectors, s.asks = topics.draw(r, o.Rows), topics.draw(r, o.Queries)
		if err := errors.Join(writeFloats(s.vectorPath, s.vectors), writeFloats(s.queryPath, s.asks)); err != nil {
			return nil, err
		}
	}
	for q := range o.Queries {
		if err := ctx.Err(); err != nil {
			s.free()
			return nil, err
		}
		all := make([]float64, o.Rows)
		for row := range all {
			all[row] = s.distance(q, row)
		}
		slices.Sort(all)
		s.truth = append(s.truth, all[:o.K:o.K])
	}
	return s, nil
}

// distance is that of a row and a query, in plain steps.
func (s *peerSet) distance(query, row int) float64 {
	if s.task == TaskSigns {
		width := s.dims / 8
		a, b := s.codes[row*width:][:width], s.askCodes[query*width:][:width]
		n := 0
		for i := 0; i < width; i += 8 {
			n += bits.OnesCount64(binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]))
		}
		return float64(n)
	}
	a, b := s.vectors[row*s.dims:][:s.dims], s.asks[query*s.dims:][:s.dims]
	var sum float64
	for i, x := range a {
		sum += float64(float64(x) * float64(b[i]))
	}
	return -sum
}

// judge counts the rows of an answer that are among the true k nearest, each once,
// and says whether there are k whose distances are the true ones, in order.
func (s *peerSet) judge(query int, a peerAnswer) (found int, equal bool) {
	truth := s.truth[query]
	equal = len(a.ids) == len(truth) && len(a.distances) == len(truth)
	seen := make(map[int64]bool, len(a.ids))
	for i, id := range a.ids {
		if id < 0 || id >= int64(s.rows) || seen[id] {
			equal = false
			continue
		}
		seen[id] = true
		real := s.distance(query, int(id))
		if len(seen) <= s.k && real <= truth[len(truth)-1]+s.slack {
			found++
		}
		if i >= len(truth) || i >= len(a.distances) || math.Abs(real-a.distances[i]) > s.tolerance || math.Abs(truth[i]-a.distances[i]) > s.tolerance {
			equal = false
		}
	}
	return found, equal
}

// peerTopics makes unit vectors that have few directions in common, as embeddings
// do: each is a mixture of some of them, around one of many centres, with noise.
type peerTopics struct {
	dims       int
	directions [][]float32
	centres    [][]float32 // by direction
}

const (
	peerDirections = 48
	peerCentres    = 1000
	peerNoise      = .25 // of a vector's length, before it becomes a unit
)

func newPeerTopics(r *rand.Rand, dims int) *peerTopics {
	t := &peerTopics{dims: dims}
	gauss := func(n int, scale float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(scale * r.NormFloat64())
		}
		return v
	}
	for range peerDirections {
		t.directions = append(t.directions, gauss(dims, 1/math.Sqrt(float64(dims)*peerDirections)))
	}
	for range peerCentres {
		t.centres = append(t.centres, gauss(peerDirections, 1))
	}
	return t
}

// draw returns n vectors, one behind the other.
func (t *peerTopics) draw(r *rand.Rand, n int) []float32 {
	all := make([]float32, 0, n*t.dims)
	for range n {
		v := make([]float32, t.dims)
		centre := t.centres[r.IntN(len(t.centres))]
		for d, direction := range t.directions {
			weight := centre[d] + float32(r.NormFloat64())
			for i, x := range direction {
				v[i] += float32(weight * x)
			}
		}
		spread := peerNoise / math.Sqrt(float64(t.dims))
		var norm float64
		for i := range v {
			v[i] += float32(spread * r.NormFloat64())
			norm += float64(float64(v[i]) * float64(v[i]))
		}
		norm = math.Sqrt(norm)
		for _, x := range v {
			all = append(all, float32(float64(x)/norm))
		}
	}
	return all
}

func writeFloats(path string, all []float32) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	var room [4]byte
	for _, x := range all {
		binary.LittleEndian.PutUint32(room[:], math.Float32bits(x))
		if _, err := w.Write(room[:]); err != nil {
			return err
		}
	}
	return w.Flush()
}

// boundedCode is a unit vector at one byte per component, its scale, and the most
// that a cosine made of it may be wrong by: what the code leaves out, and what a sum
// of float32 products rounds (DECISIONS 20).
type boundedCode struct {
	code         []byte
	scale, bound float32
}

// bounded makes the codes of vectors that stand one behind the other.
func bounded(vectors []float32, dims int) ([]boundedCode, error) {
	var all []boundedCode
	for v := range slices.Chunk(vectors, dims) {
		code, ok := memory.Int8(v)
		if !ok {
			return nil, errors.New("a vector has no direction")
		}
		var most, left float64
		for _, x := range v {
			most = max(most, math.Abs(float64(x)))
		}
		scale := float32(most / 127)
		for i, x := range v {
			d := float64(x) - float64(float64(scale)*float64(int8(code[i])))
			left += float64(d * d)
		}
		bound := math.Sqrt(left) + float64(float64(dims/4+4)*0x1p-23)
		all = append(all, boundedCode{code, scale, math.Nextafter32(float32(bound), math.MaxFloat32)})
	}
	return all, nil
}
