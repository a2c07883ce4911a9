package shmem

import (
	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
)

// What package interop needs.
func init() {
	bridge.OfTeam = func(op string, team any) (bridge.Group, error) {
		t, _ := team.(*Team) // nil if it is none, which usable says
		if err := t.usable(op); err != nil {
			return bridge.Group{}, err
		}
		return bridge.Group{Team: t.t, Ctx: t.ctx, Fail: t.fail}, nil
	}
	bridge.NewTeam = func(t *coll.Team) (any, error) {
		h := mapped.Load()
		if h == nil {
			return nil, usage("Init", ErrFinalized, "shmem is not initialized, want Init called before")
		}
		mode := ModeStrict
		if t.Tolerant() {
			mode = ModeTolerant
		}
		return adopt(h, t, t.PEs(), TeamConfig{Mode: mode}), nil
	}
}
