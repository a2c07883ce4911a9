package mpi

import (
	"context"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
)

// What package interop needs.
func init() {
	bridge.OfComm = func(op string, comm any) (bridge.Group, error) {
		c, _ := comm.(*Comm) // nil if it is none, which usable says
		if err := c.usable(op); err != nil {
			return bridge.Group{}, err
		}
		return bridge.Group{Team: c.g.t, Ctx: c.ctx, Fail: c.g.fail}, nil
	}
	bridge.NewComm = func(ctx context.Context, t *coll.Team) (any, error) {
		initMu.Lock()
		w := current
		initMu.Unlock()
		if w == nil {
			t.Leave() // the other members may be about to wait
			t.Release()
			return nil, usage("Init", ErrFinalized, "mpi is not initialized, want Init called before")
		}
		return w.comm.With(ctx).newCommOf(t)
	}
}
