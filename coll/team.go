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
package coll

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

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
)

// LeftError reports a member that has left the group for good before a
// collective that this PE is in: it will never come.
type LeftError struct{ Member int }

// Error names the member.
func (e *LeftError) Error() string { return fmt.Sprintf("member %d has left the team", e.Member) }

// left marks the arrival word of a member that has left; the other bits still
// hold the number of the last step that it had entered.
const left = 1 << 63

// Team is one PE's side of a group. Collectives on it are called by all
// members in the same order, by one goroutine at a time.
type Team struct {
	members []*layout.Control // in the order of the group
	arrive  []atomic.Uint64   // of the members, in the first member's segment
	state   *layout.Team      // of this PE
	w       *rma.Waiter
	me      int
	id      int
	locked  bool
	busy    atomic.Bool
	broken  atomic.Bool
}

// Config describes a group to New.
type Config struct {
	Map     *symheap.Map
	Waiter  *rma.Waiter
	Members []int // indices of segments in Map, in the order of the group
	Me      int   // index in Members
	ID      int   // of the team, the same for all members: 0 to MaxTeams-1
}

// New returns the group. It does not communicate.
func New(c Config) (*Team, error) {
	if c.ID < 0 || c.ID >= layout.MaxTeams {
		return nil, fmt.Errorf("team id %d, want 0 to %d", c.ID, layout.MaxTeams-1)
	}
	if n := len(c.Members); n < 1 || n > layout.MaxLocal || c.Me < 0 || c.Me >= n {
		return nil, fmt.Errorf("team of %d members with this one at index %d, want 1 to %d", n, c.Me, layout.MaxLocal)
	}
	t := &Team{w: c.Waiter, me: c.Me, id: c.ID, locked: !c.Waiter.Expedited()}
	for _, i := range c.Members {
		t.members = append(t.members, c.Map.Control(i))
	}
	words := &t.members[0].Arrive[c.ID]
	t.arrive = unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(words)), len(c.Members))
	t.state = &t.members[c.Me].Teams[c.ID]
	return t, nil
}

// Size returns the number of members.
func (t *Team) Size() int { return len(t.members) }

// begin claims the team for one collective of steps steps and returns the
// number of the first.
func (t *Team) begin(steps uint64) (uint64, error) {
	if t.broken.Load() {
		return 0, ErrBroken
	}
	if !t.busy.CompareAndSwap(false, true) {
		return 0, ErrConcurrent
	}
	seq := t.state.Seq + 1
	t.state.Seq += steps
	return seq, nil
}

// end gives the team back; a step that failed has broken it, and so has a
// user's operator that panicked: then there are steps that were never entered.
func (t *Team) end(err *error) {
	if *err != nil || t.arrive[t.me].Load() != t.state.Seq {
		t.broken.Store(true)
	}
	t.busy.Store(false)
}

// enter publishes that this member has entered step seq, with all that it
// stored before. It wakes the others if everybody has entered now, or always
// when they may be waiting for this member alone.
func (t *Team) enter(seq uint64, always bool) {
	// Swap and not Store, which is the same instruction in a plain build: the
	// race detector stores mapped words with release order only, and then two
	// that arrive last could each miss the other's word, and wake nobody.
	t.arrive[t.me].Swap(seq)
	if always || t.complete(seq) {
		t.ringAll()
	}
}

// complete says whether nobody can still enter step seq: all have, or have left.
func (t *Team) complete(seq uint64) bool {
	for i := range t.arrive {
		if t.arrive[i].Load() < seq {
			return false
		}
	}
	return true
}

// missing returns the first member from index i on that has not entered step
// seq or has left, or -1.
func (t *Team) missing(i int, seq uint64) int {
	for ; i < len(t.arrive); i++ {
		if t.arrive[i].Load()-seq >= left>>1 { // less than seq, or marked
			return i
		}
	}
	return -1
}

// await returns when member i has entered step seq.
func (t *Team) await(ctx context.Context, i int, seq uint64) error {
	v := t.arrive[i].Load()
	if v < seq {
		var err error
		v, err = t.w.Wait(rma.Cond{
			Addr: unsafe.Pointer(&t.arrive[i]), Val: seq, Width: 8, Cmp: rma.GE,
		}, ctx)
		if err != nil {
			return err
		}
	}
	if v&^left < seq {
		return &LeftError{Member: i}
	}
	return nil
}

// awaitAll returns when all members have entered step seq.
func (t *Team) awaitAll(ctx context.Context, seq uint64) error {
	for i := t.missing(0, seq); i >= 0; i = t.missing(i+1, seq) {
		if err := t.await(ctx, i, seq); err != nil {
			return err
		}
	}
	return nil
}

// Leave says that this member will enter no further collective: whoever waits
// for it there gets a *LeftError.
func (t *Team) Leave() {
	t.arrive[t.me].Store(left | t.state.Seq)
	t.ringAll()
}

// Rejoin takes Leave back, for a successor of the team with the same members
// and id, and says whether there was anything to take back. If so, the members
// must meet by other means before they use the team.
func (t *Team) Rejoin() bool {
	if t.arrive[t.me].Load()&left == 0 {
		return false
	}
	t.arrive[t.me].Store(t.state.Seq)
	return true
}

// ringAll wakes every member that sleeps.
func (t *Team) ringAll() {
	for i, m := range t.members {
		if i != t.me {
			rma.RingBell(&m.Bell, t.locked)
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
	t.enter(seq, false)
	return t.awaitAll(ctx, seq)
}

// slot returns member i's slot of step seq.
func (t *Team) slot(i int, seq uint64) *[layout.SlotSize]byte {
	return &t.members[i].Slots[t.id][seq&1]
}

// slotFree waits until nobody reads this member's slot of step seq any more:
// it was last used for step seq-2, and whoever has entered seq-1 is done with
// that. Only after a broadcast is there anything to wait for.
func (t *Team) slotFree(ctx context.Context, seq uint64) error {
	return t.awaitAll(ctx, seq-1)
}

// at returns the address of offset off in member i's segment.
func (t *Team) at(i int, off uint64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(t.members[i]), int(off))
}

// exchange puts bytes into this member's slot and returns when everybody's can
// be read from the slots of the step that it returns.
func (t *Team) exchange(ctx context.Context, bytes []byte) (seq uint64, err error) {
	if seq, err = t.begin(1); err != nil {
		return 0, err
	}
	defer t.end(&err)
	if err := t.slotFree(ctx, seq); err != nil {
		return 0, err
	}
	copy(t.slot(t.me, seq)[:], bytes)
	t.enter(seq, false)
	return seq, t.awaitAll(ctx, seq)
}

// Words is a small record that all members compare.
type Words [4]uint64

// Same returns -1 when all members called it with the same words, otherwise
// the first member whose words differ from the first member's, with both. All
// members get the same answer.
func (t *Team) Same(ctx context.Context, w Words) (differs int, first, other Words, err error) {
	// A member that is in another collective has not written its slot in this
	// step: what an earlier one left there must not pass for its words.
	mine := record{seq: t.state.Seq + 1, check: ^(t.state.Seq + 1), w: w}
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&mine)), unsafe.Sizeof(mine)))
	if err != nil {
		return -1, w, w, err
	}
	first = t.words(0, seq)
	for i := 1; i < len(t.members); i++ {
		if other = t.words(i, seq); other != first {
			return i, first, other, nil
		}
	}
	return -1, first, first, nil
}

// record is what Same puts into a slot.
type record struct {
	seq   uint64
	check uint64 // complement of seq: user data in a slot will not look so
	w     Words
}

// words returns what a member gave to Same in step seq, zeros if it was in
// another collective.
func (t *Team) words(i int, seq uint64) Words {
	if r := (*record)(unsafe.Pointer(t.slot(i, seq))); r.seq == seq && r.check == ^seq {
		return r.w
	}
	return Words{}
}
