package blocktest

import (
	"context"

	"recalld/memory"
	"recalld/sqlite"
)

// Change does one of everything that can happen to a block set: a record comes,
// one is rewritten and so loses its sets, one gets a set again, one moves to
// another cell, one goes.
func (s *Scene) Change(ctx context.Context) error {
	cells := Cells()
	if err := s.Add(ctx, cells[s.random.IntN(len(cells))], 2+s.random.IntN(70)); err != nil {
		return err
	}
	if err := s.Rewrite(ctx, s.pick(), true); err != nil {
		return err
	}
	if err := s.Rewrite(ctx, s.pick(), false); err != nil {
		return err
	}
	if err := s.Move(ctx, s.pick()); err != nil {
		return err
	}
	return s.Remove(ctx, s.pick())
}

func (s *Scene) pick() memory.Ref { return s.Refs[s.random.IntN(len(s.Refs))] }

// agent finds whose record it is.
func (s *Scene) agent(ctx context.Context, ref memory.Ref) (string, error) {
	view, err := s.Store.ViewRecords(ctx)
	if err != nil {
		return "", err
	}
	defer view.Close()
	for _, agent := range []string{"mia", "ken"} {
		found, err := view.Hydrate(memory.Scope{Agent: agent}, []memory.Ref{ref})
		if err != nil || len(found) == 1 {
			return agent, err
		}
	}
	return "", nil
}

// Rewrite gives a record another text, and a set of it when again is true.
func (s *Scene) Rewrite(ctx context.Context, ref memory.Ref, again bool) error {
	agent, err := s.agent(ctx, ref)
	if err != nil {
		return err
	}
	n := 2 + s.random.IntN(8)
	text := Text(s.random, n)
	if _, err := s.Store.Update(ctx, agent, ref, sqlite.Patch{Content: &text}); err != nil || !again {
		return err
	}
	_, err = s.Store.PutBlockSets(ctx, []sqlite.BlockSet{s.Set(ref, s.Models[s.random.IntN(2)], text, n)})
	return err
}

// Move puts a record into another cell of its agent; its sets go with it.
func (s *Scene) Move(ctx context.Context, ref memory.Ref) error {
	agent, err := s.agent(ctx, ref)
	if err != nil {
		return err
	}
	to := []string{"", "atlas", "borealis"}[s.random.IntN(3)]
	_, err = s.Store.Update(ctx, agent, ref, sqlite.Patch{Project: &to})
	return err
}

// Remove deletes a record.
func (s *Scene) Remove(ctx context.Context, ref memory.Ref) error {
	agent, err := s.agent(ctx, ref)
	if err != nil {
		return err
	}
	for i := range s.Refs {
		if s.Refs[i] == ref {
			s.Refs = append(s.Refs[:i], s.Refs[i+1:]...)
			break
		}
	}
	_, err = s.Store.Delete(ctx, agent, []memory.Ref{ref})
	return err
}
