package mpi

import (
	"context"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
)

// init gives package interop access to communicators.
func init() {
	bridge.OfComm = func(op string, comm any) (bridge.Group, error) {
		c, _ := comm.(*Comm) // usable reports nil and other types
		if err := c.usable(op); err != nil {
			return bridge.Group{}, err
		}
		if c.g.upper != nil {
			return bridge.Group{}, usage(op, ErrArgument, "the communicator has ranks on several nodes, where %s is not supported yet: want a communicator of ranks of one node, as Comm.Split makes it of colors that are numbers of nodes", op)
		}
		return bridge.Group{Team: c.g.t, Ctx: c.ctx, Fail: c.g.fail}, nil
	}
	bridge.NewComm = func(ctx context.Context, t *coll.Team) (any, error) {
		initMu.Lock()
		w := current
		initMu.Unlock()
		if w == nil {
			t.Leave() // the other members may wait for this one
			t.Release()
			return nil, usage("Init", ErrFinalized, "mpi is not initialized, call mpi.Init first")
		}
		return w.comm.With(ctx).newCommOf(t)
	}
}
