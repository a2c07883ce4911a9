package shmem

import "github.com/goshmem/goshmem/internal/bridge"

// init gives packages interop and mpi/win access to teams and the world.
func init() {
	bridge.OfTeam = func(op string, team any) (bridge.Group, error) {
		t, _ := team.(*Team) // nil if it is no *Team; checkUsable then returns the error
		if err := t.checkUsable(op); err != nil {
			return bridge.Group{}, err
		}
		g := bridge.Group{Team: t.coll, Ctx: t.ctx, Twin: &t.group.twin, Fail: t.publicError}
		if t.upper != nil {
			g.Name = t.upper.Name()
		}
		for _, pe := range t.made().PEs() {
			g.PEs = append(g.PEs, int(pe))
		}
		return g, nil
	}
	bridge.World = func() any {
		initMu.Lock()
		defer initMu.Unlock()
		if currentWorld == nil {
			return nil
		}
		return currentWorld
	}
	bridge.NewTeam = func(pes []int, tolerant bool, random uint64, gather func(mine bridge.Words) ([]bridge.Words, error)) (any, error) {
		w, _ := bridge.World().(*World)
		if w == nil {
			return nil, usage("Init", ErrFinalized, "shmem is not initialized, want a call of Init first")
		}
		return foundTeam(w, pes, tolerant, random, gather)
	}
	bridge.TeamHandle = func(team any) (plain any, lives func() bool) {
		t := team.(*Team) //nolint:errcheck,forcetypeassert // the caller has it from this package
		return t.group.plain, func() bool { return !t.group.destroyed.Load() && !t.h.finalized() }
	}
}
