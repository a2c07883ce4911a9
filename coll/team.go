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
// Small contributions go through double-buffered slots, large ones are read
// where they lie in the symmetric heap. All members compute results
// themselves, in the order of the group, so that all hold the same bytes.
//
// # Failures
//
// Collectives are strict: they are of all members or fail. A member gives the
// team up with a *DeadError, which has all members that it knows to be dead,
//
//   - when it calls a collective and any member is known to be dead, and
//   - when it waits for a step that a dead member has not entered.
//
// It marks its arrival word then, never to enter another step, and rings everybody.
// A death of a member that had entered the step does not end a wait for it, and nor
// does that of a PE outside the team.
//
// Nobody hangs. Let a member wait for another one, i, to enter step s. If i is dead,
// its word stands still for good, as its death was published behind its last store:
// the waiter sees the death (package rma argues why it is not slept over), then the
// word, and gives up. If i has given up, the mark ends the wait, as it makes the word
// greater than any step; whoever finds a mark finds the death that was its cause as
// well, because the page was read before the mark was made. Otherwise i is alive
// and on its way, or waits itself for a step before s, as a wait for a step begins
// when the step before it is entered; so a chain of waits gets to earlier steps and
// ends at somebody dead, at a mark, or at a member that is computing. That one will
// call a collective, finds the death at the call, and leaves its mark.
//
// Survivors agree on the outcome of all collectives but Broadcast, as their last step
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

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Errors that every collective may return.
var (
	// ErrBroken reports a team on which an earlier collective ended by its
	// deadline: its members no longer agree on where they are.
	ErrBroken = errors.New("team is broken: an earlier collective on it was canceled or timed out")
	// ErrConcurrent reports a second collective on a team while one is under
	// way in this process.
	ErrConcurrent = errors.New("another collective is under way on this team in this PE")
	// ErrReleased reports a team that was released.
	ErrReleased = errors.New("team was released")
)

// DeadError reports members that have died: the collective, and every later one of
// the team, cannot end.
type DeadError struct{ Members []int } // indices in the team, ascending

// Error names the members.
func (e *DeadError) Error() string { return fmt.Sprintf("members %v of the team have died", e.Members) }

// LeftError reports a member that has left the group for good before a
// collective that this PE is in: it will never come.
type LeftError struct{ Member int }

// Error names the member.
func (e *LeftError) Error() string { return fmt.Sprintf("member %d has left the team", e.Member) }

// The marks in the arrival word of a member that will enter no further step; the
// other bits still hold the number of the last one that it had entered.
const (
	left   = 1 << 63 // it has left the team
	gaveUp = 1 << 62 // it has given the team up, because a member is dead
	marks  = left | gaveUp
)

// Team is one PE's side of a group. Collectives on it are called by all
// members in the same order, by one goroutine at a time.
type Team struct {
	members []*layout.Control // in the order of the group
	arrive  unsafe.Pointer    // words of the members, in the first member's segment
	stride  uintptr           // bytes from one word to the next
	state   *layout.Team      // of this PE
	met     uint64            // the latest step that all members are known to have entered
	free    [cells]uint64     // a cell of this member's slots is free when all have entered this step
	small   int               // bytes up to which a contribution goes through slots
	w       *rma.Waiter
	// failures says who is dead; up to epoch alive, no member was.
	failures *failure.View
	alive    uint64
	pes      []int // numbers of the members in the job
	me       int
	id       int
	busy     uint64 // 1: a collective is under way
	broken   atomic.Bool

	// What Split needs. See group.go.
	segments *symheap.Map
	began    uint64      // the step at which Split made it; 0: it was made otherwise
	released atomic.Bool // and broken as well
}

// Config describes a group to New.
type Config struct {
	Map     *symheap.Map
	Waiter  *rma.Waiter
	Members []int // indices of segments in Map, which are numbers of PEs, in the order of the group
	// Failures says which PEs have died; nil: nobody would. The Waiter watches it.
	Failures *failure.View
	Me       int // index in Members
	ID       int // of the team, the same for all members: 0 to MaxTeams-1
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
	t := &Team{w: c.Waiter, me: c.Me, id: c.ID, failures: c.Failures, pes: slices.Clone(c.Members), segments: c.Map}
	for _, i := range c.Members {
		t.members = append(t.members, c.Map.Control(i))
	}
	if c.Failures == nil {
		t.alive = math.MaxUint64 // nor do deaths end waits that the Waiter learns of
	}
	t.arrive = unsafe.Pointer(&t.members[0].Arrive[c.ID])
	t.stride = layout.ArriveStride(len(c.Members))
	t.state = &t.members[c.Me].Teams[c.ID]
	t.small = layout.SlotSize
	if !c.Waiter.Crowded {
		t.small = smallIdle
	}
	for seq := t.state.Seq; seq > 0 && seq+2 > t.state.Seq; seq-- {
		t.occupy(seq, layout.SlotSize) // by a predecessor of this object, for all that is known here
	}
	return t, nil
}

// Size returns the number of members.
func (t *Team) Size() int { return len(t.members) }

// word returns the arrival word of member i.
func (t *Team) word(i int) *uint64 { return (*uint64)(unsafe.Add(t.arrive, uintptr(i)*t.stride)) }

// begin claims the team for one collective of steps steps and returns the
// number of the first.
func (t *Team) begin(steps uint64) (uint64, error) {
	if t.broken.Load() {
		if t.released.Load() {
			return 0, ErrReleased
		}
		if err := t.bury(); err != nil {
			return 0, err
		}
		return 0, ErrBroken
	}
	if !atomic.CompareAndSwapUint64(&t.busy, 0, 1) {
		return 0, ErrConcurrent
	}
	t.w.Beat()
	if epoch := t.failures.Epoch(); epoch > t.alive {
		if err := t.bury(); err != nil {
			rma.StoreRelease(&t.busy, 0)
			return 0, err
		}
		t.alive = epoch
	}
	seq := t.state.Seq + 1
	t.state.Seq += steps
	return seq, nil
}

// end gives the team back; a step that failed has broken it, and so has a
// user's operator that panicked: then there are steps that were never entered.
func (t *Team) end(err *error) {
	if *err != nil || atomic.LoadUint64(t.word(t.me)) != t.state.Seq {
		t.broken.Store(true)
	}
	rma.StoreRelease(&t.busy, 0)
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
	if t.complete(0, seq) {
		t.ringAll()
	}
}

// meet enters step seq and returns when everybody has.
func (t *Team) meet(ctx context.Context, seq uint64) error {
	t.enter(seq, false)
	return t.awaitAll(ctx, seq)
}

// complete says whether nobody from member i on can still enter step seq: all
// have, or have left.
func (t *Team) complete(i int, seq uint64) bool {
	for ; i < len(t.members); i++ {
		if atomic.LoadUint64(t.word(i)) < seq {
			return false
		}
	}
	return true
}

// bury gives the team up, with a *DeadError, if a member is dead.
func (t *Team) bury() error {
	var dead []int
	for i := range t.members {
		if t.dead(i) {
			dead = append(dead, i)
		}
	}
	if dead == nil {
		return nil
	}
	t.broken.Store(true)
	if atomic.OrUint64(t.word(t.me), gaveUp)&gaveUp == 0 {
		t.ringAll()
	}
	return &DeadError{Members: dead}
}

// dead says whether member i is known to be dead.
func (t *Team) dead(i int) bool {
	return t.failures.Dead(t.pes[i], t.members[i].Header.Incarnation)
}

// missing says whether a dead member has not entered step seq. Its word is looked
// at behind its death, so that it is the last.
func (t *Team) missing(seq uint64) bool {
	for i := range t.members {
		if t.dead(i) && atomic.LoadUint64(t.word(i))&^marks < seq {
			return true
		}
	}
	return false
}

// await returns when member i has entered step seq, with the latest step that
// it is known to have entered.
func (t *Team) await(ctx context.Context, i int, seq uint64) (uint64, error) {
	v := atomic.LoadUint64(t.word(i))
	if v < seq {
		var err error
		if v, err = t.wait(ctx, i, seq); err != nil {
			return 0, err
		}
	}
	if v &^= marks; v < seq {
		if err := t.bury(); err != nil {
			return 0, err
		}
		return 0, &LeftError{Member: i}
	}
	return v, nil
}

// wait returns member i's word when it is at step seq or marked. Deaths end it only
// if the step cannot be reached by all.
func (t *Team) wait(ctx context.Context, i int, seq uint64) (uint64, error) {
	c := rma.Cond{Addr: unsafe.Pointer(t.word(i)), Val: seq, Width: 8, Cmp: rma.GE, Seen: t.alive}
	for {
		v, err := t.w.Wait(c, ctx)
		if !errors.Is(err, rma.ErrFailure) {
			return v, err
		}
		c.Seen = t.failures.Epoch() // before the looks at the members
		if t.missing(seq) {
			return 0, t.bury()
		}
	}
}

// awaitAll returns when all members have entered step seq.
func (t *Team) awaitAll(ctx context.Context, seq uint64) error {
	if t.met >= seq {
		return nil
	}
	met := uint64(math.MaxUint64)
	for i := range t.members {
		v, err := t.await(ctx, i, seq)
		if err != nil {
			return err
		}
		met = min(met, v)
	}
	t.met = met
	return nil
}

// Leave says that this member will enter no further collective: whoever waits
// for it there gets a *LeftError, or a *DeadError if a member is dead.
//
// Who waits for a step that this member has not entered has entered that step
// itself, so only members that are further on are rung: mostly none, and the
// page of another's bell is not touched for nothing. The swap comes before the
// looks at their words, and a member that goes to sleep arms its bell between its
// own word and its last look at this one: either it is seen here, or it sees the
// mark.
func (t *Team) Leave() {
	// The word and not state.Seq: a collective that failed has steps that this
	// member never entered.
	entered := atomic.LoadUint64(t.word(t.me)) &^ marks
	atomic.SwapUint64(t.word(t.me), left|entered)
	for i, m := range t.members {
		if i != t.me && atomic.LoadUint64(t.word(i))&^marks > entered {
			rma.RingBell(&m.Bell)
		}
	}
}

// Rejoin takes Leave back, for a successor of the team with the same members
// and id, and says whether there was anything to take back. If so, the members
// must meet by other means before they use the team.
func (t *Team) Rejoin() bool {
	if atomic.LoadUint64(t.word(t.me))&left == 0 {
		return false
	}
	atomic.StoreUint64(t.word(t.me), t.state.Seq)
	return true
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
