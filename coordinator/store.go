package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"recalld/embed"
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
// the model is in process, else by the queue; those that came along are used
// where they are the configured model's. A dry run checks and compares as much and
// stores nothing.
func (c *Coordinator) Store(ctx context.Context, r StoreRequest) (StoreResponse, error) {
	if err := c.writable(ctx, r.Agent); err != nil {
		return StoreResponse{}, err
	}
	if err := checkCount("items", len(r.Items), 1, MaxStoreBatch); err != nil {
		return StoreResponse{}, err
	}
	b := batch{agent: r.Agent, limit: c.policy().MaxContent, dry: r.DryRun, above: [2]int64{r.MemoriesAbove, r.EpisodesAbove}, results: make([]StoreResult, len(r.Items))}
	for i, item := range r.Items {
		if err := b.add(i, item); err != nil {
			b.reject(i, err)
		}
	}
	c.asking.Add(1)
	defer c.asking.Add(-1)
	if err := c.embedBatch(ctx, &b); err != nil {
		return StoreResponse{}, fmt.Errorf("store: %w", err)
	}
	if err := c.writeBatch(ctx, &b); err != nil {
		return StoreResponse{}, fmt.Errorf("store: %w", err)
	}
	if !b.dry {
		c.worker.Written()
		if b.queued {
			c.worker.Wake()
		}
	}
	return StoreResponse{Results: b.results, Advisory: c.models.notice(r.Agent), TextSeconds: b.textSeconds}, nil
}

// batch is one request on its way into the store. The index lists say which
// item each entry came from.
type batch struct {
	agent    string
	limit    int
	dry      bool
	above    [2]int64 // the last numbers of memories and episodes before an import
	results  []StoreResult
	memories []sqlite.NewMemory
	memoryAt []int
	vectors  [2][]keptVector // that came along, of memories and of episodes
	episodes []sqlite.NewEpisode
	epAt     []int
	profiles []memory.Profile
	profAt   []int
	queued   bool

	textSeconds float64 // of a dry run
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
	if item.Version != 0 && conflict != "version" {
		return &memory.FieldError{Field: "version", Problem: "is given without on_conflict version", Next: "add on_conflict, or leave it out"}
	}
	kept, vector, err := readKept(item, b.above[0])
	if err != nil {
		return err
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
		Metadata: metadata, Time: when, Locked: item.Locked, OnConflict: conflict, Version: item.Version, Kept: kept})
	b.memoryAt, b.vectors[0] = append(b.memoryAt, i), append(b.vectors[0], vector)
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
	kept, vector, err := readKept(item, b.above[1])
	if err != nil {
		return err
	}
	b.episodes = append(b.episodes, sqlite.NewEpisode{Cell: cell, Summary: item.Summary, Keywords: item.Keywords, Start: start, End: end, Resolved: item.Resolved, Locked: item.Locked, Kept: kept})
	b.epAt, b.vectors[1] = append(b.epAt, i), append(b.vectors[1], vector)
	return nil
}

func (b *batch) addProfile(i int, item StoreItem) error {
	if err := memory.CheckContent("content", item.Content, memory.MaxProfile); err != nil {
		return err
	}
	if err := memory.CheckName("user_id", item.UserID); err != nil {
		return err
	}
	kept, _, err := readKept(item, 0)
	if err != nil {
		return err
	}
	b.profiles = append(b.profiles, memory.Profile{Agent: b.agent, UserID: item.UserID, Content: item.Content, Updated: kept.Updated})
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
		{"version", item.Version != 0, []string{"memory"}},
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
	mine, err := c.models.reuse(ctx, texts, slices.Concat(b.vectors[0], b.vectors[1]), b.dry)
	if err != nil {
		return err
	}
	var rest []string
	for i, text := range texts {
		if !mine[i].own {
			rest = append(rest, text)
		}
	}
	fresh, err := c.embedRest(ctx, b, rest)
	if err != nil {
		return err
	}
	next := 0
	place := func(i int, came keptVector) (vector []float32, model int64, queue []int64, word string) {
		if mine[i].own {
			return came.values, mine[i].model, nil, EmbedKept
		}
		vector, model, queue = fresh.of(next)
		word = fresh.word(next)
		next++
		if came.values == nil || mine[i].model == 0 {
			return vector, model, queue, word
		}
		// Another model's: kept, and the configured one embeds the text beside.
		if model != 0 {
			queue = []int64{model}
		}
		if word == EmbedDone {
			word = EmbedQueued
		}
		return came.values, mine[i].model, queue, word
	}
	for i := range b.memories {
		m := &b.memories[i]
		m.Vector, m.Model, m.Queue, b.results[b.memoryAt[i]].Embed = place(i, b.vectors[0][i])
	}
	for i := range b.episodes {
		e := &b.episodes[i]
		e.Vector, e.Model, e.Queue, b.results[b.epAt[i]].Embed = place(len(b.memories)+i, b.vectors[1][i])
	}
	return nil
}

// timedTexts is on how many texts a dry run measures the model.
const timedTexts = 4

// embedRest makes the vectors of the texts that brought none of use along. A dry
// run makes a few and throws them away, to know how long they take.
func (c *Coordinator) embedRest(ctx context.Context, b *batch, texts []string) (made, error) {
	switch {
	case len(texts) == 0:
		return made{}, nil
	case !b.dry:
		return c.models.documents(ctx, texts)
	}
	off := c.models.advisory.State() == embed.Hint
	model, _, _ := c.models.writer.now()
	some := texts[:min(timedTexts, len(texts))]
	began := c.clock()
	if _, err := model.Embed(ctx, embed.Document, some); err == nil {
		b.textSeconds = c.clock().Sub(began).Seconds() / float64(len(some))
	} else if ctx.Err() != nil {
		return made{}, ctx.Err()
	}
	return made{off: off}, nil
}

// writeBatch stores what was accepted and fills in the results.
func (c *Coordinator) writeBatch(ctx context.Context, b *batch) error {
	storeMemories, storeEpisodes := c.store.StoreMemories, c.store.StoreEpisodes
	if b.dry {
		storeMemories, storeEpisodes = c.store.TryMemories, c.store.TryEpisodes
	}
	if len(b.memories) > 0 {
		results, err := storeMemories(ctx, b.memories)
		if err != nil {
			return err
		}
		for i, r := range results {
			b.take(b.memoryAt[i], r)
		}
	}
	if len(b.episodes) > 0 {
		results, err := storeEpisodes(ctx, b.episodes)
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
		if len(held) > 0 && (held[0].Content == p.Content || p.Updated.Known && p.Updated.Milli < held[0].Updated.Milli) {
			// The same, or one that is older than what is there.
			b.results[b.profAt[i]] = StoreResult{Outcome: sqlite.OutcomeSkipped}
			continue
		}
		if b.dry {
			b.results[b.profAt[i]] = StoreResult{Outcome: OutcomeStored}
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
