package mpi

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Ports
//
// Two groups of a job without a communicator in common meet by a port: a name that one process has opened, and that the program gives to the other group.
//
//  1. The roots meet (meeting.go): that of Connect knocks at the port, and that of Accept takes the earliest knock.
//  2. The roots exchange their groups, in messages of the world's hidden communicator.
//  3. Each root gives its group what it has found, and the group agrees that all of its ranks have it. So all of them go on to 4, or none.
//  4. The ranks of both groups agree on the numbers of the new communicators, as those of NewIntercomm do.
//
// A rank that fails after 2 tells both groups, whose ranks may be in 4. What tells 4 from other calls is made of the knock, so it is the same for all ranks and never
// comes again, whatever has failed before.

// portFormat is how a port is named: the job, the PE, and a number that no other port has.
const portFormat = "goshmem-port:%d:%d:%016x"

// OpenPort opens a port of this process, at which groups of this job may meet it: Accept takes its name, and Connect of another group takes the same. The
// program brings the name there by any means.
//
//   - Completion: the name is known to this process. It stays open until ClosePort or Finalize, for any number of connections.
//   - Errors: ErrFinalized; ErrArgument for a nil World.
//   - Concurrent calls: allowed.
//   - Source: MPI_Open_port.
func (w *World) OpenPort() (string, error) {
	const op = "World.OpenPort"
	if w == nil || w.e == nil {
		return "", usage(op, ErrArgument, "World is nil, want one that Init has returned without an error")
	}
	e := w.e
	e.mu.Lock()
	defer e.unlock()
	if e.closed.Load() {
		return "", usage(op, ErrFinalized, "called after Finalize")
	}
	id := rand.Uint64()
	if e.ports == nil {
		e.ports = map[uint64]*port{}
	}
	e.ports[id] = &port{}
	return fmt.Sprintf(portFormat, e.job.Number(), e.me, id), nil
}

// ClosePort closes a port of this process. Accept and Connect that wait there end with ErrPort. What is connected stays so.
//
//   - Errors: ErrPort for a name of another process, and of a port that is closed already; ErrArgument for a nil World.
//   - Concurrent calls: allowed.
//   - Source: MPI_Close_port.
func (w *World) ClosePort(name string) error {
	const op = "World.ClosePort"
	if w == nil || w.e == nil {
		return usage(op, ErrArgument, "World is nil, want one that Init has returned without an error")
	}
	e := w.e
	e.mu.Lock()
	defer e.unlock()
	id, err := ownPort(e, op, name)
	if err == nil {
		closePort(e, id)
	}
	return err
}

// parsePort returns the process and the number of a port of this job.
func parsePort(e *engine, op, name string) (pe layout.PE, id uint64, err error) {
	var job int
	if n, err := fmt.Sscanf(name, portFormat, &job, &pe, &id); err != nil || n != 3 || fmt.Sprintf(portFormat, job, pe, id) != name {
		return 0, 0, usage(op, ErrPort, "port %q, want a name that World.OpenPort has returned", name)
	}
	switch {
	case job != e.job.Number():
		return 0, 0, usage(op, ErrPort, "port %q is of job %d, want one of this job, %d: ports do not connect jobs; hint: the Intercomm of Spawn and World.Parent does", name, job, e.job.Number())
	case pe < 0 || int(pe) >= e.job.NPEs:
		return 0, 0, usage(op, ErrPort, "port %q is of PE %d, want 0 to %d", name, pe, e.job.NPEs-1)
	}
	return pe, id, nil
}

// ownPort returns the number of an open port of this process. The caller has the engine's lock.
func ownPort(e *engine, op, name string) (uint64, error) {
	pe, id, err := parsePort(e, op, name)
	switch {
	case err != nil:
		return 0, err
	case pe != e.me:
		return 0, usage(op, ErrPort, "port %q is of PE %d, want one of this process, PE %d", name, pe, e.me)
	case e.ports[id] == nil:
		return 0, usage(op, ErrPort, "port %q is closed, want an open one; hint: OpenPort opens another one", name)
	}
	return id, nil
}

// Accept waits for a group that connects to a port, and returns the Intercomm of both.
//
//   - Shape: root is the same at all ranks. name is a port that the root has opened, and matters there only. All processes of both groups are of this job, and no
//     process is in both groups.
//   - Completion: all ranks of both groups have called Accept or Connect.
//   - Errors: ErrPort for a port that is closed, or is closed meanwhile, or not the root's; ErrArgument for groups that overlap, and for ranks of several jobs;
//     ErrRevoked; *RankError for ranks of c that have died, and for ranks of World.Comm after the groups have met; ErrCommBroken when another rank has given
//     this call up; the end of c's context. A group whose root gives up, or dies, before the groups have met, is passed over. A death, or the end of a context,
//     leaves the port open.
//   - Cost: a few messages between the roots; two broadcasts and an agreement in each group; two gathers of a word among all.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_accept.
func Accept(c *Comm, name string, root int) (*Intercomm, error) {
	const op = "Accept"
	return connectByPort(c, op, root, func(m *meeting) ([]layout.PE, error) { return m.accept(name) })
}

// Connect connects to a port of another group, which calls Accept, before or after. It returns the Intercomm of both.
//
//   - Shape: root is the same at all ranks. name matters at the root only. Otherwise as Accept.
//   - Completion: as Accept. A port that is open and has no Accept is waited for.
//   - Errors: as Accept; ErrPort for a port that is unknown or closed, or of another job; *RankError when the process of the port has died or finalized,
//     with its rank in World.Comm.
//   - Cost: as Accept.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_connect.
func Connect(c *Comm, name string, root int) (*Intercomm, error) {
	const op = "Connect"
	return connectByPort(c, op, root, func(m *meeting) ([]layout.PE, error) { return m.connect(name) })
}

// connectByPort is Accept and Connect. meet executes steps 1 and 2 at the root, and returns the other group.
func connectByPort(c *Comm, op string, root int, meet func(m *meeting) ([]layout.PE, error)) (*Intercomm, error) {
	if err := c.checkRoot(op, root); err != nil {
		return nil, handledOf(c, err)
	}
	e, mine := c.g.e, livingOf(c).g.pes
	for rank, pe := range c.g.pes {
		if e.isForeign(pe) {
			return nil, usage(op, ErrArgument, "rank %d is a process of another job, want a communicator of ranks of one job", rank)
		}
	}
	var theirs []layout.PE
	var failed error
	word := make([]uint64, wordsOfMeeting)
	if c.g.me == root {
		m := &meeting{c: c, op: op, mine: mine}
		if theirs, failed = meet(m); failed != nil {
			word[meetingOutcome] = outcomeOf(failed)
		}
		word[meetingSize], word[meetingToken] = uint64(len(theirs)), m.token
	}
	if err := Bcast(c, word, root); err != nil && failed == nil {
		failed = err
	}
	if failed == nil && word[meetingOutcome] != metWell {
		failed = rootError(c, op, root, word[meetingOutcome])
	}
	if failed == nil || c.g.me == root && theirs != nil {
		if c.g.me != root {
			theirs = make([]layout.PE, word[meetingSize])
		}
		if err := Bcast(c, theirs, root); err != nil && failed == nil {
			failed, theirs = err, keepIf(c.g.me == root, theirs)
		}
	}
	for _, pe := range theirs {
		if failed == nil && slices.Contains(mine, pe) {
			failed = usage(op, ErrArgument, "PE %d is in both groups, want groups without a process in common", pe)
		}
	}
	failed = agreeToConnect(c, op, failed)
	if theirs == nil {
		return nil, handledOf(c, c.g.reportDeath(failed))
	}
	low := slices.Min(mine) < slices.Min(theirs)
	first, all := len(theirs), slices.Concat(theirs, mine)
	if low {
		first, all = len(mine), slices.Concat(mine, theirs)
	}
	call := subset{parent: e.world, op: op, members: ranksOfPEs(all), number: portTag, attempt: attemptOf(word[meetingToken], all)}
	if failed != nil {
		e.mu.Lock()
		call.tell(e.world.number, noticeGivenUp, parcel{to: call.attempt})
		e.unlock()
		return nil, handledOf(c, c.g.reportDeath(failed))
	}
	x, err := connectRanks(c, &call, first)
	return x, handledOf(c, err)
}

// portTag is the number of step 4, whose attempts have numbers of their own.
const portTag = 32 * interTag

// keepIf returns what a broadcast of the other group has left to a rank: the root has it, whatever has failed.
func keepIf(isRoot bool, theirs []layout.PE) []layout.PE {
	if isRoot {
		return theirs
	}
	return nil
}

// What a root tells its group, in words.
const (
	meetingOutcome = iota
	meetingSize    // of the other group
	meetingToken   // of the knock
	wordsOfMeeting
)

// Outcomes of a meeting. rootDied plus the rank in the world of a rank that has died.
const (
	metWell = iota
	rootMistaken
	rootRevoked
	rootPort
	rootGaveUp
	rootLeft
	rootDied
)

// outcomeOf returns what the root tells of its error.
func outcomeOf(err error) uint64 {
	gone, is := errors.AsType[*RankError](err)
	switch {
	case is && errors.Is(err, ErrDied):
		return rootDied + uint64(gone.Ranks[0])
	case errors.Is(err, ErrRevoked):
		return rootRevoked
	case errors.Is(err, ErrPort):
		return rootPort
	case errors.Is(err, ErrRankFinalized):
		return rootLeft
	case errors.Is(err, ErrArgument):
		return rootMistaken
	}
	return rootGaveUp
}

// rootError returns the error of the other ranks of a group whose root has failed.
func rootError(c *Comm, op string, root int, outcome uint64) error {
	causes := map[uint64]error{rootMistaken: ErrArgument, rootRevoked: ErrRevoked, rootPort: ErrPort, rootGaveUp: ErrCommBroken, rootLeft: ErrRankFinalized}
	if cause := causes[outcome]; cause != nil {
		return fmt.Errorf("mpi.%s: %w: the root, rank %d, has not met the other group: its error says more", op, cause, root)
	}
	world, dead := c.g.e.world, int(outcome-rootDied)
	awaitNews(world, []int{dead})
	return world.deadError(op, dead)
}

// agreeToConnect returns nil if no rank of the group has failed. Its ranks vote as after a uniform collective: a revocation ends the vote, as ranks that learn
// of it may not come.
func agreeToConnect(c *Comm, op string, err error) error {
	flags := uint64(0)
	if err == nil {
		flags = 1
	}
	d, failed := voteInMessages(c, op, lineUniform, newVote(flags, 0, 0))
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case d.Outcome != agree.Decided || d.Flags != 1:
		return fmt.Errorf("mpi.%s: %w: another rank has failed in this call: its error says more", op, ErrCommBroken)
	}
	return nil
}

// attemptOf returns what tells a connection from all others.
func attemptOf(token uint64, pes []layout.PE) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, "port", token, pes)
	return h.Sum64()
}

// Disconnect is Free that first waits until the requests of this rank in the Intercomm are complete. So nothing of what its ranks have begun is dropped, but
// for messages that nobody receives.
//
//   - Errors: as Free. If the context ends before the requests are complete, the Intercomm stays, and Disconnect may be called again.
//   - Collective: over both groups.
//   - Source: MPI_Comm_disconnect.
func (x *Intercomm) Disconnect() error {
	const op = "Intercomm.Disconnect"
	if x == nil || x.remote == nil || x.remote.g.freed.Load() {
		return x.usable(op)
	}
	ctx := x.remote.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	e := x.remote.g.e
	if err := e.job.Waiter.WaitPoll(&quiet{e: e, groups: []*group{x.remote.g, x.local.g, x.both.g}}, ctx); err != nil {
		return fmt.Errorf("mpi.%s: waiting for the end of its requests: %w", op, err)
	}
	return x.Free()
}
