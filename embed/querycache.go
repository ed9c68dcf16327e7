package embed

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Size and age of the query-embedding cache (RR-446).
const (
	QueryCacheEntries = 256
	QueryCacheAge     = 300 * time.Second
)

// QueryCache keeps the vectors of recent queries, so that a repeated recall costs
// no request, and answers for known queries while the server is away. Its methods
// may be called concurrently.
//
// Entries are kept per model identity and per partition: a quantised server may
// answer the same text differently a second time, and what one agent asked must
// not decide what another one gets (DECISIONS 1). Texts are kept as hashes only.
type QueryCache struct {
	model Model
	now   func() time.Time

	mu      sync.Mutex
	entries map[[sha256.Size]byte]*list.Element
	recent  *list.List // of *cachedQuery, newest use first
}

type cachedQuery struct {
	key    [sha256.Size]byte
	vector []float32
	made   time.Time
}

// NewQueryCache returns an empty cache in front of m. Entries age by now.
func NewQueryCache(m Model, now func() time.Time) *QueryCache {
	return &QueryCache{
		model:   m,
		now:     now,
		entries: make(map[[sha256.Size]byte]*list.Element),
		recent:  list.New(),
	}
}

// Embed returns the query's unit vector, which the caller may change, or nil when
// the model cannot embed it. Partition is the agent; hit says that no model was
// asked. Errors are those of [Model.Embed] and are not kept.
func (c *QueryCache) Embed(ctx context.Context, partition, query string) (vector []float32, hit bool, err error) {
	id, err := c.model.Identity(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("embed query: %w", err)
	}
	key := cacheKey(id, partition, query)
	if vector, ok := c.get(key); ok {
		return vector, true, nil
	}
	vectors, err := c.model.Embed(ctx, Query, []string{query})
	if err != nil {
		return nil, false, fmt.Errorf("embed query: %w", err)
	}
	c.put(key, vectors[0])
	return slices.Clone(vectors[0]), false, nil
}

func cacheKey(id Identity, partition, query string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s\n%s", id.Key(), len(partition), partition, query))
}

func (c *QueryCache) get(key [sha256.Size]byte) ([]float32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	if !ok {
		return nil, false
	}
	entry := at.Value.(*cachedQuery)
	if age := c.now().Sub(entry.made); age < 0 || age >= QueryCacheAge {
		c.drop(at)
		return nil, false
	}
	c.recent.MoveToFront(at)
	return slices.Clone(entry.vector), true
}

func (c *QueryCache) put(key [sha256.Size]byte, vector []float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.entries[key]; ok {
		c.drop(at)
	}
	c.entries[key] = c.recent.PushFront(&cachedQuery{key: key, vector: slices.Clone(vector), made: c.now()})
	for c.recent.Len() > QueryCacheEntries {
		c.drop(c.recent.Back())
	}
}

func (c *QueryCache) drop(at *list.Element) {
	c.recent.Remove(at)
	delete(c.entries, at.Value.(*cachedQuery).key)
}

// Len returns the number of kept vectors, at most [QueryCacheEntries].
func (c *QueryCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len()
}
