package client

import "context"

// turn is a lock whose wait ends with a context.
type turn chan struct{}

func newTurn() turn {
	t := make(turn, 1)
	t <- struct{}{}
	return t
}

// acquire waits for the lock; release gives it back.
func (t turn) acquire(ctx context.Context) (release func(), err error) {
	select {
	case <-t:
		return func() { t <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
