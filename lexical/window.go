package lexical

// windowRows is how many positions are scored together. What they need fits the
// first-level cache.
const windowRows = 2048

// window is the working memory of one search: the rows from lo to lo + n of one
// sequence, with Reach rows more on either side, whose words reach into it. Index
// i of an array stands for position lo + i − Reach.
type window struct {
	lo, n  uint32
	length [windowRows + 2*Reach]uint32
	joined [windowRows + 2*Reach]bool // continues the session of the row before it
	freq   [windowRows + 2*Reach]uint32
	damp   [windowRows + 2*Reach]float64 // 0 until it is needed
	score  [windowRows + 2*Reach]uint32
	rivals []uint32 // indices of rows that may still enter the top
}

// index returns the array index of a position.
func (w *window) index(pos uint32) int { return int(pos+Reach) - int(w.lo) }

// load reads the rows of a window of the sequence.
func (w *window) load(q *sequence, lo, n uint32) {
	w.lo, w.n = lo, n
	clear(w.damp[:])
	clear(w.score[:])
	clear(w.length[:Reach])
	clear(w.joined[:Reach])
	from := lo - min(lo, Reach)
	to := min(lo+n+Reach, q.rows)
	tail := w.index(to)
	clear(w.length[tail:])
	clear(w.joined[tail:])
	if q.lengths != nil {
		x := w.index(from)
		copy(w.length[x:tail], q.lengths[from:to])
		copy(w.joined[x:tail], q.joined[from:to])
		return
	}
	for i := q.at(from); i < len(q.runs) && q.runs[i].pos < to; i++ {
		r := q.runs[i]
		a, b := max(from, r.pos), min(to, r.end())
		x, y := w.index(a), w.index(b)
		q.sources[r.source].lengths(int(r.first+a-r.pos), w.length[x:y], w.joined[x:y])
		if a == r.pos {
			w.joined[x] = r.joined
		}
	}
}

// before returns how many rows, at most Reach, stand before row i in its
// session, behind how many stand behind it.
func (w *window) before(i int) int {
	d := 0
	for d < Reach && i-d > 0 && w.joined[i-d] {
		d++
	}
	return d
}

func (w *window) behind(i int) int {
	d := 0
	for d < Reach && i+d+1 < len(w.joined) && w.joined[i+d+1] {
		d++
	}
	return d
}

// dampOf returns the damping of row i, which must be one of the window's own n
// rows: only for those are all neighbours loaded.
func (w *window) dampOf(i int, c curve) float64 {
	if w.damp[i] != 0 {
		return w.damp[i]
	}
	if j := w.joined[i-2 : i+4]; j[0] && j[1] && j[2] && j[3] && j[4] && j[5] {
		l := w.length[i-3 : i+4]
		w.damp[i] = c.damp(shareOwn*l[3] + share(1)*(l[2]+l[4]) + share(2)*(l[1]+l[5]) + share(3)*(l[0]+l[6]))
		return w.damp[i]
	}
	length := shareOwn * w.length[i]
	for d, n := 1, w.before(i); d <= n; d++ {
		length += share(d) * w.length[i-d]
	}
	for d, n := 1, w.behind(i); d <= n; d++ {
		length += share(d) * w.length[i+d]
	}
	w.damp[i] = c.damp(length)
	return w.damp[i]
}

// add scores a lane whose window is filled for all rows of the window.
func (w *window) add(l *lane, c curve) {
	if l.date {
		for _, p := range l.window {
			if p.pos >= w.lo && p.pos < w.lo+w.n {
				w.score[w.index(p.pos)] += contribution(l.weight, shareOwn*p.freq, saturation)
			}
		}
		return
	}
	for _, p := range l.window {
		i := w.index(p.pos)
		w.freq[i] += shareOwn * p.freq
		for d, n := 1, w.before(i); d <= n; d++ {
			w.freq[i-d] += share(d) * p.freq
		}
		for d, n := 1, w.behind(i); d <= n; d++ {
			w.freq[i+d] += share(d) * p.freq
		}
	}
	done := 0
	for _, p := range l.window {
		i := w.index(p.pos)
		end := i + w.behind(i) + 1
		for j := max(done, i-w.before(i)); j < end; j++ {
			if j >= Reach && j < Reach+int(w.n) {
				w.score[j] += contribution(l.weight, w.freq[j], w.dampOf(j, c))
			}
			w.freq[j] = 0
		}
		done = max(done, end)
	}
}

// gather returns what a lane gives to row i. from is the first entry of the
// lane's window that can reach the row; the entry to begin with for the next,
// higher row is returned.
func (w *window) gather(l *lane, i, from int, c curve) (score uint32, next int) {
	pos := w.lo + uint32(i) - Reach
	if l.date {
		for from < len(l.window) && l.window[from].pos < pos {
			from++
		}
		if from < len(l.window) && l.window[from].pos == pos {
			return contribution(l.weight, shareOwn*l.window[from].freq, saturation), from
		}
		return 0, from
	}
	low, high := pos-uint32(w.before(i)), pos+uint32(w.behind(i))
	for from < len(l.window) && l.window[from].pos < low {
		from++
	}
	freq := uint32(0)
	for _, p := range l.window[from:] {
		if p.pos > high {
			break
		}
		if p.pos < pos {
			freq += share(int(pos-p.pos)) * p.freq
		} else {
			freq += share(int(p.pos-pos)) * p.freq
		}
	}
	if freq == 0 {
		return 0, from
	}
	return contribution(l.weight, freq, w.dampOf(i, c)), from
}
