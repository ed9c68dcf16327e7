package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"recalld/embed"
	"recalld/memory"
)

// unopened stands in for a model whose stored settings cannot open one: every
// use is refused with them as the reason, so that words and the settings
// themselves still work.
type unopened struct{ cause error }

func (u unopened) refusal() error { return fmt.Errorf("%w: %w", embed.ErrRejected, u.cause) }

// Embed implements [embed.Model].
func (u unopened) Embed(context.Context, embed.Purpose, []string) ([][]float32, error) {
	return nil, u.refusal()
}

// Identity implements [embed.Model].
func (u unopened) Identity(context.Context) (embed.Identity, error) {
	return embed.Identity{}, u.refusal()
}

// Local implements [embed.Model].
func (u unopened) Local() bool { return false }

// Window implements [embed.Model].
func (u unopened) Window() embed.Window { return embed.Window{} }

// Close implements [embed.Model].
func (u unopened) Close() error { return nil }

// openGroup opens the model of a group of settings, embedding or previous. A
// refusal is a [*memory.FieldError] that names the group's own setting.
func openGroup(group string, cfg embed.Config) (embed.Model, error) {
	model, err := embed.Open(cfg)
	var refused *memory.FieldError
	if errors.As(err, &refused) {
		named := *refused
		if name, ok := strings.CutPrefix(named.Field, "embedding."); ok {
			named.Field = group + "." + name
		}
		return nil, &named
	}
	return model, err
}

// openOrDegrade is openGroup for a start. Stored settings that open nothing give
// an unopened model; overrides that take part in the refusal are refused, since
// whoever gave them is there to mend them.
func openOrDegrade(group string, cfg embed.Config, overrides map[string]string) (embed.Model, error) {
	model, err := openGroup(group, cfg)
	var refused *memory.FieldError
	if !errors.As(err, &refused) {
		return model, err
	}
	for name := range overrides {
		if strings.HasPrefix(name, group+".") {
			return nil, err
		}
	}
	return unopened{err}, nil
}

// checkOpens refuses a change of settings after which a model that could be
// opened no longer can. What was broken before may be mended step by step.
func checkOpens(name string, before, after Policy) error {
	for _, g := range []struct {
		group       string
		was, willBe embed.Config
	}{{"embedding", before.Embedding, after.Embedding}, {"previous", before.Previous, after.Previous}} {
		if !strings.HasPrefix(name, g.group+".") || opens(g.group, g.willBe) == nil || opens(g.group, g.was) != nil {
			continue
		}
		err := opens(g.group, g.willBe)
		var refused *memory.FieldError
		if errors.As(err, &refused) && refused.Field != name {
			return &memory.FieldError{Field: name, Problem: "opens no model yet, because " + refused.Field + " " + refused.Problem, Limit: refused.Limit, Next: "set " + refused.Field + " first, then " + name}
		}
		return err
	}
	return nil
}

// opens reports why a model cannot be opened; nobody is contacted.
func opens(group string, cfg embed.Config) error {
	model, err := openGroup(group, cfg)
	if err != nil {
		return err
	}
	return model.Close()
}
