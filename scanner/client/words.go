package client

import (
	"context"
	"fmt"
	"path/filepath"

	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// LoadWords gives the process a copy of the lexical index whose files are in a
// folder, which must be in that of the options or beside it. A process that
// starts later has none: its searches are ErrBehind until it is given one.
func (c *Client) LoadWords(ctx context.Context, folder string, r *scannerv1.LoadWordsRequest) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	relative, err := filepath.Rel(c.options.Folder, folder)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	r.Folder = relative
	return c.doWithin(ctx, 0, func(p *process) error { // no search waits for it
		_, err := p.words.Load(ctx, r)
		return err
	})
}

// ChangeWords takes the copy from a version to a later one. ErrBehind says that
// the process has another version; after any error it is to be loaded again.
func (c *Client) ChangeWords(ctx context.Context, r *scannerv1.ChangeWordsRequest) error {
	return c.words(ctx, func(calls scannerv1.WordsClient) error {
		_, err := calls.Change(ctx, r)
		return err
	})
}

// SearchWords asks the copy. ErrBehind says that there is none that reaches the
// wanted version.
func (c *Client) SearchWords(ctx context.Context, r *scannerv1.SearchWordsRequest) (reply *scannerv1.SearchWordsReply, err error) {
	err = c.words(ctx, func(calls scannerv1.WordsClient) (err error) {
		reply, err = calls.Search(ctx, r)
		return err
	})
	return reply, err
}

// words makes a call of the service of words, as do makes one of the scanner's.
func (c *Client) words(ctx context.Context, call func(scannerv1.WordsClient) error) error {
	return c.do(ctx, func(p *process) error { return call(p.words) })
}
