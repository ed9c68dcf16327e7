package embed

import (
	"context"
	"fmt"

	"recalld/embed/static"
)

// distilled is the model static-e5-v2 (package static) as a backend. Query and
// document are treated alike.
type distilled struct {
	table *static.Table
	known *localIdentity
}

func newStatic() (Model, error) {
	table, err := static.Load()
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return distilled{table, &localIdentity{}}, nil
}

func (distilled) Local() bool    { return true }
func (distilled) Window() Window { return Window{Limit: static.Window, Unit: "piece", Known: true} }
func (distilled) Close() error   { return nil }

// Embed implements [Model]. Only a text of no characters has no vector.
func (m distilled) Embed(ctx context.Context, _ Purpose, texts []string) ([][]float32, error) {
	var scratch static.Scratch
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("embed: %w", err)
		}
		vectors[i] = unitSum(m.table.Sum(&scratch, text))
	}
	return vectors, nil
}

// Identity implements [Model].
func (m distilled) Identity(ctx context.Context) (Identity, error) {
	return m.known.of(ctx, m, "static", static.Name, static.Dims)
}

// CountTokens implements [TokenCounter].
func (m distilled) CountTokens(ctx context.Context, texts []string) ([]TokenCount, error) {
	var scratch static.Scratch
	counts := make([]TokenCount, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("embed: count tokens: %w", err)
		}
		pieces, end := m.table.Count(&scratch, text)
		counts[i] = TokenCount{Tokens: pieces, Window: static.Window, WindowEnd: end}
	}
	return counts, nil
}
