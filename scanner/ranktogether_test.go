package scanner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// rankPiece is how many rows of a crowd's vectors are a piece.
const rankPiece = 50

// vectors gives agents 1 and 2 two files of 300 records each and a delta of five,
// all with vectors.
func (c *crowd) vectors() {
	vw := &vectorWorld{world: c.world, truth: make(map[memory.Ref]vectorRecord), held: func() bool { return true }}
	draw := func(n int) (records []vectorRecord) {
		for range n {
			for agent := uint64(1); agent <= 2; agent++ {
				c.next++
				records = append(records, vectorRecord{layout.Cell{Agent: agent, Project: 10 * c.r.Uint64N(2)}, memory.Ref{Kind: memory.KindMemory, ID: c.next}, c.direction()})
			}
		}
		return records
	}
	vw.addFile(draw(300), nil)
	vw.addFile(draw(300), nil)
	c.doPublish()
	apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: 11}
	for _, rec := range draw(5) {
		apply.Vectors = append(apply.Vectors, vw.vectorChange(rec))
	}
	_, err := c.server.Apply(c.t.Context(), apply)
	c.must(err)
	c.server.turns.quantum = rankPiece * int64(c.dims)
}

func (c *crowd) direction() vector {
	v := make([]float32, c.dims)
	for i := range v {
		v[i] = float32(c.r.NormFloat64())
	}
	return codedVector(c.t, v)
}

// nearestTo asks for the k nearest of an agent's records by their codes.
func (c *crowd) nearestTo(agent uint64, k int) *scannerv1.RankRequest {
	v := c.direction()
	return &scannerv1.RankRequest{Model: modelNumber, Scope: &scannerv1.Scope{Agent: agent}, Code: v.code, Scale: float64(v.scale), Error: float64(v.bound), K: uint32(k)}
}

// rank begins a rank.
func (c *crowd) rank(ctx context.Context, r *scannerv1.RankRequest, then func(*scannerv1.RankReply, error)) {
	c.wait.Go(func() {
		then(c.server.Rank(ctx, r))
		c.ended.Add(1)
	})
}

// alone is what ranks get one after the other.
func (c *crowd) alone(requests []*scannerv1.RankRequest) []*scannerv1.RankReply {
	replies := make([]*scannerv1.RankReply, len(requests))
	for i, r := range requests {
		reply, err := c.server.Rank(c.t.Context(), r)
		c.must(err)
		replies[i] = reply
	}
	return replies
}

func (c *crowd) stats() *scannerv1.StatsReply {
	stats, err := c.server.Stats(c.t.Context(), nil)
	c.must(err)
	return stats
}

// Ranks that come while others wait for the processor go together, eight at a time,
// and get what they would get alone; a scan of the same scope goes alone.
//
// DECISIONS 1, 2, 20
func TestRanksShareAPass(t *testing.T) {
	c := newCrowd(t, 31)
	c.vectors()
	var requests []*scannerv1.RankRequest
	for i := range 21 {
		r := c.nearestTo(1, 1+4*i)
		if v := c.direction(); i%2 == 0 {
			r.Code, r.Scale, r.Error, r.Vector = v.code, float64(v.scale), float64(v.bound), v.floats
		}
		requests = append(requests, r)
	}
	requests = append(requests, c.nearestTo(2, 3))
	alone := c.alone(requests)
	before := c.stats()
	c.hold()
	c.scan(t.Context(), c.ofAll(0), func(_ *scannerv1.ScanReply, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	c.until(func() bool { _, groups := c.waiting(); return groups == 1 })
	for i, r := range requests {
		c.rank(t.Context(), r, func(got *scannerv1.RankReply, err error) {
			if err != nil || !proto.Equal(got, alone[i]) {
				t.Errorf("request %d: %v\ntogether %s\nalone    %s", i, err, prototext.Format(got), prototext.Format(alone[i]))
			}
		})
	}
	c.until(func() bool { all, groups := c.waiting(); return groups == 3 && all == 1+len(requests) })
	c.held.end(0)
	c.wait.Wait()
	after := c.stats()
	one := before.GetBytesScanned() / uint64(len(requests))
	if read := after.GetBytesScanned() - before.GetBytesScanned(); read != 4*one { // 8, 8 and 5 together, and the other agent's
		t.Errorf("%d bytes were read, %d by one rank alone", read, one)
	}
	if shared, passes := after.GetCoalescedQueries()-before.GetCoalescedQueries(), after.GetPasses()-before.GetPasses(); shared != 21 || passes != 3 {
		t.Errorf("%d ranks have shared %d passes, not 21 of 3", shared, passes)
	}
}

// Ranks that come in the middle of others read on with them and then what they
// missed, over files and delta, and get what they would get alone.
//
// DECISIONS 1, 2, 20
func TestLateRanksGoOnceAround(t *testing.T) {
	c := newCrowd(t, 32)
	c.vectors()
	var requests []*scannerv1.RankRequest
	for i := range 6 {
		requests = append(requests, c.nearestTo(1, 1+20*i))
	}
	alone := c.alone(requests)
	before := c.stats()
	next := 0
	begin := func() {
		i := next
		next++
		c.rank(t.Context(), requests[i], func(got *scannerv1.RankReply, err error) {
			if err != nil || !proto.Equal(got, alone[i]) {
				t.Errorf("rank %d: %v\ntogether %s\nalone    %s", i, err, prototext.Format(got), prototext.Format(alone[i]))
			}
		})
	}
	turn := 0
	c.server.turns.seen = func(uint64, bool) { // the pass stands still meanwhile
		if turn++; turn%2 == 0 && next < len(requests) {
			begin()
			c.until(func() bool { all, _ := c.waiting(); return all > 0 })
		}
	}
	begin()
	c.wait.Wait()
	after := c.stats()
	read, shared := after.GetBytesScanned()-before.GetBytesScanned(), after.GetCoalescedQueries()-before.GetCoalescedQueries()
	if next < len(requests) || read > before.GetBytesScanned()*3/4 || shared != 6 {
		t.Errorf("%d ranks, %d bytes read where %d are alone, %d shared", next, read, before.GetBytesScanned(), shared)
	}
}

// Whatever the store, the number of threads, the size of a piece, and whoever joins
// or leaves in the middle: a rank that is not cancelled gets what it gets alone, and
// nothing is left behind.
//
// DECISIONS 1, 2, 20
func TestRanksTogetherAnswerAsAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &vectorWorld{world: newWorld(t, rapid.Uint64().Draw(rt, "seed"), rapid.SampledFrom([]int{8, 33}).Draw(rt, "dims")), rt: rt, truth: make(map[memory.Ref]vectorRecord), change: 11}
		w.server.Close()
		threads := rapid.IntRange(1, 3).Draw(rt, "threads")
		w.server = NewServer(Options{Threads: threads})
		w.open()
		if of := rapid.IntRange(0, 8).Draw(rt, "one without its vector of"); of > 0 {
			w.held = func() bool { return w.r.IntN(of) > 0 }
		}
		for range rapid.IntRange(1, 30).Draw(rt, "different vectors") {
			w.pool = append(w.pool, w.randomVector())
		}
		for range rapid.IntRange(0, 3).Draw(rt, "files") {
			var records []vectorRecord
			for range rapid.IntRange(1, 80).Draw(rt, "records") {
				records = append(records, w.draw())
			}
			w.addFile(records[1:], records[:1])
		}
		w.doPublish()
		_, err := w.server.Apply(rt.Context(), &scannerv1.ApplyRequest{Generation: 1, Sequence: w.change, Vectors: w.changes()})
		w.must(err)
		scopes, onlys := []*scannerv1.Scope{w.scope(), w.scope()}, []*scannerv1.Only{w.only(), w.only()}
		n := rapid.IntRange(1, 24).Draw(rt, "ranks")
		requests, alone := make([]*scannerv1.RankRequest, n), make([]*scannerv1.RankReply, n)
		for i := range requests {
			v := w.pool[w.r.IntN(len(w.pool))]
			if w.r.IntN(2) == 0 || v.scale == 0 {
				v = w.randomVector()
			}
			requests[i] = &scannerv1.RankRequest{Model: modelNumber, Scope: scopes[w.r.IntN(8)/7], Only: onlys[w.r.IntN(8)/7], Batch: w.r.IntN(6) == 0,
				Code: v.code, Scale: float64(v.scale), Error: float64(v.bound), K: uint32(1 + w.r.IntN(9))}
			if w.r.IntN(2) == 0 {
				requests[i].Vector = v.floats
			}
			alone[i], err = w.server.Rank(rt.Context(), requests[i])
			w.must(err)
		}
		ended := make(chan struct{}, n)
		var mu sync.Mutex
		var problem error
		next := 0
		cancelAt := make(map[int][]context.CancelFunc) // turns
		turn, every := 0, rapid.IntRange(1, 6).Draw(rt, "turns between two")
		begin := func() {
			i, gone := next, w.r.IntN(4) == 0
			next++
			ctx, cancel := context.WithCancel(rt.Context())
			if gone {
				at := turn + w.r.IntN(8)
				cancelAt[at] = append(cancelAt[at], cancel)
			}
			go func() {
				defer func() { cancel(); ended <- struct{}{} }()
				got, err := w.server.Rank(ctx, requests[i])
				if err != nil && gone || err == nil && proto.Equal(got, alone[i]) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				problem = errors.Join(problem, fmt.Errorf("%s: %w\ntogether %s\nalone    %s", prototext.Format(requests[i]), err, prototext.Format(got), prototext.Format(alone[i])))
			}()
		}
		turns := w.server.turns
		turns.mu.Lock() // begin is called with it
		turns.quantum = int64(w.dims * rapid.IntRange(1, 40).Draw(rt, "rows of a piece"))
		turns.seen = func(uint64, bool) {
			if turn++; turn%every == 0 && next < n {
				begin()
			}
			for _, cancel := range cancelAt[turn] {
				cancel()
			}
		}
		first := (n + 1) / 2
		for range first {
			begin()
		}
		turns.mu.Unlock()
		for range first {
			<-ended
		}
		turns.mu.Lock()
		for next < n { // those that no turn has begun
			begin()
		}
		turns.mu.Unlock()
		for range n - first {
			<-ended
		}
		w.server.passes.tasks.Wait()
		if problem != nil {
			rt.Fatal(problem)
		}
		if turns.free != threads || len(turns.shares) > 0 || len(w.server.passes.groups) > 0 || len(w.server.passes.lane) > 0 {
			rt.Fatalf("%d of %d turns are free, %d agents want some, %d groups are left, %d in the lane of maintenance", turns.free, threads, len(turns.shares), len(w.server.passes.groups), len(w.server.passes.lane))
		}
		w.server.Close()
	})
}

// A rank whose caller leaves while it is the only one ends at the next piece.
func TestCancelledLoneRankEnds(t *testing.T) {
	c := newCrowd(t, 33)
	c.vectors()
	ctx, cancel := context.WithCancel(t.Context())
	turns := 0
	c.server.turns.seen = func(uint64, bool) {
		if turns++; turns == 2 { // a piece was read
			cancel()
			c.told()
		}
	}
	if reply, err := c.server.Rank(ctx, c.nearestTo(1, 1)); err == nil || turns != 2 {
		t.Errorf("%v after %d turns: %v", err, turns, reply)
	}
	if n := c.stats().GetBytesScanned(); n != rankPiece*uint64(c.dims) {
		t.Errorf("%d bytes were read", n)
	}
}

// One damaged file is the error of every rank of the pass.
//
// DECISIONS 30
func TestSharedDamageIsEveryRanksError(t *testing.T) {
	c := newCrowd(t, 34)
	vw := &vectorWorld{world: c.world, truth: make(map[memory.Ref]vectorRecord)}
	vw.addFile([]vectorRecord{{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 1}, c.direction()}}, nil)
	name := c.publish.GetRecords()[0].GetName()
	c.damage(name, layout.HeaderBytes)
	c.doPublish()
	c.hold()
	errs := make([]error, 4)
	for i := range errs {
		c.rank(t.Context(), c.nearestTo(1, 1), func(_ *scannerv1.RankReply, err error) { errs[i] = err })
	}
	c.until(func() bool { all, _ := c.waiting(); return all == len(errs) })
	c.held.end(0)
	c.wait.Wait()
	for i, err := range errs {
		if reason(err).GetReason() != scannerv1.Reason_REASON_FILE || reason(err).GetFile() != name {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// Vectors are read for maintenance in its lane, and for others while it is taken.
//
// DECISIONS 1
func TestVectorsOfMaintenanceWaitForItsLane(t *testing.T) {
	c := newCrowd(t, 35)
	c.vectors()
	v := c.direction()
	r := c.nearestTo(1, 1)
	r.Code, r.Scale, r.Error, r.Vector = v.code, float64(v.scale), float64(v.bound), v.floats
	c.server.passes.lane <- struct{}{}
	if reply, err := c.server.Rank(t.Context(), r); err != nil || len(reply.GetScores()) != 1 {
		t.Errorf("%v, %v", reply, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Batch = true
	if best, err := c.server.passes.decide(ctx, nil, nil, newFiner(r), r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", best, err)
	}
	<-c.server.passes.lane
}
