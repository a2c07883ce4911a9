package mpi

import (
	"context"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
)

// bridgeNumber makes the calls of package interop differ from those of CreateGroup and others.
const bridgeNumber = 4 * interTag

// init gives packages interop and mpi/win access to communicators.
func init() {
	bridge.OfComm = ranksOfComm
	bridge.ContextOf = func(op string, comm any) (context.Context, error) {
		c, _ := comm.(*Comm) // usable reports nil and other types
		if err := c.usable(op); err != nil {
			return nil, err
		}
		return c.ctx, nil
	}
	bridge.NewCommOf = func(ctx context.Context, pes []int, name [2]uint64) (any, error) {
		w, err := currentForBridge()
		if err != nil {
			return nil, err
		}
		return newMessagingComm(w.comm.With(ctx), "Comm.CreateGroup", pes, bridgeNumber-int((name[0]^name[1])>>24)) // rank i of the world is PE i
	}
	bridge.NewComm = func(ctx context.Context, t *coll.Team) (any, error) {
		w, err := currentForBridge()
		if err != nil {
			t.Leave() // the other members may wait for this one
			t.Release()
			return nil, err
		}
		return newCommOf(w.comm.With(ctx), t)
	}
	bridge.CommHandle = func(comm any) (plain any, lives func() bool) {
		c := comm.(*Comm) //nolint:errcheck,forcetypeassert // the caller has it from this package
		if c.ctx != nil {
			c = &Comm{g: c.g}
		}
		return c, func() bool { return !c.g.freed.Load() && !c.g.e.closed.Load() }
	}
}

// currentForBridge returns the World of this process.
func currentForBridge() (*World, error) {
	initMu.Lock()
	defer initMu.Unlock()
	if current == nil {
		return nil, usage("Init", ErrFinalized, "mpi is not initialized, call mpi.Init first")
	}
	return current, nil
}

// ranksOfComm is bridge.OfComm.
func ranksOfComm(op, what string, comm any) (bridge.Ranks, error) {
	c, _ := comm.(*Comm) // usable reports nil and other types
	if err := c.usable(op); err != nil {
		return bridge.Ranks{}, err
	}
	twin := &c.g.twin
	c = livingOf(c)
	g := c.g
	r := bridge.Ranks{Me: g.me, Ctx: c.ctx, Twin: twin}
	for rank, pe := range g.pes {
		if g.e.isForeign(pe) {
			return r, usage(op, ErrArgument, "rank %d is a process of another job, want a communicator of ranks of one job: PEs of two jobs have no symmetric memory together", rank)
		}
		r.PEs = append(r.PEs, int(pe))
	}
	first := true
	r.Gather = func(mine bridge.Words) ([]bridge.Words, error) {
		if g.checks && first {
			if err := c.compare(op, "%s", what); err != nil {
				return nil, err
			}
		}
		first = false
		words, err := g.gatherWords(c.ctx, op, callTeamOf, coll.Words{mine[0], mine[1]})
		if err != nil {
			return nil, handled(g, g.fail(op, err))
		}
		all := make([]bridge.Words, len(words))
		for i := range words {
			all[i] = bridge.Words{words[i][0], words[i][1]}
		}
		return all, nil
	}
	return r, nil
}
