package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// Delete removes records, or with All everything the agent has but what is
// locked. Unknown, malformed and foreign references are missing.
func (c *Coordinator) Delete(ctx context.Context, r DeleteRequest) (*DeleteResponse, error) {
	if err := c.writable(ctx, r.Agent); err != nil {
		return nil, err
	}
	if r.All {
		if len(r.Refs) > 0 {
			return nil, &memory.FieldError{Field: "refs", Problem: "is given together with all", Next: "choose one of the two"}
		}
		return c.deleteAgent(ctx, r.Agent)
	}
	if err := checkCount("refs", len(r.Refs), 1, MaxDeleteRefs); err != nil {
		return nil, err
	}
	answer := &DeleteResponse{}
	refs, missing := parseRefs(r.Refs)
	answer.Missing = missing
	results, err := c.store.Delete(ctx, r.Agent, refs)
	if err != nil {
		return nil, err
	}
	gone := slices.ContainsFunc(results, func(d sqlite.DeleteResult) bool { return d.Outcome == sqlite.OutcomeDeleted })
	if err := c.erase(ctx, gone); err != nil {
		return nil, fmt.Errorf("delete: the records are gone, and their words or vectors are %w", err)
	}
	for _, d := range results {
		name := d.Ref.String()
		switch d.Outcome {
		case sqlite.OutcomeMissing:
			answer.Missing = append(answer.Missing, name)
			continue
		case sqlite.OutcomeLocked:
			answer.Locked = append(answer.Locked, name)
			continue
		}
		answer.Deleted = append(answer.Deleted, name)
		if d.Ref.Kind == memory.KindEpisode {
			answer.Episodes++
		} else {
			answer.Memories++
		}
	}
	answer.ErasePending = len(answer.Deleted) > 0 && c.store.ErasePending()
	return answer, nil
}

func (c *Coordinator) deleteAgent(ctx context.Context, agent string) (*DeleteResponse, error) {
	d, err := c.store.DeleteAgent(ctx, agent)
	if err != nil {
		return nil, err
	}
	if err := c.erase(ctx, d.Memories+d.Episodes > 0); err != nil {
		return nil, fmt.Errorf("delete: the records are gone, and their words or vectors are %w", err)
	}
	if err := c.forgetPause(ctx, agent); err != nil {
		return nil, fmt.Errorf("delete: the records are gone, and the end of a former pause is not: %w", err)
	}
	answer := &DeleteResponse{Memories: d.Memories, Episodes: d.Episodes, Profiles: d.Profiles}
	answer.ErasePending = d.Memories+d.Episodes+d.Profiles > 0 && c.store.ErasePending()
	for _, ref := range d.Locked {
		answer.Locked = append(answer.Locked, ref.String())
	}
	return answer, nil
}

// erase waits until no derived file holds the words or vectors of what was deleted
// (DECISIONS 14); gone says whether anything was. The change is durable by now, so
// that a caller who left does not stop it.
func (c *Coordinator) erase(ctx context.Context, gone bool) error {
	ctx, cancel := outlast(ctx)
	defer cancel()
	if err := c.eraseDerived(ctx, gone); err != nil {
		return fmt.Errorf("still in derived files: %w; %s", err, c.afterErasure())
	}
	return nil
}

// afterErasure is what becomes of an erasure from derived files that failed, and how
// to see it.
func (c *Coordinator) afterErasure() string {
	if c.codes == nil {
		return "files of words are tried again by themselves, and `recalld doctor` says under lexical-index while that does not succeed; files of codes in " +
			c.codesFolder + " go with the next deletion, or when a server with a scanner starts: remove that folder if you cannot wait, no answer depends on it"
	}
	return "it is tried again by itself, once a minute or more often, and by the next start; `recalld doctor` says under lexical-index and codes-index while it does not succeed, and what is in the way"
}

// outlast is a context for what follows a durable change: it does not end with
// the caller's.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), followUp)
}

// followUp is how long the work after a durable change may take.
const followUp = 5 * time.Minute

// parseRefs splits references into those that can be looked for, each once, and
// those that name nothing.
func parseRefs(texts []string) (refs []memory.Ref, missing []string) {
	seen := make(map[string]bool)
	for _, text := range texts {
		if seen[text] {
			continue
		}
		seen[text] = true
		if ref, err := memory.ParseRef(text); err == nil {
			refs = append(refs, ref)
		} else {
			missing = append(missing, shownRef(text))
		}
	}
	return refs, missing
}

// Lock locks records against update and delete, or unlocks them.
func (c *Coordinator) Lock(ctx context.Context, r LockRequest) (*LockResponse, error) {
	if err := c.writable(ctx, r.Agent); err != nil {
		return nil, err
	}
	if err := checkCount("refs", len(r.Refs), 1, MaxDeleteRefs); err != nil {
		return nil, err
	}
	refs, missing := parseRefs(r.Refs)
	result, err := c.store.SetLocked(ctx, r.Agent, refs, r.Locked)
	if err != nil {
		return nil, err
	}
	answer := &LockResponse{Done: []string{}, Missing: missing}
	for _, ref := range result.Done {
		answer.Done = append(answer.Done, ref.String())
	}
	for _, ref := range result.Missing {
		answer.Missing = append(answer.Missing, ref.String())
	}
	return answer, nil
}
