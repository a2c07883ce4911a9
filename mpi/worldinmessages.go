package mpi

import (
	"context"
	"errors"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/mpi/sched"
)

// # The World of a spawned job on several nodes
//
// The agents have no teams of PEs of spawned jobs (farforeign.go). So World.Comm of such a job is a communicator without a team (messaging.go).
//
//   - Its number is 0, which no other communicator has. So the ranks need not agree on it, and have reserved it before they meet in Init.
//   - Init meets by a PMIx fence. Finalize meets by a barrier in messages. There is no second one, so the next World would find old messages in the lanes:
//     a process has one such World.
//   - Who leaves without having met the others tells them, as in all communicators without a team (shutDown).

// worldNumber is the number of that communicator.
const worldNumber = 0

// errOneWorld is why a second Init fails.
var errOneWorld = errors.New("the job was spawned, and has PEs on several nodes: a process of it can call Init once, and this is another call after Finalize")

// newWorldInMessages makes the World of a spawned job on several nodes.
func newWorldInMessages(ctx context.Context, j *job.Job) (*World, error) {
	if p := persistentOf[j.Map]; p != nil && p.hadWorld {
		return nil, initError(errOneWorld)
	}
	e := newEngine(j)
	for _, n := range numbersOf(worldNumber) {
		e.future[n] = new(queue)
	}
	parents := reachEarly(e)
	e.openInbox()
	stopServing := j.Waiter.Serve(e.serve)
	if err := j.Fence(ctx); err != nil {
		parents.giveUpEarly(e)
		stopServing()
		e.closeInbox()
		return nil, initError(err)
	}
	e.hadWorld = true
	pes := allPEs(j.NPEs)
	g := &group{e: e, world: true, me: int(e.me), n: len(pes), number: worldNumber, pes: pes, ranks: rankTable(e, pes)}
	e.mu.Lock()
	e.world = g
	e.enter(g)
	e.unlock()
	return &World{e: e, comm: &Comm{g: g}, self: &Comm{g: e.newSelf()}, parents: parents, refs: 1, stopServing: stopServing}, nil
}

// syncInMessages is a barrier of a communicator without a team.
func syncInMessages(ctx context.Context, g *group) error {
	r, err := startCall(g, &call{op: "Finalize", kind: ofBarrier, plan: sched.Barrier(g.n, g.me)})
	if err == nil {
		_, err = r.finish(ctx)
	}
	return err
}
