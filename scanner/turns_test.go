package scanner

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (t *turn) given() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// line is turns of which a test sees the order.
func line(processors int) (s *turns, order *[]uint64) {
	s, order = newTurns(processors, func() time.Time { return time.Time{} }), new([]uint64)
	s.seen = func(agent uint64, _ bool) { *order = append(*order, agent) }
	return s, order
}

// A turn of an agent that comes while others read on and on, waits for one of
// each, however many the others want.
func TestNewAgentWaitsForOneTurnOfEach(t *testing.T) {
	s, order := line(1)
	var large []*turn
	for agent := range uint64(3) {
		for range 5 {
			large = append(large, s.want(agent, false))
		}
	}
	small := s.want(9, false)
	turns := 0
	for ; !small.given(); turns++ {
		i := slices.IndexFunc(large, func(l *turn) bool { return l.given() })
		if large[i].goOn(turnBytes) {
			t.Fatalf("a turn went on while others waited: %v", *order)
		}
	}
	if want := []uint64{0, 1, 2, 9}; !slices.Equal(*order, want) {
		t.Errorf("order %v, not %v", *order, want)
	}
}

// Agents that always want turns read as many bytes as one another, whatever the
// size of a turn and the number of turns that are wanted at a time.
func TestAgentsShareBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, _ := line(rapid.IntRange(1, 3).Draw(rt, "processors"))
		agents := rapid.IntRange(2, 5).Draw(rt, "agents")
		sizes, read := make([]int64, agents), make([]int64, agents)
		var wanted []*turn
		for i := range sizes {
			sizes[i] = rapid.Int64Range(leastBytes, 3*turnBytes).Draw(rt, "bytes of a turn")
			for range rapid.IntRange(5, 9).Draw(rt, "turns at a time") { // so that some always wait
				wanted = append(wanted, s.want(uint64(i), false))
			}
		}
		ends := make(map[*turn]int64) // when each turn that was given ends: a byte takes one unit of time
		now := int64(0)
		for now < 200*turnBytes {
			var first *turn
			for _, w := range wanted {
				if !w.given() {
					continue
				}
				if ends[w] == 0 {
					ends[w] = now + sizes[w.agent]
				}
				if first == nil || ends[w] < ends[first] {
					first = w
				}
			}
			if first == nil || s.free > 0 {
				rt.Fatalf("%d processors idle while turns are wanted", s.free)
			}
			now = ends[first]
			read[first.agent] += sizes[first.agent]
			first.end(sizes[first.agent])
			wanted[slices.Index(wanted, first)] = s.want(first.agent, false)
		}
		// One round more, and what was in the making.
		if difference := slices.Max(read) - slices.Min(read); difference > 2*turnBytes+8*slices.Max(sizes) {
			rt.Errorf("bytes read: %v, of turns %v", read, sizes)
		}
	})
}

// Maintenance gets a turn when nobody else wants one, and goes on as long as that
// is so.
func TestMaintenanceComesLast(t *testing.T) {
	s, order := line(1)
	first := s.want(1, false)
	batch := s.want(7, true)
	second := s.want(2, false)
	first.end(turnBytes)
	second.end(turnBytes)
	if !batch.given() || !batch.goOn(turnBytes) {
		t.Fatalf("maintenance waits while nobody else does: %v", *order)
	}
	third := s.want(3, false)
	if batch.goOn(turnBytes) || !third.given() {
		t.Fatalf("maintenance goes on while somebody waits: %v", *order)
	}
	third.end(1)
	if want := []uint64{1, 2, 7, 7, 3, 7}; !slices.Equal(*order, want) {
		t.Errorf("order %v, not %v", *order, want)
	}
}

// Who stops waiting takes nothing along.
func TestTurnsOfTheGoneAreGiven(t *testing.T) {
	s, _ := line(1)
	first := s.want(1, false)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, batch := range []bool{false, true} {
		if _, err := s.take(gone, 2, batch); err != context.Canceled {
			t.Fatal(err)
		}
	}
	if err := first.next(gone, 1); err != context.Canceled {
		t.Fatal(err)
	}
	if s.free != 1 || len(s.shares) != 0 || len(s.ring) != 0 || len(s.batch) != 0 {
		t.Errorf("left behind: %+v", s)
	}
	if last, err := s.take(t.Context(), 3, false); err != nil || !last.given() {
		t.Error("the processor is not given on")
	}
}
