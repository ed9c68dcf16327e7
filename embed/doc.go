// Package embed turns text into unit vectors and knows which model made them.
//
// Backends: static (in process, the default), hash (in process, character
// n-grams), openai and embed (HTTP servers), none. [Open] makes one.
//
// Invariants:
//
//   - Every vector that leaves the package has length one, or is nil for a text
//     that no vector can be made for. A server's word is not taken for it.
//   - Local backends give the same bits for the same text on every platform.
//   - The texts of one call form fixed batches in a fixed order, since quantised
//     servers return other vectors for other batch mates (BR-178).
//   - A model is known by what it answers: its identity holds the vectors of
//     fixed probe sentences, and a server that begins to answer otherwise is
//     refused until somebody accepts it. A server that was away is asked first.
//   - Nothing a server sends is allocated beyond a bound known before reading.
//
// It refuses to generate text, to cut text, to re-embed anything on its own, to
// follow redirects, and to write keys or users' texts into errors.
package embed
