package lexical

// The constants of the ranking, in tenths where they are weights of a field.
//
// A row is read as if it were a longer text: its own words, and the words of the
// rows before and behind it in its session at a share of their number. BM25 with
// k1 = .9 and b = .4 then counts words and length of that text. On LoCoMo any
// k1 from .6 to 2 and any b from 0 to .6 stays within half a point; counting the
// neighbours' words but not their length costs four.
const (
	// Reach is how many rows on either side lend their words.
	Reach = 3

	shareOwn = 10                   // tenths: the row's own words
	shareAll = shareOwn + 2*(4+2+1) // and those of three rows on either side

	saturation = 9.0 // k1 = .9, in tenths
	lengthPart = 0.4 // b
)

// shares holds the share, in tenths, of the words of a row at a distance of 0 to
// Reach.
const shares = "\x0A\x04\x02\x01"

func share(distance int) uint32 { return uint32(shares[distance&Reach]) }

// maxFrequency is the largest number of occurrences of one term in one row that
// is told apart.
const maxFrequency = 255

// ScoreUnit is the number of score units in one bit of information: a term that
// half of the scope's rows contain weighs about one ScoreUnit.
const ScoreUnit = 1 << 16

// statistics are the counts over the live rows of one request's scope. Nothing
// outside the scope is in them (DECISIONS 1).
type statistics struct {
	rows   uint64 // N
	length uint64 // words in all rows, date words excepted
}

// weight returns the weight of a term that df of the rows contain, in score
// units: log2((N + 1) / (df + ½)), never 0.
func (s statistics) weight(df uint64) uint32 {
	w := (log2(2*s.rows+2) - log2(2*df+1)) >> (logBits - 16)
	return uint32(max(w, 1))
}

// curve is what saturates: a row whose text has length L (in tenths of words,
// neighbours' shares included) counts a term with frequency f (in tenths) as
// f / (f + base + slope·L).
type curve struct{ base, slope float64 }

func (s statistics) curve() curve {
	if s.length == 0 {
		return curve{base: saturation}
	}
	const part = saturation * lengthPart / shareAll
	return curve{
		base:  saturation - saturation*lengthPart,
		slope: float64(part*float64(s.rows)) / float64(s.length),
	}
}

// damp returns base + slope·L.
func (c curve) damp(length uint32) float64 {
	return c.base + float64(c.slope*float64(length))
}

// contribution returns what one term adds to a row's score, in score units.
// Sums of contributions are integers, so that no order of adding matters.
func contribution(weight, frequency uint32, damp float64) uint32 {
	f := float64(frequency)
	return uint32(float64(float64(weight)*f) / (f + damp))
}

// bound returns a number of score units that no row of the scope exceeds in a
// term whose frequency (in tenths) is at most the given one. The 1 covers the
// rounding of both divisions.
func (c curve) bound(weight, frequency uint32) uint32 {
	return contribution(weight, frequency, c.base) + 1
}
