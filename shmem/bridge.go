package shmem

import (
	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
)

// init gives package interop access to teams.
func init() {
	bridge.OfTeam = func(op string, team any) (bridge.Group, error) {
		t, _ := team.(*Team) // nil if it is no *Team; checkUsable then returns the error
		if err := t.checkUsable(op); err != nil {
			return bridge.Group{}, err
		}
		if t.upper != nil {
			return bridge.Group{}, usage(op, ErrArgument, "the team has PEs on several nodes, where %s is not supported yet: want a team of PEs of one node, such as World.Shared", op)
		}
		return bridge.Group{Team: t.coll, Ctx: t.ctx, Fail: t.publicError}, nil
	}
	bridge.NewTeam = func(t *coll.Team) (any, error) {
		h := currentHeap.Load()
		if h == nil {
			return nil, usage("Init", ErrFinalized, "shmem is not initialized, want a call of Init first")
		}
		mode := ModeStrict
		if t.Tolerant() {
			mode = ModeTolerant
		}
		return registerTeam(h, t, numbersOf(t.PEs()), TeamConfig{Mode: mode}), nil
	}
}
