package embed

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// counting counts the requests of a real model and can be switched off.
type counting struct {
	Model
	calls int
	gone  bool
}

func (c *counting) Embed(ctx context.Context, p Purpose, texts []string) ([][]float32, error) {
	c.calls++
	if c.gone {
		return nil, ErrUnavailable
	}
	return c.Model.Embed(ctx, p, texts)
}

func cacheUnderTest(t *testing.T) (cache *QueryCache, model *counting, now *time.Time, ask func(agent, text string) bool) {
	clock := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	model = &counting{Model: newHashing()}
	cache = NewQueryCache(model, func() time.Time { return clock })
	return cache, model, &clock, func(agent, text string) bool {
		t.Helper()
		v, hit, err := cache.Embed(context.Background(), agent, text)
		if err != nil {
			t.Fatal(err)
		}
		want := vectorsOf(t, newHashing(), Query, text)
		if digest([][]float32{v}) != digest(want) {
			t.Fatalf("%q: another vector", text)
		}
		if v != nil {
			v[0] = 9 // the caller's copy
		}
		return hit
	}
}

// RR-446: 256 entries, 300 s.
func TestQueryCache(t *testing.T) {
	cache, model, now, ask := cacheUnderTest(t)
	if ask("a", "first") || !ask("a", "first") || model.calls != 1 {
		t.Fatalf("a repeated query is not a hit (%d calls)", model.calls)
	}
	*now = now.Add(QueryCacheAge - time.Nanosecond)
	if !ask("a", "first") {
		t.Error("gone before 300 s")
	}
	*now = now.Add(time.Nanosecond)
	if ask("a", "first") {
		t.Error("kept for 300 s")
	}
	for i := range QueryCacheEntries - 1 {
		ask("a", fmt.Sprint("filler ", i))
	}
	if !ask("a", "first") || cache.Len() != QueryCacheEntries {
		t.Errorf("256 entries do not fit: %d", cache.Len())
	}
	ask("a", "one more")
	if cache.Len() != QueryCacheEntries || !ask("a", "first") || ask("a", "filler 0") {
		t.Error("the least recently used entry is not the one that went")
	}
}

// DECISIONS 1: no cache crosses a scope.
func TestQueryCacheIsPerPartition(t *testing.T) {
	_, model, _, ask := cacheUnderTest(t)
	ask("a", "text")
	if ask("b", "text") || model.calls != 2 {
		t.Error("one agent's query answered another's")
	}
	ask("a\n1", "text")
	if ask("a", "1\ntext") {
		t.Error("partition and text run together")
	}
}

// RR-446 and RR-448: known queries are answered while the server is away, and a
// failure is not kept.
func TestQueryCacheDuringAnOutage(t *testing.T) {
	cache, model, _, ask := cacheUnderTest(t)
	ask("a", "known")
	model.gone = true
	if !ask("a", "known") {
		t.Error("a known query was asked again")
	}
	for range 2 {
		if _, _, err := cache.Embed(context.Background(), "a", "new"); err == nil {
			t.Error("an outage made a vector")
		}
	}
	model.gone = false
	if ask("a", "new") {
		t.Error("a failure was kept")
	}
}
