package embed

import "context"

// none is the backend of an installation that searches words alone.
type none struct{}

func (none) Embed(context.Context, Purpose, []string) ([][]float32, error) {
	return nil, ErrNoModel
}
func (none) Identity(context.Context) (Identity, error) { return Identity{}, ErrNoModel }
func (none) Local() bool                                { return true }
func (none) Window() Window                             { return Window{} }
func (none) Close() error                               { return nil }
