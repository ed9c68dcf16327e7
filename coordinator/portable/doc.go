// Package portable has the few functions of package math that scores need and
// whose last bits depend on the processor there: math.Exp is assembly of its
// own on amd64 and on arm64, math.Log is assembly on amd64 and, written in Go,
// is fused on arm64. Of 200,000 ages from 0 to 74 hours, one in seven got other
// bits of math.Exp on the two.
//
// Invariants: the same argument gives the same bits on every processor
// (DECISIONS 6), because nothing but additions, divisions and products that
// are rounded one by one is used; results are within 2 units in the last place.
//
// It refuses to be fast at the cost of a bit, and to hold what package math
// already gives everywhere alike: Sqrt, Floor, Round, Frexp and Ldexp are exact.
package portable
