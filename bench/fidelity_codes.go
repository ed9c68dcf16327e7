package bench

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"

	"recalld/memory"
)

// directions returns n unit vectors of so many components: random orthogonal
// matrices below one another, the last one cut. Up to dims of them are a rotation,
// or its beginning; more of them are hyperplanes that cannot all be independent.
func directions(dims, n int, seed uint64) [][]float32 {
	r := rand.New(rand.NewPCG(seed, uint64(dims)))
	rows := make([][]float32, 0, n)
	var basis [][]float64
	for len(rows) < n {
		if len(basis) == dims {
			basis = basis[:0]
		}
		v := make([]float64, dims)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		// Twice: what rounding leaves of the earlier directions goes the second time.
		for range 2 {
			for _, b := range basis {
				along := 0.0
				for i := range v {
					along += float64(v[i] * b[i])
				}
				for i := range v {
					v[i] -= float64(along * b[i])
				}
			}
		}
		norm := 0.0
		for _, x := range v {
			norm += float64(x * x)
		}
		row := make([]float32, dims)
		for i := range v {
			v[i] /= math.Sqrt(norm)
			row[i] = float32(v[i])
		}
		basis, rows = append(basis, v), append(rows, row)
	}
	return rows
}

// project returns the components of v along each direction.
func project(directions [][]float32, v []float32) []float32 {
	out := make([]float32, len(directions))
	for i, d := range directions {
		var s0, s1, s2, s3 float32
		a, b := d[:len(v)], v
		for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
			s0 += float32(a[0] * b[0])
			s1 += float32(a[1] * b[1])
			s2 += float32(a[2] * b[2])
			s3 += float32(a[3] * b[3])
		}
		for j := range a {
			s0 += float32(a[j] * b[j])
		}
		out[i] = s0 + s1 + s2 + s3
	}
	return out
}

// forms are a vector as a model made it, its components along the directions, its
// int8 vector as the store has it, and that along the first dims directions.
type forms struct {
	plain, turned, stored, storedTurned []float32
}

func formsOf(directions [][]float32, v []float32) forms {
	f := forms{plain: v, turned: project(directions, v), stored: make([]float32, len(v))}
	bytes, _ := memory.Int8(v)
	for i, b := range bytes {
		f.stored[i] = float32(int8(b))
	}
	f.storedTurned = project(directions[:len(v)], f.stored)
	return f
}

// code is one way to write a vector in few bytes, and to guess an angle from them.
type code interface {
	add(row forms)
	// angles writes the guessed angle to the query, in degrees, of each row that out
	// has room for.
	angles(query forms, out []float32)
	bytes() int // of a row
}

// signCode is the signs of the first width components.
type signCode struct {
	width  int
	turned bool
	words  []uint64
}

func (c *signCode) bytes() int { return (c.width + 7) / 8 }

func (c *signCode) of(f forms) []uint64 {
	v := f.plain
	if c.turned {
		v = f.turned
	}
	packed := memory.Signs(v[:c.width])
	packed = append(packed, make([]byte, -len(packed)&7)...)
	words := make([]uint64, len(packed)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(packed[i*8:])
	}
	return words
}

func (c *signCode) add(row forms) { c.words = append(c.words, c.of(row)...) }

// angles of signs are 180 degrees times the share of bits that differ.
func (c *signCode) angles(f forms, out []float32) {
	query := c.of(f)
	degree := 180 / float64(c.width)
	for r := range out {
		row := c.words[r*len(query):][:len(query)]
		distance := 0
		for i, w := range query {
			distance += bits.OnesCount64(w ^ row[i])
		}
		out[r] = float32(float64(float64(distance) * degree))
	}
}

// levelCode is 1, 2 or 4 bits a component, made from the row's int8 vector, and
// one float32 that corrects the estimate: row·row / row·code, over the row's
// length, so that a row's estimate of itself is exact. The query stays int8.
type levelCode struct {
	width  int // bits a component
	turned bool
	dims   int
	packed []byte
	scale  []float32
}

func (c *levelCode) bytes() int { return (c.dims*c.width+7)/8 + 4 }

// step is the distance of two levels, in standard deviations, that wastes least
// of normally distributed components (Max 1960, uniform quantisers).
func (c *levelCode) step() float64 {
	return map[int]float64{1: 1.5958, 2: .9957, 4: .3352}[c.width]
}

// levels returns the odd number of half steps of each component: ±1, for 2 bits
// also ±3, for 4 bits up to ±15.
func (c *levelCode) levels(v []float32) []int {
	sum := 0.0
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	step := float64(math.Sqrt(sum/float64(len(v))) * c.step())
	most := 1<<c.width - 1
	out := make([]int, len(v))
	for i, x := range v {
		if step > 0 {
			out[i] = max(-most, min(most, 2*int(math.Floor(float64(x)/step))+1))
		}
	}
	return out
}

func (c *levelCode) add(f forms) {
	v := c.side(f)
	c.dims = len(v)
	levels := c.levels(v)
	row := make([]byte, (len(v)*c.width+7)/8)
	var self, along float64
	for i, l := range levels {
		at := i * c.width
		row[at/8] |= byte((l+1<<c.width-1)/2) << (at % 8)
		self += float64(float64(v[i]) * float64(v[i]))
		along += float64(float64(v[i]) * float64(l))
	}
	c.packed = append(c.packed, row...)
	c.scale = append(c.scale, float32(math.Sqrt(self)/along))
}

func (c *levelCode) side(f forms) []float32 {
	if c.turned {
		return f.storedTurned
	}
	return f.stored
}

// angles looks the products of the query and each possible byte up in a table.
func (c *levelCode) angles(f forms, out []float32) {
	query := c.side(f)
	norm := 0.0
	for _, x := range query {
		norm += float64(float64(x) * float64(x))
	}
	dots := make([]float32, len(out))
	c.dots(c.table(query), dots)
	for r := range out {
		out[r] = degrees(float64(float64(dots[r])*float64(c.scale[r])) / math.Sqrt(norm))
	}
}

func (c *levelCode) table(query []float32) [][256]float32 {
	table := make([][256]float32, (len(query)*c.width+7)/8)
	mask := 1<<c.width - 1
	for at := range table {
		for b := range 256 {
			for shift := 0; shift < 8; shift += c.width {
				if i := (at*8 + shift) / c.width; i < len(query) {
					table[at][b] += float32(query[i] * float32(2*(b>>shift&mask)-mask))
				}
			}
		}
	}
	return table
}

func (c *levelCode) dots(table [][256]float32, out []float32) {
	for r := range out {
		row := c.packed[r*len(table):][:len(table)]
		var even, odd float32
		for i, b := range row {
			if i&1 == 0 {
				even += table[i][b]
			} else {
				odd += table[i][b]
			}
		}
		out[r] = even + odd
	}
}

// byteCode is the int8 vector itself: what the re-rank sees (BR-046).
type byteCode struct {
	dims int
	data []byte
}

func (c *byteCode) bytes() int { return c.dims }

func (c *byteCode) add(f forms) {
	c.dims = len(f.stored)
	c.data = append(c.data, bytesOf(f.stored)...)
}

func bytesOf(stored []float32) []byte {
	out := make([]byte, len(stored))
	for i, x := range stored {
		out[i] = byte(int8(x))
	}
	return out
}

func (c *byteCode) angles(f forms, out []float32) {
	query := bytesOf(f.stored)
	own := sumOfProducts(query, query)
	for r := range out {
		row := c.data[r*c.dims:][:c.dims]
		product := float64(float64(sumOfProducts(row, row)) * float64(own))
		out[r] = degrees(float64(sumOfProducts(row, query)) / math.Sqrt(product))
	}
}

func sumOfProducts(a, b []byte) (sum int32) {
	for i := range a {
		sum += int32(int8(a[i])) * int32(int8(b[i]))
	}
	return sum
}

// degrees of a cosine, which rounding or an estimate may carry out of its range.
// What is out of range keeps its order: the excess counts as so many radians.
func degrees(cosine float64) float32 {
	excess := max(0, cosine-1) + min(0, cosine+1)
	return float32(float64((math.Acos(max(-1, min(1, cosine))) - excess) * (180 / math.Pi)))
}
