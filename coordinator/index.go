package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recalld/memory"
	"recalld/shards"
)

// Index is the derived side as it is, with what was to be measured.
func (c *Coordinator) Index(ctx context.Context, r IndexStateRequest) (*IndexState, error) {
	if err := checkCount("approximate_recall", r.ApproximateRecall, 0, MaxRecallQueries); err != nil {
		return nil, err
	}
	var measured *ApproximateRecall
	if r.ApproximateRecall > 0 {
		var err error
		if measured, err = c.approximateRecall(ctx, r.ApproximateRecall); err != nil {
			return nil, fmt.Errorf("measure approximate recall: %w", err)
		}
	}
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	s := &IndexState{LastChange: stats.LastChange, Codes: CodeState{Scanner: ScannerOff}, ApproximateRecall: measured}
	w := c.words.State()
	s.Words = WordState{
		Files: w.Files, Bytes: w.Bytes, Rows: w.Rows, Recent: w.Recent,
		Applied: w.Applied, Sealed: w.Sealed, Building: w.Building, Trouble: w.Trouble,
	}
	if c.codes != nil {
		s.Codes = codeState(c.codes.State(ctx))
		s.Codes.Process = processState(ctx, c.codes)
	}
	return s, nil
}

func codeState(s shards.CodesState) CodeState {
	state := CodeState{
		Scanner: ScannerAuto, Generation: int64(s.Generation), Sequence: s.Sequence, Applied: s.Applied, Lag: s.Lag,
		Files: s.Files, Bytes: s.Bytes, ValueBytes: s.ValueBytes, Rows: s.Rows, Dead: s.Dead, DeltaRows: s.DeltaRows, DeltaBytes: s.DeltaBytes,
		Built: s.Built, Total: s.Total, Building: s.Building, Quarantined: int64(s.Quarantined), Restarts: s.Restarts, Trouble: s.Trouble,
	}
	if r := s.Rebuild; r != nil {
		state.Rebuild = &RebuildState{Rows: r.Rows, Total: r.Total, Since: r.Since.UTC().Format(time.RFC3339)}
	}
	return state
}

// processState is nil when no process is used.
func processState(ctx context.Context, codes *shards.Codes) *ScannerState {
	p := codes.Stats(ctx)
	if p == nil {
		return nil
	}
	return &ScannerState{
		Process: p.GetProcess(), Scans: int64(p.GetScans()), Ranks: int64(p.GetRanks()), Blocks: int64(p.GetRowsScanned()), Records: int64(p.GetRecordsScanned()),
		Bytes: int64(p.GetBytesScanned()), Passes: int64(p.GetPasses()), Coalesced: int64(p.GetCoalescedQueries()), Seconds: p.GetPassSeconds(), Waited: p.GetWaitSeconds(),
		Mapped: int64(p.GetMappedBytes()), Locked: int64(p.GetLockedBytes()), LockProblem: p.GetLockProblem(), Anonymous: int64(p.GetAnonymousBytes()),
	}
}

// The actions of ChangeIndex.
const (
	IndexRebuild = "rebuild"
	IndexVerify  = "verify"
	IndexCompact = "compact"
)

// ChangeIndex carries out an operator's word about derived files. No answer
// changes by it. progress counts bytes.
func (c *Coordinator) ChangeIndex(ctx context.Context, r IndexRequest, progress Progress) (*IndexReport, error) {
	action, err := checkWord("action", r.Action, "", IndexRebuild, IndexVerify, IndexCompact)
	switch {
	case err != nil:
		return nil, err
	case action == "":
		return nil, &memory.FieldError{Field: "action", Problem: "is empty", Limit: "rebuild, verify, compact", Next: "say what to do"}
	case r.Repair && action != IndexVerify:
		return nil, &memory.FieldError{Field: "repair", Problem: "is given with " + action, Limit: "verify", Next: "leave it out"}
	case (r.Repair || action != IndexVerify) && c.store.ReadOnly():
		return nil, fmt.Errorf("change derived files: %w", memory.ErrReadOnly)
	case action != IndexVerify && c.codes == nil:
		return nil, &memory.FieldError{Field: "scanner", Problem: "is off, so that there are no files of codes", Next: "set the setting scanner to auto and start the server again; files of words are built and merged by themselves"}
	}
	report := &IndexReport{Damaged: []string{}}
	switch action {
	case IndexRebuild:
		err = c.codes.Rebuild(ctx, progress)
	case IndexCompact:
		var done shards.CompactReport
		done, err = c.codes.Compact(ctx, progress)
		report.FilesBefore, report.FilesAfter, report.DeadRows = int64(done.FilesBefore), int64(done.FilesAfter), done.DeadRows
		report.CodeBytes, report.ValueBytes, report.Amplification = done.CodeBytes, done.ValueBytes, done.Amplification
	case IndexVerify:
		err = c.verifyIndex(ctx, r.Repair, report, progress)
	}
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", action, err)
	}
	state, err := c.Index(ctx, IndexStateRequest{})
	if err != nil {
		return nil, err
	}
	report.Index = *state
	return report, nil
}

// verifyIndex reads every derived file in full.
func (c *Coordinator) verifyIndex(ctx context.Context, repair bool, report *IndexReport, progress Progress) error {
	words, err := c.words.Verify(ctx, repair)
	report.Damaged = append(report.Damaged, words...)
	if c.codes != nil && ctx.Err() == nil {
		codes, failed := c.codes.Verify(ctx, repair, progress)
		report.Damaged = append(report.Damaged, codes...)
		err = errors.Join(err, failed)
	}
	return err
}
