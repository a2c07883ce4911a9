// Package coll runs collective operations among an ordered group of PEs of one
// node, through the arrival words and slots of package symheap/layout.
//
// Every member has an arrival word: the number of the latest step of the group
// that it has entered. A barrier is: store mine, wait for everybody's. The one
// that finds all words in place when it looks, having stored its own, wakes
// the sleepers; as the store is sequentially consistent, the last to arrive is
// such a one. A central counter would be no faster and could not say who is
// missing.
//
// Small contributions go through double-buffered slots, and those of a few words
// beside the arrival word, with which they come: a cache line less to wait for. Large
// ones are read where they lie in the symmetric heap. All members compute results
// themselves, in the order of the group, so that all hold the same bytes.
//
// # Failures
//
// A dead member's arrival word stands still for good, and its death is published
// behind that. So whether it had entered a step is a fact that all survivors find
// alike, without a message: package board has the argument and the decisions.
//
// A tolerant team's collectives are of those members that enter them. A survivor
// waits for each member until it has entered the step or is dead short of it. So a
// collective ends on all survivors, with the same contributors and the same bytes,
// whoever dies, and there is nothing to agree upon. It fails for a death in one case: a
// broadcast whose root died short of it, with a *DeadError on every survivor. The
// blocks of those who did not contribute stay as they are in the destinations of
// exchanges. Outcome says who contributed.
//
// A strict team's collectives are of all members or fail. A member gives the
// team up with a *DeadError, which has all members that it knows to be dead,
//
//   - when it calls a collective and any member is known to be dead, and
//   - when it waits for a step that a dead member has not entered.
//
// It marks its arrival word then, never to enter another step, and rings everybody.
// A death of a member that had entered the step does not end a wait for it, and nor
// does that of a PE outside the team.
//
// On either team a member that leaves a collective in the midst, by the end of its
// context, a panic of the operator or an OtherError, leaves that mark too: whoever waits for a step
// that it has not entered gets ErrBroken, and leaves its own. If its context ends in the last
// step of a collective on large data, its caller may change a source that others still read: a
// second mark then gives ErrBroken to all that are in that step (meetLast).
//
// Nobody hangs. Let a member wait for another one, i, to enter step s. If i is dead,
// its word stands still for good, as its death was published behind its last store:
// the waiter sees the death (package rma argues why it is not slept over), then the
// word, and gives up or goes on without it. If i has given up, the mark ends the wait,
// as it makes the word greater than any step; on a strict team, whoever finds a mark
// that was left for a death finds the death as well, because the page was read before
// the mark was made. Otherwise i is alive
// and on its way, or waits itself for a step before s, as a wait for a step begins
// when the step before it is entered; so a chain of waits gets to earlier steps and
// ends at somebody dead, at a mark, or at a member that is computing. That one will
// call a collective, finds the death at the call, and, if the team is strict, leaves its mark.
//
// Who is woken? Who enters a step and finds that all are there that live, as far as it
// knows, rings everybody. It looks at the failure page behind its own store. Let a
// member sleep that knows of a death, having looked at the last word that was
// missing before it was stored: then it had read the epoch before that, the store and
// all looks are sequentially consistent, so who stored the word finds the epoch as
// well, and rings. Of deaths published later the step wakes everybody. The first step of an exchange
// by turns (gather.go) rings nobody: who waits for a member there is rung when all have
// entered the second, or when that member gives up.
//
// Survivors of a strict team agree on the outcome of all collectives but Broadcast, as their last step
// needs everybody: if one gets past it, all words are at it or beyond, so that nobody
// finds a dead member short of it nor a mark before it, and the next collective fails
// for all. Of a broadcast, some may have the data while others find that it failed. What a *DeadError lists is what was published
// when it was made: a second death may be in the list of one survivor and not of
// another.
package coll

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Errors that every collective may return.
var (
	// ErrBroken reports a team on which a collective of some member ended by its
	// deadline, or was another one than that of others (OtherError): its members no
	// longer agree on where they are.
	ErrBroken = errors.New("team is broken: an earlier collective on it was canceled or timed out, or its members called different ones")
	// ErrConcurrent reports a second collective on a team while one is under
	// way in this process.
	ErrConcurrent = errors.New("another collective is under way on this team in this PE")
	// ErrReleased reports a team that was released.
	ErrReleased = errors.New("team was released")
)

// DeadError reports members that have died: the collective, and every later one of
// a strict team, cannot end.
type DeadError struct{ Members []int } // indices in the team, ascending

// Error names the members.
func (e *DeadError) Error() string { return fmt.Sprintf("members %v of the team have died", e.Members) }

// LeftError reports a member that has left the group for good before a
// collective that this PE is in: it will never come.
type LeftError struct{ Member int }

// Error names the member.
func (e *LeftError) Error() string { return fmt.Sprintf("member %d has left the team", e.Member) }

// LateError reports a wait that ended, by its context or by Finalize, before a member had
// come: the first one that was waited for in vain, others may not have come either.
type LateError struct {
	Member int
	Err    error // what ended the wait
}

// Error names the member and what ended the wait.
func (e *LateError) Error() string { return fmt.Sprintf("waiting for member %d: %v", e.Member, e.Err) }

// Unwrap returns what ended the wait.
func (e *LateError) Unwrap() error { return e.Err }

// The marks in the arrival word of a member that will enter no further step; the
// other bits still hold the number of the last one that it had entered.
const (
	left     = board.Left     // it has left the team
	gaveUp   = board.GaveUp   // it has given the team up
	withdrew = board.Withdrew // it did so in a step in which others may still read its source
	marks    = board.Marks
)

// Team is one PE's side of a group. Collectives on it are called by all
// members in the same order, by one goroutine at a time.
type Team struct {
	members []*layout.Control // in the order of the group
	arrive  unsafe.Pointer    // words of the members, in the first member's segment
	stride  uintptr           // bytes from one word to the next
	state   *layout.Team      // of this PE
	met     uint64            // the latest step that all members that live are known to have entered
	cells   board.Cells       // of this member's slots
	small   int               // bytes up to which a contribution goes through slots
	crowded bool              // members take turns on the processors
	tiny    int               // and up to which it goes beside the arrival word; -1: none does
	w       *wait.Waiter
	// failures says who is dead; gone has those who were at epoch seen, nil if nobody
	// was.
	failures *failure.View
	seen     uint64
	gone     []bool
	pes      []int // numbers of the members in the job
	all      []int // 0, 1, ... as many as there are members
	some     []int // room for those who contribute when somebody is gone
	me       int
	id       int
	tolerant bool
	first    uint64 // step of the latest collective
	only     int    // who alone contributed to it, -1: all who entered it
	busy     uint64 // 1: a collective is under way
	broken   atomic.Bool
	split    bool // an agreement has ended by its deadline

	// What Split needs. See group.go.
	segments *symheap.Map
	began    uint64      // the step at which Split made it; 0: it was made otherwise
	released atomic.Bool // and broken as well
	// claimed says of a group whose making was given up here whether a member will not claim
	// it any more; nil: none will.
	claimed func(i int) bool
}

// Config describes a group to New.
type Config struct {
	Map     *symheap.Map
	Waiter  *wait.Waiter
	Members []int // indices of segments in Map, which are numbers of PEs, in the order of the group
	// Failures says which PEs have died; nil: nobody would. The Waiter watches it.
	Failures *failure.View
	Me       int // index in Members
	ID       int // of the team, the same for all members: 0 to MaxTeams-1
	// Tolerant makes collectives those of the members that live, the same for all
	// members; otherwise they fail when a member has died.
	Tolerant bool
}

// New returns the group. It does not communicate.
func New(c Config) (*Team, error) {
	if c.ID < 0 || c.ID >= layout.MaxTeams {
		return nil, fmt.Errorf("team id %d, want 0 to %d", c.ID, layout.MaxTeams-1)
	}
	if n := len(c.Members); n < 1 || n > layout.MaxLocal || c.Me < 0 || c.Me >= n {
		return nil, fmt.Errorf("team of %d members with this one at index %d, want 1 to %d", n, c.Me, layout.MaxLocal)
	}
	t := &Team{w: c.Waiter, me: c.Me, id: c.ID, failures: c.Failures, pes: slices.Clone(c.Members), tolerant: c.Tolerant, only: -1, segments: c.Map}
	for i, pe := range c.Members {
		t.members = append(t.members, c.Map.Control(pe))
		t.all = append(t.all, i)
	}
	if c.Failures == nil {
		t.seen = math.MaxUint64 // nor do deaths end waits that the Waiter learns of
	}
	t.arrive, t.stride = t.members[0].ArriveWords(c.ID, len(c.Members))
	if t.tiny = layout.EntrySize; len(c.Members) > layout.MaxEntries {
		t.tiny = -1
	}
	t.state = &t.members[c.Me].Teams[c.ID]
	t.small = layout.SlotSize
	if t.crowded = c.Waiter.Crowded; !t.crowded {
		t.small = smallIdle
	}
	for seq := t.state.Seq; seq > 0 && seq+2 > t.state.Seq; seq-- {
		t.occupy(seq, layout.SlotSize) // by a predecessor of this object, for all that is known here
		t.occupy(seq, 0)
	}
	return t, nil
}

// Size returns the number of members.
func (t *Team) Size() int { return len(t.members) }

// PEs returns the numbers of the members in the job, in the order of the group.
func (t *Team) PEs() []int { return slices.Clone(t.pes) }

// word returns the arrival word of member i.
func (t *Team) word(i int) *uint64 { return (*uint64)(unsafe.Add(t.arrive, uintptr(i)*t.stride)) }

// Tolerant says whether collectives are those of the members that live.
func (t *Team) Tolerant() bool { return t.tolerant }

// begin claims the team for one collective of steps steps and returns the
// number of the first.
func (t *Team) begin(steps uint64) (uint64, error) {
	if !atomic.CompareAndSwapUint64(&t.busy, 0, 1) {
		return 0, ErrConcurrent
	}
	if t.broken.Load() { // behind the claim: Dissolve may have given the id away before
		err := t.refusal()
		rma.StoreRelease(&t.busy, 0)
		return 0, err
	}
	t.w.Beat()
	if t.failures.Epoch() > t.seen || t.gone != nil {
		t.look()
		if err := t.bury(); err != nil {
			rma.StoreRelease(&t.busy, 0)
			return 0, err
		}
	}
	seq := t.state.Seq + 1
	t.state.Seq += steps
	t.first, t.only = seq, -1
	return seq, nil
}

// refusal is the error of all collectives of a team that is broken or released.
func (t *Team) refusal() error {
	if t.released.Load() {
		return ErrReleased
	}
	if err := t.bury(); err != nil {
		return err
	}
	return ErrBroken
}

// end gives the team back; a step that failed has broken it, and so has a
// user's operator that panicked: then there are steps that were never entered. A
// broadcast of a root that is dead has not, where deaths are tolerated.
func (t *Team) end(err *error) {
	if *err != nil && !t.survives(*err) || atomic.LoadUint64(t.word(t.me)) != t.state.Seq {
		t.breakOff()
	}
	rma.StoreRelease(&t.busy, 0)
}

// survives says whether an error leaves the members where they agree on.
func (t *Team) survives(err error) bool {
	_, dead := errors.AsType[*DeadError](err)
	return dead && t.tolerant
}

// breakOff ends all use of the team, here and for those who wait for this member.
func (t *Team) breakOff() {
	t.broken.Store(true)
	t.giveUp(gaveUp)
}

// differs breaks a team of which member i has called something else in a step that this
// member is done with: nobody knows how many more steps that takes, for which the others
// would be waited for.
func (t *Team) differs(i int) error {
	t.breakOff()
	return &OtherError{Member: i}
}

// giveUp marks this member's word, for those who wait for it or will.
func (t *Team) giveUp(mark uint64) {
	if atomic.OrUint64(t.word(t.me), mark)&gaveUp == 0 {
		t.ringAll()
	}
}

// enter publishes that this member has entered step seq, with all that it
// stored before. It wakes the others if everybody has entered now, or always
// when they may be waiting for this member alone.
//
// Of several that enter together, at least one must see everybody, so the store
// is sequentially consistent. Who rings always need not look at others' words:
// its look at the bells behind the store suffices, as it does for a put.
func (t *Team) enter(seq uint64, always bool) {
	if always || len(t.members) == 2 {
		rma.StoreRelease(t.word(t.me), seq)
		t.ringAll()
		return
	}
	// Swap and not Store, which is the same instruction in a plain build: the
	// race detector stores mapped words with release order only, and then two
	// that arrive last could each miss the other's word, and wake nobody.
	atomic.SwapUint64(t.word(t.me), seq)
	if t.complete(seq) || t.tolerant && t.completeBut(seq) {
		t.ringAll()
	}
}

// meet enters step seq and returns when everybody has.
func (t *Team) meet(ctx context.Context, seq uint64) error {
	t.enter(seq, false)
	return t.awaitAll(ctx, seq)
}

// meetLast is meet for the last step of a collective whose members read each other's
// sources. A member whose context ends in that step has entered it, so the others would
// take the step for complete, while its caller may change a source that they still read.
// Its mark makes the collective fail on all members that could have got what the
// source became. A member reads sources before it enters the step, and looks at the marks when
// all have entered: so it also finds the mark if it has the bytes from a third member that
// read them behind the mark.
//
//   - Cost: a look at each arrival word, which this member has just seen.
func (t *Team) meetLast(ctx context.Context, seq uint64) error {
	t.enter(seq, false)
	return t.endLast(seq, t.awaitAll(ctx, seq))
}

// endLast is what meetLast does behind its wait, which ended with err.
func (t *Team) endLast(seq uint64, err error) error {
	if err == nil {
		return t.intact(seq)
	}
	if _, ended := errors.AsType[*LateError](err); ended {
		t.broken.Store(true)
		t.giveUp(withdrew | gaveUp)
	}
	return err
}

// intact returns an error if a member has given up in step seq, which all have entered.
func (t *Team) intact(seq uint64) error {
	for i := range t.members {
		if v := atomic.LoadUint64(t.word(i)); v&withdrew != 0 && v&^marks == seq {
			_, err := t.marked(i, v)
			return err
		}
	}
	return nil
}

// complete says whether nobody can still enter step seq: all have, or have left.
func (t *Team) complete(seq uint64) bool {
	for i := range t.members {
		if atomic.LoadUint64(t.word(i)) < seq {
			return false
		}
	}
	return true
}

// completeBut is complete without those who are known to be dead.
func (t *Team) completeBut(seq uint64) bool {
	if t.failures.Epoch() > t.seen {
		t.look()
	}
	if t.gone == nil {
		return false
	}
	for i := range t.members {
		if !t.gone[i] && atomic.LoadUint64(t.word(i)) < seq {
			return false
		}
	}
	return true
}

// look learns of deaths.
func (t *Team) look() {
	epoch := t.failures.Epoch() // before the looks at the members
	if epoch <= t.seen {
		return
	}
	for i := range t.members {
		if !t.dead(i) {
			continue
		}
		if t.gone == nil {
			t.gone, t.some = make([]bool, len(t.members)), make([]int, 0, len(t.members))
		}
		t.gone[i] = true
	}
	t.seen = epoch
}

// bury gives the team up, with a *DeadError, if a member is dead and the team strict.
func (t *Team) bury() error {
	if t.tolerant {
		return nil
	}
	var dead []int
	for i := range t.members {
		if t.dead(i) {
			dead = append(dead, i)
		}
	}
	if dead == nil {
		return nil
	}
	t.breakOff()
	return &DeadError{Members: dead}
}

// dead says whether member i is known to be dead.
func (t *Team) dead(i int) bool {
	return t.failures.Dead(t.pes[i], t.members[i].Header.Incarnation)
}

// ringAll wakes every member that sleeps.
func (t *Team) ringAll() {
	for i, m := range t.members {
		if i != t.me {
			rma.RingBell(&m.Bell)
		}
	}
}

// Sync returns when all members have called it. It completes no memory
// operation.
func (t *Team) Sync(ctx context.Context) (err error) {
	seq, err := t.begin(1)
	if err != nil {
		return err
	}
	defer t.end(&err)
	return t.meet(ctx, seq)
}
