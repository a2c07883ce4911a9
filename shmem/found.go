package shmem

import (
	"errors"
	"math"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/symheap/layout"
)

// founding makes a team of PEs that have no team in common. They exchange words by gather, which is a collective of theirs.
// coll.Founding has the protocol; here the PEs are on any nodes. Ids are a node's own, so there is one choice for each node, and all
// PEs follow all choices: so they try equally often.
type founding struct {
	w        *World
	pes      []layout.PE
	nodes    []int // of each PE
	here     int   // this node
	spans    bool  // PEs of other nodes are members
	name     [2]uint64
	founding coll.Founding
	gather   func(mine bridge.Words) ([]bridge.Words, error)
}

// foundTries bounds the tries to find ids that are free.
const foundTries = 64

// foundTeam makes a team of PEs, in their order. All of them call it, with the same random number.
//
//   - Errors: those of gather; ErrTooMany; ErrArgument for PEs of too many nodes.
func foundTeam(w *World, pes []int, tolerant bool, random uint64, gather func(mine bridge.Words) ([]bridge.Words, error)) (*Team, error) {
	h := w.session.h
	f := &founding{w: w, gather: gather}
	f.founding.Config = nearConfig(h.job, 0, ModeStrict)
	f.founding.Members, f.founding.Tolerant = nil, tolerant
	home := h.job.Home
	if home == nil { // all are near
		home = func(pe layout.PE) (int, layout.Local) {
			local, _ := h.job.Place.Local(pe)
			return 0, local
		}
	}
	f.here, _ = home(h.me)
	for _, n := range pes {
		pe := layout.PE(n)
		node, local := home(pe)
		f.pes, f.nodes = append(f.pes, pe), append(f.nodes, node)
		if node != f.here {
			f.spans = true
			continue
		}
		if pe == h.me {
			f.founding.Me = len(f.founding.Members)
		}
		f.founding.Members = append(f.founding.Members, coll.Member{Local: local, PE: pe})
	}
	f.name = [2]uint64{random, uint64(len(pes))<<32 | uint64(f.pes[0]) | 1<<63} // the second word of a world's is 0
	part, err := f.claimAll()
	if err != nil {
		return nil, err
	}
	t, err := f.meetLast(part)
	if err != nil {
		return nil, err
	}
	mode := ModeStrict
	if tolerant {
		mode = ModeTolerant
	}
	return registerTeam(h, t, numbersOf(f.pes), TeamConfig{Mode: mode}), nil
}

// claimAll returns the part of the team on this node, which all PEs have claimed.
func (f *founding) claimAll() (*coll.Team, error) {
	held := false // as in coll.Split
	for try := range foundTries {
		free, top := f.founding.Offer()
		all, err := f.gather(bridge.Words{free, top})
		if err != nil {
			return nil, err
		}
		id, start := f.choose(all, try)
		if id < 0 && held {
			held = false
			continue
		}
		if id < 0 {
			break
		}
		part, claimed := f.founding.Claim(id, start)
		mine := bridge.Words{}
		if claimed {
			mine[0] = 1
		}
		if all, err = f.gather(mine); err != nil {
			if claimed {
				part.GiveUpFounding(false)
			}
			return nil, err
		}
		held = true
		for i := range all {
			held = held && all[i][0] != 0
		}
		if held {
			return part, nil
		}
		part.Release()
		held = true
	}
	return nil, usage("Team.SplitStrided", ErrTooMany, "%v; hint: destroy teams that are not needed", coll.ErrNoID)
}

// choose returns this node's id for a try, and the number at which its part begins. The id is -1 if one of the nodes has none.
func (f *founding) choose(all []bridge.Words, try int) (id int, start uint64) {
	free := map[int]uint64{} // by node
	for i, node := range f.nodes {
		if _, known := free[node]; !known {
			free[node] = math.MaxUint64
		}
		free[node] &= all[i][0]
		if node == f.here {
			start = max(start, all[i][1]+1)
		}
	}
	for node := range free {
		if free[node] == 0 {
			return -1, 0
		}
	}
	return coll.ChooseID(free[f.here], f.name[0], try), start
}

// meetLast describes a team of several nodes, and meets the others. Only then do all know that there is a team.
func (f *founding) meetLast(part *coll.Team) (member, error) {
	var far *spanning.Team
	var err error
	mine := bridge.Words{1}
	if f.spans {
		if far, err = f.w.team.upper.Found(part, f.pes, f.name); err != nil {
			mine[0] = 0
		}
	}
	all, failed := f.gather(mine)
	if failed == nil {
		for i := range all {
			if all[i][0] == 0 && failed == nil {
				failed = usage("Team.SplitStrided", ErrArgument, "PE %d: %v", f.pes[i], errors.Join(err, spanning.ErrNodes))
			}
		}
	}
	switch {
	case failed != nil && far != nil:
		spanning.Abandon(far)
	case failed != nil:
		part.GiveUpFounding(true)
	case far != nil:
		return far, nil
	default:
		return part, nil
	}
	return nil, failed
}
