package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Intercomm connects two groups of processes that have none in common: a rank of the one exchanges messages with ranks of the other.
//
//   - Messages go by Remote: its ranks are those of the other group, and Rank is this process's in its own group.
//   - Collectives are functions of their own: InterBcast, InterAllreduce and so on. The ranks of Local may also use that among themselves.
type Intercomm struct {
	local  *Comm // of this process's group, for the collectives of the Intercomm and for the program
	remote *Comm // whose ranks are those of the other group
	both   *Comm // of all processes: first of the low group, then of the high one
	low    bool  // this process's group comes first in both
}

// The root argument of processes in the root's group, in a collective of an Intercomm.
const (
	Root = -3 // this process is the root
	// ProcNull: another process of this group is the root
)

// interTag makes the numbers of calls that make an Intercomm differ from those of CreateGroup.
const interTag = -1 << 40

// NewIntercomm connects the groups of two communicators. The process with rank leader in each of them knows the other by the communicator bridge.
//
//   - Shape: local and leader are the same at all ranks of a group. bridge, remote (the other leader's rank there) and tag matter at the leaders only. All
//     processes are of one job, those of the bridge as well. The groups have no process in common.
//   - Errors: ErrArgument for groups that overlap; as CreateGroup. If the other leader has died, the *RankError of the leader has its rank in the bridge, and
//     that of the other ranks its rank in the communicator of all.
//   - Cost: two messages between the leaders, two broadcasts in each group, and two gathers of a word among all.
//   - Collective: over both groups.
//   - Source: MPI_Intercomm_create.
func NewIntercomm(local *Comm, leader int, bridge *Comm, remote, tag int) (*Intercomm, error) {
	const op = "NewIntercomm"
	if err := local.checkRoot(op, leader); err != nil {
		return nil, err
	}
	x, err := newIntercomm(local, op, leader, bridge, remote, tag)
	return x, handled(local.g, err)
}

// newIntercomm is NewIntercomm without the communicator's handler.
func newIntercomm(local *Comm, op string, leader int, bridge *Comm, remote, tag int) (*Intercomm, error) {
	theirs, err := exchangeGroups(local, leader, bridge, remote, tag)
	if err != nil {
		return nil, err
	}
	mine := local.g.pes
	for _, pe := range theirs {
		if slices.Contains(mine, pe) {
			return nil, usage(op, ErrArgument, "PE %d is in both groups, want groups without a process in common", pe)
		}
	}
	low := slices.Min(mine) < slices.Min(theirs)
	all := slices.Concat(theirs, mine)
	if low {
		all = slices.Concat(mine, theirs)
	}
	return connectGroups(local, op, all, theirs, low, tag)
}

// exchangeGroups returns the PEs of the other group.
func exchangeGroups(local *Comm, leader int, bridge *Comm, remote, tag int) ([]layout.PE, error) {
	mine := local.g.pes
	var theirs []layout.PE
	n, failed := []int{-1}, error(nil)
	if local.g.me == leader {
		theirs, failed = meetLeader(bridge, mine, remote, tag)
		if n[0] = len(theirs); failed != nil {
			n[0] = leaderFailure(bridge, failed)
		}
	}
	if err := Bcast(local, n, leader); err != nil || failed != nil {
		if failed != nil {
			err = failed
		}
		return nil, err
	}
	if n[0] < 0 {
		return nil, leaderError(local, leader, n[0])
	}
	if local.g.me != leader {
		theirs = make([]layout.PE, n[0])
	}
	return theirs, Bcast(local, theirs, leader)
}

// What a leader that has not met the other one gives to its group: why, or deadLeader minus the PE of a rank that has died.
const (
	leaderMistaken = -1 - iota
	leaderRevoked
	deadLeader
)

// leaderFailure returns what the leader gives to its group for its error.
func leaderFailure(bridge *Comm, err error) int {
	switch gone, is := errors.AsType[*RankError](err); {
	case is && errors.Is(err, ErrDied):
		return deadLeader - int(bridge.g.pe(gone.Ranks[0]))
	case errors.Is(err, ErrRevoked):
		return leaderRevoked
	}
	return leaderMistaken
}

// leaderError returns the error of the other ranks of the leader's group. Ranks that have died are those of the world.
func leaderError(local *Comm, leader, why int) error {
	const op = "NewIntercomm"
	switch why {
	case leaderMistaken:
		return usage(op, ErrArgument, "the leader, rank %d, has not met the other one: its error says why", leader)
	case leaderRevoked:
		return fmt.Errorf("mpi.%s: the bridge of the leader, rank %d: %w", op, leader, ErrRevoked)
	}
	world, dead := local.g.e.world, deadLeader-why
	awaitNews(world, []int{dead})
	return local.g.reportDeath(world.deadError(op, dead))
}

// meetLeader gives the PEs of this group to the leader of the other one, and returns those of that.
func meetLeader(bridge *Comm, mine []layout.PE, remote, tag int) ([]layout.PE, error) {
	const op = "NewIntercomm"
	if remote == ProcNull {
		return nil, usage(op, ErrRankRange, "the other leader is ProcNull, want its rank in the bridge")
	}
	n, size := []int{0}, len(mine)
	several := slices.ContainsFunc(slices.Concat(mine, bridge.g.pes), bridge.g.e.isForeign)
	if several { // the numbers of PEs mean something in their own job only
		size = 0
	}
	if _, err := exchange(bridge, op, spanOf([]int{size}), remote, tag, spanOf(n), remote, tag); err != nil {
		return nil, err
	}
	if several {
		return nil, usage(op, ErrArgument, "a group or the bridge has ranks of several jobs, want ranks of one job; hint: Spawn gives an Intercomm with the processes that it starts")
	}
	if n[0] < 1 || n[0] > len(bridge.g.ranks) {
		return nil, usage(op, ErrMismatch, "rank %d of the bridge has sent something else than its group, want a call of NewIntercomm there with the same tag", remote)
	}
	theirs := make([]layout.PE, n[0])
	_, err := exchange(bridge, op, spanOf(mine), remote, tag, spanOf(theirs), remote, tag)
	return theirs, err
}

// connectGroups makes an Intercomm of two groups. The world knows all of their processes.
func connectGroups(local *Comm, op string, all, theirs []layout.PE, low bool, tag int) (*Intercomm, error) {
	first := len(theirs)
	if low {
		first = len(all) - len(theirs)
	}
	call := newSubset(local.g.e.world, op, ranksOfPEs(all), interTag-tag)
	return connectRanks(local, &call, first)
}

// ranksOfPEs returns the ranks of PEs in the world.
func ranksOfPEs(pes []layout.PE) []int {
	ranks := make([]int, len(pes))
	for i, pe := range pes {
		ranks[i] = int(pe)
	}
	return ranks
}

// connectRanks makes an Intercomm of ranks of the world, with what this process's group has.
func connectRanks(local *Comm, call *subset, first int) (*Intercomm, error) {
	return makeIntercomm(local.ctx, call, first, func(of *Intercomm) {
		for _, c := range []*Comm{of.local, of.remote, of.both} {
			inherit(c.g, local.g)
		}
		of.both.g.uniform.Store(false) // the other group may have other hints
		of.both.g.agreesInMessages.Store(false)
		of.both.g.info = nil
	})
}

// enterRemote makes the communicator by which the ranks of a group send to those of another one. The caller has the engine's lock.
func enterRemote(e *engine, local *group, theirs []layout.PE, number uint32) *group {
	g := &group{e: e, me: local.me, n: len(theirs), number: number, pes: theirs, ranks: rankTable(e, theirs), remote: true}
	e.enter(g)
	return g
}

// usable returns an error unless x is an Intercomm that was not freed.
func (x *Intercomm) usable(op string) error {
	if x == nil || x.remote == nil {
		return usage(op, ErrArgument, "Intercomm is nil, want one that NewIntercomm has returned")
	}
	return usableInMessages(x.remote, op)
}

// Local returns the communicator of this process's group.
//
//   - Concurrent calls: allowed.
func (x *Intercomm) Local() *Comm {
	if x == nil {
		return nil
	}
	return x.local
}

// Remote returns what sends and receives take to exchange messages with the other group: destinations and sources are its ranks, Size is its size, and Rank this
// process's rank in its own group. It has no collectives.
//
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_remote_size, MPI_Comm_remote_group.
func (x *Intercomm) Remote() *Comm {
	if x == nil {
		return nil
	}
	return x.remote
}

// Merge makes a communicator of both groups: first of the one whose ranks give high as false. If both give the same, the group with the lowest PE comes first.
//
//   - Errors: as Comm.Split; ErrMismatch where ranks of a group give different values.
//   - Collective: over both groups.
//   - Source: MPI_Intercomm_merge.
func (x *Intercomm) Merge(high bool) (*Comm, error) {
	const op = "Intercomm.Merge"
	if err := x.usable(op); err != nil {
		return nil, err
	}
	word := byte(0)
	if high {
		word = 1
	}
	n := x.both.g.n
	all := make([]byte, n)
	if err := Allgather(x.both, all, []byte{word}); err != nil {
		return nil, err
	}
	first := x.local.g.n
	if !x.low {
		first = n - first
	}
	for rank := range all {
		if leader := rank / first; rank >= first && all[rank] != all[first] || leader == 0 && all[rank] != all[0] {
			return nil, usage(op, ErrMismatch, "ranks of one group gave different values of high, want the same")
		}
	}
	key := x.both.Rank()
	if all[0] > all[first] { // the group that comes first in both is the high one
		key = (key - first + n) % n
	}
	return x.both.Split(0, key)
}

// Free ends the Intercomm, with its Local.
//
//   - Errors: as Comm.Free.
//   - Collective: over both groups.
//   - Source: MPI_Comm_free.
func (x *Intercomm) Free() error {
	const op = "Intercomm.Free"
	if x == nil || x.remote == nil || x.remote.g.freed.Load() {
		return x.usable(op)
	}
	err := x.both.Free()
	if errors.Is(err, ErrUnwinding) {
		return err
	}
	g := x.remote.g
	g.e.mu.Lock()
	g.tell(noticeLeft) // if they have met, they do not need it
	markFreedLocked(g, err == nil)
	g.e.unlock()
	if e := x.local.Free(); err == nil && !errors.Is(e, ErrFreed) {
		err = e
	}
	return err
}

// Revoke ends the Intercomm for all ranks of both groups: see Comm.Revoke.
//
//   - Errors: *UsageError.
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_revoke.
func (x *Intercomm) Revoke() error {
	const op = "Intercomm.Revoke"
	if x == nil || x.remote == nil {
		return x.usable(op)
	}
	err := x.remote.Revoke()
	for _, c := range []*Comm{x.local, x.both} {
		if e := c.Revoke(); err == nil && !errors.Is(e, ErrFreed) {
			err = e
		}
	}
	return err
}

// With returns the same Intercomm with a context: its calls end with an error when ctx ends, as those of Comm.With.
func (x *Intercomm) With(ctx context.Context) *Intercomm {
	if x == nil || x.remote == nil {
		return x
	}
	return &Intercomm{local: x.local.With(ctx), remote: x.remote.With(ctx), both: x.both.With(ctx), low: x.low}
}

// OnError is Comm.OnError for messages and collectives of the Intercomm. At first it has the handler of the communicator that NewIntercomm got.
//
//   - Errors: *UsageError.
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_set_errhandler.
func (x *Intercomm) OnError(f ErrorHandler) error {
	if err := x.usable("Intercomm.OnError"); err != nil {
		return err
	}
	setHandler(x.remote.g, f)
	setHandler(x.both.g, f)
	return nil
}

// Agree is Comm.Agree of all ranks of both groups.
//
//   - Errors: as Comm.Agree. Ranks in an error are those of both groups, the one with the lowest PE first.
//   - Collective: over the ranks of both groups that live.
//   - Source: MPIX_Comm_agree.
func (x *Intercomm) Agree(flags uint64) (uint64, error) {
	if x == nil || x.both == nil {
		return 0, x.usable("Intercomm.Agree")
	}
	return x.both.Agree(flags)
}
