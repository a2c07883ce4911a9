package client

import (
	"context"
	"fmt"
	"os"
)

// shared is the client that all parts of a process use together.
type shared struct {
	turn   turn // protects client
	client *Client
}

func newShared() *shared { return &shared{turn: newTurn()} }

var process = newShared()

// Init returns the process's client, connecting it as the environment says if this is the first use. Every Init needs a
// Finalize of its own; the last of them tells the server, after which Init connects again.
//
//   - Errors: ErrNotLaunched; ErrLostConnection when the client in use has lost its server; those of FromEnv and Dial.
func Init(ctx context.Context) (*Client, error) { return process.init(ctx, os.LookupEnv) }

func (s *shared) init(ctx context.Context, lookup func(string) (string, bool)) (*Client, error) {
	release, err := s.turn.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("pmix init: %w", err)
	}
	defer release()
	if s.client != nil {
		used, err := s.reuse(ctx)
		if err != nil {
			return nil, err
		}
		if used {
			return s.client, nil
		}
	}
	opts, launched, err := FromEnv(lookup)
	if err != nil {
		return nil, err
	}
	if !launched {
		return nil, ErrNotLaunched
	}
	if s.client, err = Dial(ctx, opts); err != nil {
		return nil, err
	}
	return s.client, nil
}

// reuse adds a use to the present client. If its last Finalize has begun, reuse waits until that returns.
func (s *shared) reuse(ctx context.Context) (bool, error) {
	if used, err := s.client.session.addUser(); used || err != nil {
		return used, err
	}
	select {
	case <-s.client.session.ended:
		return false, nil
	case <-ctx.Done():
		return false, fmt.Errorf("pmix init: %w", ctx.Err())
	}
}
