package scanner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// crowd is a world whose processor the test holds, so that passes stand still
// until it lets go.
type crowd struct {
	*world
	held  *turn
	order []uint64 // agents whose turns began
	wait  sync.WaitGroup
	ended atomic.Int64
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	w := newWorld(t, seed, 64)
	w.server.Close()
	w.server = NewServer(Options{Threads: 1})
	t.Cleanup(w.server.Close)
	w.open()
	return &crowd{world: w}
}

func (c *crowd) hold() {
	held, err := c.server.turns.take(c.t.Context(), 99, false)
	c.must(err)
	c.held = held
	c.server.turns.seen = func(agent uint64, _ bool) { c.order = append(c.order, agent) }
}

// scan begins a scan.
func (c *crowd) scan(ctx context.Context, r *scannerv1.ScanRequest, then func(*scannerv1.ScanReply, error)) {
	c.wait.Go(func() {
		then(c.server.Scan(ctx, r))
		c.ended.Add(1)
	})
}

// until waits for something that another goroutine is about to do.
func (c *crowd) until(done func() bool) {
	for !done() {
		if c.t.Context().Err() != nil {
			c.t.Fatal("it does not happen")
		}
		runtime.Gosched()
	}
}

// waiting is how many scans wait for the pass before theirs to end, of so many
// groups.
func (c *crowd) waiting() (scans, groups int) {
	p := &c.server.passes
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, same := range p.groups {
		for _, g := range same {
			groups++
			scans += len(g.waiting)
		}
	}
	return scans, groups
}

// inLine is how many agents want a turn.
func (c *crowd) inLine() int {
	s := c.server.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring)
}

// Scans that come while others wait for the processor go together, and get what they would get alone.
//
// DECISIONS 1, 2
func TestScansShareAPass(t *testing.T) {
	c := newCrowd(t, 11)
	var records []record
	for range 60 {
		records = append(records, c.record())
	}
	c.addSegment(records, nil)
	c.doPublish()
	first := c.request()
	var requests []*scannerv1.ScanRequest
	queries := 0
	for i := range 20 {
		r := c.request()
		r.Scope, r.PerParent, r.Only, r.Batch = first.Scope, first.PerParent, first.Only, first.Batch
		r.Most = uint64([]int{0, 1000, 1}[i%3])
		requests = append(requests, r)
		if r.GetMost() != 1 {
			queries += len(r.GetQueries())
		}
	}
	other := proto.CloneOf(requests[0])
	other.Scope.Agent = 3 - other.GetScope().GetAgent()
	requests = append(requests, other)
	var alone []*scannerv1.ScanReply
	for _, r := range requests {
		reply, err := c.server.Scan(t.Context(), r)
		c.must(err)
		alone = append(alone, reply)
	}
	before, err := c.server.Stats(t.Context(), nil)
	c.must(err)
	c.hold()
	c.scan(t.Context(), first, func(_ *scannerv1.ScanReply, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	c.until(func() bool { return c.inLine() == 1 })
	for i, r := range requests {
		c.scan(t.Context(), r, func(got *scannerv1.ScanReply, err error) {
			if err != nil || !proto.Equal(got, alone[i]) {
				t.Errorf("request %d, %s\ntogether %s, %v\nalone    %s", i, prototext.Format(r), prototext.Format(got), err, prototext.Format(alone[i]))
			}
		})
	}
	over := 0
	for _, reply := range alone {
		if reply.GetOver() {
			over++
		}
	}
	if over == 0 {
		t.Fatal("no request is over: the world is too small")
	}
	c.until(func() bool { // those over a limit are answered at once
		scans, groups := c.waiting()
		return groups == 2 && scans == 1+len(requests)-over
	})
	c.held.end(0)
	c.wait.Wait()
	after, err := c.server.Stats(t.Context(), nil)
	c.must(err)
	read := after.GetBytesScanned() - before.GetBytesScanned()
	if after.GetCoalescedQueries() < uint64(queries)-kernel.MaxQueries || 2*read > before.GetBytesScanned() {
		t.Errorf("%d of %d queries were shared; %d bytes were read for what takes %d alone", after.GetCoalescedQueries(), queries, read, before.GetBytesScanned())
	}
}

// Scans that come in the middle of others read on with them and then what they
// missed, over files and delta, and get what they would get alone.
//
// DECISIONS 1, 2
func TestLateScansGoOnceAround(t *testing.T) {
	for _, threads := range []int{1, 2} {
		c := newCrowd(t, 15)
		c.server.Close()
		c.server = NewServer(Options{Threads: threads})
		t.Cleanup(c.server.Close)
		c.open()
		id := int64(0)
		for range 2 {
			w, err := layout.Create(c.dir, layout.Spec{Source: c.source(), Kind: layout.Signs, Lean: true, Sequence: 10, Lineage: 1})
			c.must(err)
			for _, cell := range []layout.Cell{{Agent: 1}, {Agent: 1, Project: 10}} {
				for range kernel.TileRows / 2 {
					id++
					for i := range 3 {
						c.must(w.Add(layout.Row{Cell: cell, Ref: memory.Ref{Kind: memory.KindMemory, ID: id}, Block: i, Code: c.code()}))
					}
				}
			}
			name, err := w.Finish()
			c.must(err)
			c.publish.Segments = append(c.publish.Segments, &scannerv1.Segment{Model: modelNumber, Name: name})
		}
		c.doPublish()
		apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: 11}
		for range 5 {
			id++
			apply.Changes = append(apply.Changes, change(layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: id}, []block{{code: make([]byte, 8)}}))
		}
		_, err := c.server.Apply(t.Context(), apply)
		c.must(err)
		request := func() *scannerv1.ScanRequest {
			return &scannerv1.ScanRequest{Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1},
				Queries: []*scannerv1.Query{{Code: c.code(), Rows: uint32(1 + c.r.IntN(300)), Parents: uint32(c.r.IntN(40))}}}
		}
		var requests []*scannerv1.ScanRequest
		var alone []*scannerv1.ScanReply
		for range 6 {
			requests = append(requests, request())
			reply, err := c.server.Scan(t.Context(), requests[len(requests)-1])
			c.must(err)
			alone = append(alone, reply)
		}
		before, err := c.server.Stats(t.Context(), nil)
		c.must(err)
		next := 0
		begin := func() {
			i := next
			next++
			c.scan(t.Context(), requests[i], func(got *scannerv1.ScanReply, err error) {
				if err != nil || !proto.Equal(got, alone[i]) {
					t.Errorf("%d threads, scan %d: %v\ntogether %s\nalone    %s", threads, i, err, prototext.Format(got), prototext.Format(alone[i]))
				}
			})
		}
		c.server.turns.quantum = 1 // a turn is a tile
		turn := 0
		c.server.turns.seen = func(uint64, bool) { // the pass stands still meanwhile
			if turn++; turn%2 == 0 && next < len(requests) {
				begin()
				if threads == 1 { // else they come when they like
					c.until(func() bool { scans, _ := c.waiting(); return scans > 0 })
				}
			}
		}
		begin()
		c.wait.Wait()
		after, err := c.server.Stats(t.Context(), nil)
		c.must(err)
		if read := after.GetBytesScanned() - before.GetBytesScanned(); threads == 1 && (next < len(requests) || read > before.GetBytesScanned()*3/4 || after.GetCoalescedQueries() < 5) {
			t.Errorf("%d scans, %d bytes read where %d are alone, %d shared", next, read, before.GetBytesScanned(), after.GetCoalescedQueries())
		}
	}
}

// A scan that ends early disturbs nobody with whom it shares the reading, not even
// the first of them.
func TestCancelledScanDisturbsNobody(t *testing.T) {
	c := newCrowd(t, 12)
	rec := record{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 1}, []block{{code: c.code()}}}
	c.addSegment([]record{rec}, nil)
	c.doPublish()
	r := &scannerv1.ScanRequest{Sequence: 10, Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Queries: []*scannerv1.Query{{Code: c.code(), Rows: 1}}}
	c.hold()
	cancels := make([]context.CancelFunc, 5)
	errs := make([]error, 5)
	start := func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		cancels[i] = cancel
		c.scan(ctx, r, func(reply *scannerv1.ScanReply, err error) {
			if errs[i] = err; err == nil && len(reply.GetAnswers()[0].GetRows().GetIds()) != 1 {
				t.Errorf("scan %d: %v", i, reply)
			}
		})
	}
	for i := range 5 { // they wait for the processor
		start(i)
	}
	c.until(func() bool { scans, _ := c.waiting(); return scans == 5 })
	cancels[0]()
	cancels[2]()
	c.until(func() bool { return c.ended.Load() == 2 })
	c.held.end(0)
	c.wait.Wait()
	for i, err := range errs {
		cancels[i]()
		if gone := i == 0 || i == 2; gone != (err != nil) {
			t.Errorf("scan %d: %v", i, err)
		}
	}
	c.server.passes.tasks.Wait()
	if scans, groups := c.waiting(); scans != 0 || groups != 0 {
		t.Errorf("%d scans and %d groups are left", scans, groups)
	}
}

// A small agent's scan beside those of large ones waits for one turn of each, not
// for their passes; maintenance waits for all, and one pass of it for another.
//
// DECISIONS 1
func TestSmallScansDoNotWaitForLargeOnes(t *testing.T) {
	c := newCrowd(t, 13)
	const tiles = 3
	w, err := layout.Create(c.dir, layout.Spec{Source: c.source(), Kind: layout.Signs, Lean: true, Sequence: 10, Lineage: 1})
	c.must(err)
	id := int64(0)
	for agent, rows := range []int{tiles * kernel.TileRows, tiles * kernel.TileRows, tiles * kernel.TileRows, tiles * kernel.TileRows, 10} {
		for range rows {
			id++
			c.must(w.Add(layout.Row{Cell: layout.Cell{Agent: uint64(agent) + 1}, Ref: memory.Ref{Kind: memory.KindMemory, ID: id}, Code: []byte{1, 2, 3, 4, 5, 6, 7, 8}}))
		}
	}
	name, err := w.Finish()
	c.must(err)
	c.publish.Segments = []*scannerv1.Segment{{Model: modelNumber, Name: name}}
	c.doPublish()
	c.server.turns.quantum = kernel.TileRows * 8
	c.hold()
	for i, r := range []struct {
		agent uint64
		batch bool
	}{{3, true}, {4, true}, {1, false}, {2, false}, {5, false}} {
		c.scan(t.Context(), &scannerv1.ScanRequest{Sequence: 10, Model: modelNumber, Scope: &scannerv1.Scope{Agent: r.agent}, Batch: r.batch,
			Queries: []*scannerv1.Query{{Code: make([]byte, 8), Rows: 1}}}, func(_ *scannerv1.ScanReply, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		c.until(func() bool { // each is in line before the next one begins, or waits for maintenance to end
			s := c.server.turns
			s.mu.Lock()
			defer s.mu.Unlock()
			_, groups := c.waiting()
			return groups == i+1 && (r.batch || len(s.ring) == i-1) && len(s.batch) == 1
		})
	}
	c.held.end(0)
	c.wait.Wait()
	small := slices.Index(c.order, 5)
	if small > 2 {
		t.Errorf("the small scan is in place %d: %v", small, c.order)
	}
	last := func(agent uint64) int { return len(c.order) - 1 - slices.Index(reversed(c.order), agent) }
	for _, agent := range []uint64{3, 4} {
		if before := slices.Index(c.order, agent); before < last(1) || before < last(2) {
			t.Errorf("maintenance did not wait: %v", c.order)
		}
	}
	if last(3) > slices.Index(c.order, 4) && last(4) > slices.Index(c.order, 3) {
		t.Errorf("two passes of maintenance ran at a time: %v", c.order)
	}
}

func reversed(s []uint64) []uint64 {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// One damaged file is the error of every scan of the pass.
func TestSharedDamageIsEverybodysError(t *testing.T) {
	c := newCrowd(t, 14)
	rec := record{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 1}, []block{{code: c.code()}}}
	c.addSegment([]record{rec}, nil)
	c.damage(c.publish.GetSegments()[0].GetName(), layout.HeaderBytes)
	c.doPublish()
	c.hold()
	var mu sync.Mutex
	var errs error
	for range 4 {
		c.scan(t.Context(), &scannerv1.ScanRequest{Sequence: 10, Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Queries: []*scannerv1.Query{{Code: c.code(), Rows: 1}}},
			func(reply *scannerv1.ScanReply, err error) {
				if reason(err).GetReason() != scannerv1.Reason_REASON_FILE {
					mu.Lock()
					defer mu.Unlock()
					errs = errors.Join(errs, fmt.Errorf("%v, %w", reply, err))
				}
			})
	}
	c.held.end(0)
	c.wait.Wait()
	if errs != nil {
		t.Error(errs)
	}
}

// threeTiles is a segment of one agent of three tiles and some rows, whose records
// have so many blocks each.
func (c *crowd) threeTiles(each int) {
	w, err := layout.Create(c.dir, layout.Spec{Source: c.source(), Kind: layout.Signs, Lean: true, Sequence: 10, Lineage: 1})
	c.must(err)
	for id := int64(1); int(id)*each <= 3*kernel.TileRows+100; id++ {
		for i := range each {
			c.must(w.Add(layout.Row{Cell: layout.Cell{Agent: 1}, Ref: memory.Ref{Kind: memory.KindMemory, ID: id}, Block: i, Code: c.code()}))
		}
	}
	name, err := w.Finish()
	c.must(err)
	c.publish.Segments = []*scannerv1.Segment{{Model: modelNumber, Name: name}}
	c.doPublish()
	c.server.turns.quantum = 1 // a turn is a tile
}

func (c *crowd) ofAll(parents uint32) *scannerv1.ScanRequest {
	return &scannerv1.ScanRequest{Sequence: 10, Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Queries: []*scannerv1.Query{{Code: c.code(), Rows: 5, Parents: parents}}}
}

// soon waits for what another goroutine is about to do, and goes on without it
// when that does not happen.
func soon(done func() bool) {
	for end := time.Now().Add(10 * time.Second); !done() && time.Now().Before(end); {
		runtime.Gosched()
	}
}

// told waits for the group that runs to hear that somebody came or went.
func (c *crowd) told() {
	for _, same := range c.server.passes.groups {
		soon(same[0].changed.Load)
	}
}

// A scan whose caller leaves while it is the only one ends at the next tile.
func TestCancelledLoneScanEnds(t *testing.T) {
	c := newCrowd(t, 16)
	c.threeTiles(1)
	_, err := c.server.Scan(t.Context(), c.ofAll(0)) // all is verified
	c.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	turns := 0
	c.server.turns.seen = func(uint64, bool) {
		if turns++; turns == 2 { // a tile was read
			cancel()
			c.told()
		}
	}
	if reply, err := c.server.Scan(ctx, c.ofAll(0)); err == nil || turns != 2 {
		t.Errorf("%v after %d turns: %v", err, turns, reply)
	}
}

// What was not verified before is verified no further when nobody waits for it.
func TestCancelledScanStopsVerifying(t *testing.T) {
	c := newCrowd(t, 17)
	c.threeTiles(1)
	ctx, cancel := context.WithCancel(t.Context())
	turns := 0
	c.server.turns.seen = func(uint64, bool) {
		if turns++; turns == 2 { // a tile was verified
			cancel()
			c.told()
		}
	}
	if reply, err := c.server.Scan(ctx, c.ofAll(0)); err == nil {
		t.Error(reply)
	}
	n := 0
	for i := range c.server.state.models[modelNumber].segments[0].verified {
		if c.server.state.models[modelNumber].segments[0].verified[i].Load() {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d tiles were verified", n)
	}
}

// Where verifying ends early and a record stands across the end, its blocks are
// compared together: it is in the answer once, with the best of them.
//
// BR-035
func TestCutVerificationKeepsRecordsWhole(t *testing.T) {
	c := newCrowd(t, 18)
	c.threeTiles(3) // which does not divide a tile
	request := c.ofAll(maxWanted)
	turns := 0
	c.server.turns.seen = func(uint64, bool) {
		if turns++; turns == 2 { // a tile was verified
			for _, same := range c.server.passes.groups {
				same[0].changed.Store(true)
			}
		}
	}
	cut, err := c.server.Scan(t.Context(), request)
	c.must(err)
	whole, err := c.server.Scan(t.Context(), request) // verified by now
	c.must(err)
	if turns < 2 || !proto.Equal(cut, whole) {
		t.Errorf("%d records, %d of them there", len(cut.GetAnswers()[0].GetParents().GetIds()), len(whole.GetAnswers()[0].GetParents().GetIds()))
	}
}

// A scan that others have joined is answered when it is done; they are read for on
// another goroutine.
func TestScanDoesNotReadForOthers(t *testing.T) {
	c := newCrowd(t, 19)
	c.threeTiles(1)
	_, err := c.server.Scan(t.Context(), c.ofAll(0)) // all is verified
	c.must(err)
	late := c.ofAll(0)
	turns, done := 0, make(chan struct{})
	c.server.turns.seen = func(uint64, bool) {
		switch turns++; {
		case turns == 2: // a tile was read
			c.scan(t.Context(), late, func(_ *scannerv1.ScanReply, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			c.until(func() bool { scans, _ := c.waiting(); return scans == 1 })
		case turns > 5: // all tiles were, and the first one again
			soon(func() bool {
				select {
				case <-done:
					return true
				default:
					return false
				}
			})
			select {
			case <-done:
			default:
				t.Error("the first scan reads for the second one")
			}
		}
	}
	_, err = c.server.Scan(t.Context(), c.ofAll(0))
	close(done)
	c.must(err)
	c.wait.Wait()
	if turns != 6 {
		t.Errorf("%d turns, not 6", turns)
	}
}

// A scan that joins when the one that reads is done has the files looked at, as any
// other that joins.
func TestScanThatTakesOverLooksAtTheFiles(t *testing.T) {
	c := newCrowd(t, 20)
	c.threeTiles(1)
	_, err := c.server.Scan(t.Context(), c.ofAll(0)) // all is verified
	c.must(err)
	late := c.ofAll(0)
	turns := 0
	c.server.turns.seen = func(uint64, bool) {
		if turns++; turns == 5 { // all tiles were read
			c.must(os.Chtimes(filepath.Join(c.dir, c.publish.GetSegments()[0].GetName()), time.Time{}, time.Unix(1, 0)))
			c.scan(t.Context(), late, func(reply *scannerv1.ScanReply, err error) {
				if reason(err).GetReason() != scannerv1.Reason_REASON_FILE {
					t.Errorf("%v of a file that was written to: %v", err, reply.GetAnswers())
				}
			})
			c.until(func() bool { scans, _ := c.waiting(); return scans == 1 })
		}
	}
	_, err = c.server.Scan(t.Context(), c.ofAll(0))
	c.must(err)
	c.wait.Wait()
	if turns < 5 {
		t.Errorf("%d turns", turns)
	}
}
