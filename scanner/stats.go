package scanner

import (
	"context"
	"os"
	"time"

	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// Stats implements the service.
func (s *Server) Stats(context.Context, *scannerv1.StatsRequest) (*scannerv1.StatsReply, error) {
	st, err := s.enter()
	if err != nil {
		return nil, wire(err)
	}
	defer s.release(st.lease)
	turns, waited := s.turns.numbers()
	reply := &scannerv1.StatsReply{State: st.wire(), Process: int64(os.Getpid()), Scans: s.scans.Load(), RowsScanned: s.scanned.Load(),
		Ranks: s.ranks.Load(), RecordsScanned: s.ranked.Load(), Passes: s.passes.passed.Load(), CoalescedQueries: s.passes.shared.Load(),
		PassSeconds: time.Duration(s.passes.nanoseconds.Load()).Seconds(), WaitSeconds: waited.Seconds(), Turns: turns,
		BytesScanned: s.passes.bytes.Load(), AnonymousBytes: anonymous(), LockProblem: s.locking.trouble()}
	for _, f := range st.lease.files {
		reply.MappedBytes += uint64(len(f.mapped()))
		if f.locked.Load() {
			reply.LockedBytes += uint64(len(f.mapped()))
		}
	}
	for _, m := range st.models {
		reply.Segments += uint64(len(m.segments) + len(m.records))
		for _, segment := range m.segments {
			reply.SegmentRows += uint64(segment.Header().Rows)
			reply.DeadRows += segment.dead.GetCardinality()
		}
		for _, segment := range m.records {
			reply.RecordRows += uint64(segment.Header().Rows)
			reply.DeadRecords += segment.dead.GetCardinality()
		}
		for _, p := range m.delta {
			reply.DeltaRows += uint64(p.rows())
			reply.DeltaBytes += uint64(p.bytes())
		}
		for _, v := range m.vectors {
			reply.DeltaRecords += uint64(len(v.refs))
			reply.DeltaBytes += uint64(v.bytes())
		}
	}
	return reply, nil
}
