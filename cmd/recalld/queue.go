package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"recalld/front/guard"
	"recalld/memory"
)

// queueFlags bound how much a server takes in hand.
type queueFlags struct{ requests, waiting int }

func (q *queueFlags) register(c *cobra.Command) {
	c.Flags().IntVar(&q.requests, "max-requests", guard.MaxConcurrent, "requests that are answered at once")
	c.Flags().IntVar(&q.waiting, "max-waiting", guard.MaxWaiting, "requests that wait for one of these to end, in order; further ones are told to come again")
}

func (q *queueFlags) open() (*guard.Queue, error) {
	least := func(name string, n, least int) error {
		if n < least {
			return &memory.FieldError{Field: name, Problem: fmt.Sprintf("is %d", n), Limit: fmt.Sprintf("%d or more", least), Next: "leave it out for the default"}
		}
		return nil
	}
	if err := errors.Join(least("--max-requests", q.requests, 1), least("--max-waiting", q.waiting, 0)); err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if q.waiting == 0 {
		return guard.NewQueue(q.requests, -1), nil
	}
	return guard.NewQueue(q.requests, q.waiting), nil
}
