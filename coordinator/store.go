package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"recalld/memory"
	"recalld/sqlite"
)

// What became of a record's vector when it was stored.
const (
	EmbedDone   = "done"   // made in the store path
	EmbedQueued = "queued" // the queue makes it
	EmbedOff    = "off"    // there is no model
)

// What became of an item.
const (
	OutcomeStored   = "stored"
	OutcomeRejected = "rejected"
)

// Store writes up to [MaxStoreBatch] items. Each succeeds or is rejected by
// itself; what was accepted is durable on return. Vectors are made here when
// the model is in process, else by the queue.
func (c *Coordinator) Store(ctx context.Context, r StoreRequest) (StoreResponse, error) {
	if err := c.writable(ctx, r.Agent); err != nil {
		return StoreResponse{}, err
	}
	if err := checkCount("items", len(r.Items), 1, MaxStoreBatch); err != nil {
		return StoreResponse{}, err
	}
	b := batch{agent: r.Agent, limit: c.policy().MaxContent, results: make([]StoreResult, len(r.Items))}
	for i, item := range r.Items {
		if err := b.add(i, item); err != nil {
			b.reject(i, err)
		}
	}
	if err := c.embedBatch(ctx, &b); err != nil {
		return StoreResponse{}, fmt.Errorf("store: %w", err)
	}
	if err := c.writeBatch(ctx, &b); err != nil {
		return StoreResponse{}, fmt.Errorf("store: %w", err)
	}
	c.worker.Written()
	if b.queued {
		c.worker.Wake()
	}
	return StoreResponse{Results: b.results, Advisory: c.models.notice(r.Agent)}, nil
}

// batch is one request on its way into the store. The index lists say which
// item each entry came from.
type batch struct {
	agent    string
	limit    int
	results  []StoreResult
	memories []sqlite.NewMemory
	memoryAt []int
	episodes []sqlite.NewEpisode
	epAt     []int
	profiles []memory.Profile
	profAt   []int
	queued   bool
}

func (b *batch) reject(i int, err error) {
	b.results[i] = StoreResult{Outcome: OutcomeRejected, Error: err.Error()}
}

// add checks one item; nothing of a refused one is kept.
func (b *batch) add(i int, item StoreItem) error {
	if item.Agent != "" && item.Agent != b.agent {
		return &memory.FieldError{Field: "agent", Problem: "differs from the request's", Next: "store one agent's items per request"}
	}
	kind, err := checkWord("type", item.Type, "memory", "episode", "profile")
	if err != nil {
		return err
	}
	cell := memory.Cell{Agent: b.agent, Project: item.Project, Channel: item.Channel}
	if err := cell.Check(); err != nil {
		return err
	}
	if err := onlyFieldsOf(kind, item); err != nil {
		return err
	}
	switch kind {
	case "episode":
		return b.addEpisode(i, cell, item)
	case "profile":
		return b.addProfile(i, item)
	}
	return b.addMemory(i, cell, item)
}

func (b *batch) addMemory(i int, cell memory.Cell, item StoreItem) error {
	if err := memory.CheckContent("content", item.Content, b.limit); err != nil {
		return err
	}
	if err := memory.CheckMessageID(item.MessageID); err != nil {
		return err
	}
	conflict, err := checkWord("on_conflict", item.OnConflict, "skip", "version")
	if err != nil {
		return err
	}
	if conflict == "version" && item.MessageID == "" {
		return &memory.FieldError{Field: "on_conflict", Problem: "is version without a message_id", Next: "give the message_id whose newer version this is"}
	}
	if err := checkSource(item.Source); err != nil {
		return err
	}
	metadata, err := checkMetadata(item.Metadata)
	if err != nil {
		return err
	}
	when, err := memory.ParseTime("time", item.Time)
	if err != nil {
		return err
	}
	b.memories = append(b.memories, sqlite.NewMemory{Cell: cell, Content: item.Content, MessageID: item.MessageID, Source: item.Source,
		Metadata: metadata, Time: when, Locked: item.Locked, OnConflict: conflict})
	b.memoryAt = append(b.memoryAt, i)
	return nil
}

func (b *batch) addEpisode(i int, cell memory.Cell, item StoreItem) error {
	if err := memory.CheckContent("summary", item.Summary, b.limit); err != nil {
		return err
	}
	if err := checkKeywords(item.Keywords); err != nil {
		return err
	}
	start, end, err := checkTimes(item.Start, item.End)
	if err != nil {
		return err
	}
	b.episodes = append(b.episodes, sqlite.NewEpisode{Cell: cell, Summary: item.Summary, Keywords: item.Keywords, Start: start, End: end, Resolved: item.Resolved, Locked: item.Locked})
	b.epAt = append(b.epAt, i)
	return nil
}

func (b *batch) addProfile(i int, item StoreItem) error {
	if err := memory.CheckContent("content", item.Content, memory.MaxProfile); err != nil {
		return err
	}
	if err := memory.CheckName("user_id", item.UserID); err != nil {
		return err
	}
	b.profiles = append(b.profiles, memory.Profile{Agent: b.agent, UserID: item.UserID, Content: item.Content})
	b.profAt = append(b.profAt, i)
	return nil
}

// onlyFieldsOf refuses a field that the item's type does not have, because
// dropping it would lose what the caller meant.
func onlyFieldsOf(kind string, item StoreItem) error {
	for _, f := range []struct {
		name  string
		given bool
		kinds []string
	}{
		{"content", item.Content != "", []string{"memory", "profile"}},
		{"message_id", item.MessageID != "", []string{"memory"}},
		{"on_conflict", item.OnConflict != "", []string{"memory"}},
		{"source", item.Source != memory.Source{}, []string{"memory"}},
		{"metadata", len(item.Metadata) > 0, []string{"memory"}},
		{"time", item.Time != "", []string{"memory"}},
		{"summary", item.Summary != "", []string{"episode"}},
		{"start", item.Start != "", []string{"episode"}},
		{"end", item.End != "", []string{"episode"}},
		{"keywords", len(item.Keywords) > 0, []string{"episode"}},
		{"resolved", item.Resolved, []string{"episode"}},
		{"locked", item.Locked, []string{"memory", "episode"}},
		{"project", item.Project != "", []string{"memory", "episode"}},
		{"channel", item.Channel != "", []string{"memory", "episode"}},
		{"user_id", item.UserID != "", []string{"profile"}},
	} {
		if !f.given {
			continue
		}
		if _, err := checkWord("type", kind, f.kinds...); err != nil {
			return &memory.FieldError{Field: f.name, Problem: "is not a field of type " + kind, Limit: "a field of " + strings.Join(f.kinds, " or "), Next: "remove it, or change the type"}
		}
	}
	return nil
}

// embedBatch makes vectors in process, or marks the items for the queue.
func (c *Coordinator) embedBatch(ctx context.Context, b *batch) error {
	texts := make([]string, 0, len(b.memories)+len(b.episodes))
	for _, m := range b.memories {
		texts = append(texts, m.Content)
	}
	for _, e := range b.episodes {
		texts = append(texts, e.Summary)
	}
	if len(texts) == 0 {
		return nil
	}
	made, err := c.models.documents(ctx, texts)
	if err != nil {
		return err
	}
	for i := range b.memories {
		m := &b.memories[i]
		m.Vector, m.Model, m.Queue = made.of(i)
		b.results[b.memoryAt[i]].Embed = made.word(i)
	}
	for i := range b.episodes {
		e, at := &b.episodes[i], len(b.memories)+i
		e.Vector, e.Model, e.Queue = made.of(at)
		b.results[b.epAt[i]].Embed = made.word(at)
	}
	return nil
}

// writeBatch stores what was accepted and fills in the results.
func (c *Coordinator) writeBatch(ctx context.Context, b *batch) error {
	if len(b.memories) > 0 {
		results, err := c.store.StoreMemories(ctx, b.memories)
		if err != nil {
			return err
		}
		for i, r := range results {
			b.take(b.memoryAt[i], r)
		}
	}
	if len(b.episodes) > 0 {
		results, err := c.store.StoreEpisodes(ctx, b.episodes)
		if err != nil {
			return err
		}
		for i, r := range results {
			b.take(b.epAt[i], r)
		}
	}
	for i, p := range b.profiles {
		held, err := c.Profiles(ctx, p.Agent, &p.UserID)
		if err != nil {
			return err
		}
		if len(held) > 0 && held[0].Content == p.Content {
			b.results[b.profAt[i]] = StoreResult{Outcome: sqlite.OutcomeSkipped}
			continue
		}
		if _, err := c.store.PutProfile(ctx, p); err != nil {
			if !errors.Is(err, memory.ErrInvalid) {
				return err
			}
			b.reject(b.profAt[i], err)
			continue
		}
		b.results[b.profAt[i]] = StoreResult{Outcome: OutcomeStored}
	}
	return nil
}

// take copies one result of the store.
func (b *batch) take(i int, r sqlite.StoreResult) {
	out := &b.results[i]
	out.Outcome = r.Outcome
	switch {
	case r.Err != nil:
		b.reject(i, r.Err)
		return
	case r.Ref.ID != 0:
		out.Ref = r.Ref.String()
		b.queued = b.queued || out.Embed == EmbedQueued
	default:
		out.Ref, out.Embed = r.Existing.String(), ""
	}
}
