//go:build explore

package coll_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/reach"
)

// Two members that access each other's private memory. Here both are in one process, and each access is one step.

// privateMemory is what the members of a run lend to each other.
type privateMemory struct {
	refuseFrom int        // the access from which on the kernel refuses them, counted from 1; 0: none
	returned   [][]uint64 // buffers of acts that have returned
	took       [2][2]int  // how long trials of direct copies and of areas last for each member, in ms
	laps       [2]lap     // of the members
}

// lap is a trial that a member measures.
type lap struct {
	running, accessed bool // accessed: the other one's memory, so the trial is direct
}

// look is the time for the running member, who looks at the beginning and at the end of a trial.
func (r *run) look() time.Duration {
	me := r.index(r.mine())
	l := &r.alien.laps[me]
	if l.running = !l.running; l.running {
		l.accessed = false
		return 0
	}
	way := 1
	if l.accessed {
		way = 0
	}
	return time.Duration(r.alien.took[me][way]) * time.Millisecond
}

// scribble is what a member writes to its buffers when an act has returned.
const scribble = 0xdddddddddddddddd

// giveBack ends the use of a buffer. Nobody may write to it from now on.
func (p *privateMemory) giveBack(buf []uint64) {
	for i := range buf {
		buf[i] = scribble
	}
	p.returned = append(p.returned, buf)
}

// Reach answers an access to the private memory of the other one of two members. A dead member's memory is gone at
// once. When its death is published, another process may have its number.
func (r *run) Reach() (stranger bool, err error) {
	me := r.index(r.mine())
	r.alien.laps[me].accessed = true
	other := r.members[1-me]
	switch p := &r.alien; {
	case p.refuseFrom == 1:
		return false, syscall.EPERM
	case p.refuseFrom > 1:
		p.refuseFrom--
	}
	switch {
	case other.told != 0:
		return true, nil
	case other.killed:
		return false, syscall.ESRCH
	}
	return false, nil
}

// playingDirect is playing for members that reach each other, until the kernel refuses it.
func playingDirect(tolerant bool, refuseFrom int, list ...act) func(r *run) {
	return playingTrials(tolerant, refuseFrom, [2][2]int{}, list...)
}

// playingTrials is playingDirect for members whose trials last so long.
func playingTrials(tolerant bool, refuseFrom int, took [2][2]int, list ...act) func(r *run) {
	play := playing(tolerant, list...)
	return func(r *run) {
		r.alien = privateMemory{refuseFrom: refuseFrom, took: took}
		coll.SetClock(r.look)
		for i := range r.n {
			reach.Publish(r.nd.m.Control(i))
		}
		play(r)
		check := r.check
		r.check = func() error {
			for _, buf := range r.alien.returned {
				if slices.ContainsFunc(buf, func(x uint64) bool { return x != scribble }) {
					return &wrongError{"a buffer was written after its act had returned"}
				}
			}
			return check()
		}
	}
}

// endable is a context of which the members know that it can end.
type endable struct{ ending }

func (endable) Done() <-chan struct{} { return make(chan struct{}) }

// lasting returns a context that does not end, whatever the budget.
func lasting(*run, int) context.Context { return context.Background() }

// oneEnds returns a context for each member. That of member 1 can end.
func oneEnds(r *run, me int) context.Context {
	if me == 1 {
		return endable{ending{context.Background(), r.members[me]}}
	}
	return lasting(r, me)
}

func directBroadcasts(root int, ctx func(r *run, me int) context.Context) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		buf := make([]uint64, directOf)
		for j := range buf {
			buf[j] = gives(me, k, j)
		}
		err := coll.BroadcastDirect(ctx(r, me), tm, unsafe.Slice((*byte)(unsafe.Pointer(&buf[0])), 8*directOf), root)
		if o := tm.Outcome(); err == nil && (!slices.Equal(o.Contributors, []int{root}) || o.Failed != nil) {
			err = &wrongError{fmt.Sprintf("act %d: the broadcast by member %d has the outcome %+v", k, root, o)}
		}
		if err == nil {
			err = expect(k, 0, buf, sumOf([]int{root}, k))
		}
		r.alien.giveBack(buf)
		return err
	}
}

// directReduces folds by an operator for which the order matters.
func directReduces(root int, ctx func(r *run, me int) context.Context) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		src, dst := make([]uint64, directOf), make([]uint64, directOf)
		for j := range src {
			src[j] = gives(me, k, j)
		}
		op := func(acc, in []uint64) {
			for j := range acc {
				acc[j] = 3*acc[j] + in[j]
			}
		}
		err := coll.ReducePrivate(ctx(r, me), tm, dst, src, op, root)
		if who := tm.Outcome().Contributors; err == nil && me == root {
			err = expect(k, 0, dst, func(j int) (sum uint64) {
				for _, i := range who {
					sum = 3*sum + gives(i, k, j)
				}
				return sum
			})
		}
		r.alien.giveBack(src)
		r.alien.giveBack(dst)
		return err
	}
}

const directOf = 1217 // elements that are copied directly: more than two blocks for each member

// directActs are collectives that are copied directly, and others between them. The second trials go through areas.
var directActs = []act{
	directBroadcasts(0, lasting), directReduces(0, lasting), directReduces(1, lasting), loose(privateReduces(1, 0)), loose(directBroadcasts(1, lasting)),
	directBroadcasts(1, lasting),
}

var directScenarios = []scenario{
	{name: "direct2", n: 2, budgets: []budget{one}, play: playingDirect(false, 0, directBroadcasts(0, lasting), directReduces(0, lasting))},
	{name: "direct", n: 2, draws: 2000, most: most, play: playingDirect(false, 0, directActs...)},
	{name: "directStrict", n: 2, budgets: []budget{fatal}, draws: 3000, most: kills, play: playingDirect(false, 0, directActs...)},
	{name: "directTolerant", n: 2, budgets: []budget{fatal}, draws: 3000, most: kills, play: playingDirect(true, 0, directActs...)},
	{name: "directPasses", n: 2, draws: 2000, most: quits, play: playingDirect(false, 0,
		directBroadcasts(0, lasting), directBroadcasts(0, oneEnds), directReduces(0, oneEnds), directReduces(1, oneEnds), directReduces(1, lasting))},
}

// choosing returns collectives of one class: two trials, and two by the way that the members have chosen, through areas
// if loosely. Member 1 measures the direct copies, member 0 the areas.
func choosing(loosely bool) []act {
	chosen := func(a act) act { return a }
	if loosely {
		chosen = loose
	}
	return []act{
		directBroadcasts(0, lasting), loose(directBroadcasts(1, lasting)), chosen(directBroadcasts(0, lasting)), chosen(directBroadcasts(1, lasting)),
	}
}

var choosingReduces = []act{directReduces(1, lasting), directReduces(0, lasting), directReduces(1, lasting), directReduces(0, lasting)}

var (
	fasterAreas  = [2][2]int{{0, 3}, {5, 0}}
	fasterDirect = [2][2]int{{0, 5}, {3, 0}}
)

func init() {
	for i, took := range [][2][2]int{fasterAreas, fasterDirect} {
		for j, acts := range [][]act{choosing(took == fasterAreas), choosingReduces} {
			n := 2*i + j
			directScenarios = append(directScenarios,
				scenario{name: fmt.Sprintf("directChoice%d", n), n: 2, draws: 500, most: most, play: playingTrials(false, 0, took, acts...)},
				scenario{name: fmt.Sprintf("directChoiceStrict%d", n), n: 2, draws: 500, most: kills, play: playingTrials(false, 0, took, acts...)},
				scenario{name: fmt.Sprintf("directChoiceTolerant%d", n), n: 2, budgets: []budget{fatal}, draws: 500, most: kills, play: playingTrials(true, 0, took, acts...)})
		}
	}
	directScenarios = append(directScenarios,
		scenario{name: "directChoicePasses", n: 2, draws: 1000, most: quits, play: playingTrials(false, 0, fasterAreas,
			directBroadcasts(0, oneEnds), directBroadcasts(0, lasting), directBroadcasts(1, oneEnds), directBroadcasts(1, lasting), directBroadcasts(0, lasting))},
		scenario{name: "directChoiceRefused", n: 2, draws: 1000, most: most, play: playingTrials(false, 5, fasterDirect, choosing(false)...)})
	for _, from := range []int{1, 2, 6} {
		directScenarios = append(directScenarios,
			scenario{name: fmt.Sprintf("directRefused%d", from), n: 2, draws: 500, most: most, play: playingDirect(false, from, directActs...)},
			scenario{name: fmt.Sprintf("directRefusedDying%d", from), n: 2, budgets: []budget{fatal}, draws: 500, most: kills, play: playingDirect(true, from, directActs...)})
	}
}
