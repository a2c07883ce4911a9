package coll

import (
	"context"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
)

// arrivals is the arrival words of a team: each member's latest step, and the marks of
// members that enter no further step. All words lie in the first member's segment.
//
//   - Owns: where the words are.
//   - Writes: this member's own word, in enterStep, giveUp, markWithdrawn and Team.Leave. A
//     group begins, and a successor goes on, by a word that resetWords or Rejoin stores.
//   - Reads: all words.
type arrivals struct {
	roster
	wordBase   unsafe.Pointer // the first member's word
	wordStride uintptr        // bytes from one member's word to the next
	listed     []int          // what listContributors has returned last
}

// The marks in the arrival word of a member that enters no further step. The other bits
// still hold the latest step that the member has entered.
const (
	left     = board.Left     // the member has left the team
	gaveUp   = board.GaveUp   // the member has given the team up
	withdrew = board.Withdrew // the member gave up in a step in which others may still read its source
	marks    = board.Marks
)

// word returns the arrival word of member i.
func (a *arrivals) word(i int) *uint64 {
	return (*uint64)(unsafe.Add(a.wordBase, uintptr(i)*a.wordStride))
}

// enterStep publishes that this member has entered step seq, and all that it stored
// before. It wakes the others if all that live have entered now. With always it wakes them
// in any case, as they may be waiting for this member alone.
//
// Of several members that enter together, at least one has to see all words in place. So
// the store is sequentially consistent. A member that rings in any case need not look at the
// others' words: its look at the bells after the store suffices, as it does for a put.
func (a *arrivals) enterStep(seq uint64, always bool) {
	if always || len(a.members) == 2 {
		rma.StoreRelease(a.word(a.me), seq)
		a.ringOthers()
		return
	}
	// Swap and Store are the same instruction in a plain build. The race detector stores
	// mapped words with release order only. Then two members that arrive last could each
	// miss the other's word, and wake nobody.
	atomic.SwapUint64(a.word(a.me), seq)
	if a.allEntered(seq) || a.tolerant && a.survivorsEntered(seq) {
		a.ringOthers()
	}
}

// allEntered says whether no member can enter step seq any more: each has entered it, or
// has left a mark.
func (a *arrivals) allEntered(seq uint64) bool {
	for i := range a.members {
		if atomic.LoadUint64(a.word(i)) < seq {
			return false
		}
	}
	return true
}

// survivorsEntered is allEntered without the members that are known to be dead. It is false
// if none is.
func (a *arrivals) survivorsEntered(seq uint64) bool {
	if a.failures.Epoch() > a.deadEpoch {
		a.noteDeaths()
	}
	if a.dead == nil {
		return false
	}
	for i := range a.members {
		if !a.dead[i] && atomic.LoadUint64(a.word(i)) < seq {
			return false
		}
	}
	return true
}

// othersEntered says whether all other members have entered step seq, or never will.
func (a *arrivals) othersEntered(seq uint64) bool {
	for i := range a.members {
		if i != a.me && atomic.LoadUint64(a.word(i)) < seq && !a.knownDead(i) {
			return false
		}
	}
	return true
}

// deadShortOf says whether a member died before it entered step seq. It reads the failure page
// first and the word then: only so is the word the member's last one.
func (a *arrivals) deadShortOf(seq uint64) bool {
	for i := range a.members {
		if a.knownDead(i) && atomic.LoadUint64(a.word(i))&^marks < seq {
			return true
		}
	}
	return false
}

// hasEntered says whether member i has entered step seq, which this member has waited for.
func (a *arrivals) hasEntered(i int, seq uint64) bool {
	return a.dead == nil || !a.dead[i] || board.VerdictOf(atomic.LoadUint64(a.word(i)), seq, true) == board.Entered
}

// contributors returns the members that have entered step seq, which this member has waited
// for: all, unless some are dead. The slice is good until the next call.
func (a *arrivals) contributors(seq uint64) []int {
	if a.dead == nil {
		return a.everyone // in the caller: this half is inlined
	}
	return a.listContributors(seq)
}

// listContributors is contributors where members are dead.
func (a *arrivals) listContributors(seq uint64) []int {
	if a.listed == nil {
		a.listed = make([]int, 0, len(a.members))
	}
	a.listed = a.listed[:0]
	for i := range a.members {
		if a.hasEntered(i, seq) {
			a.listed = append(a.listed, i)
		}
	}
	return a.listed
}

// giveUp marks this member's word. The mark ends every wait for this member, now and later.
func (a *arrivals) giveUp(mark uint64) {
	if atomic.OrUint64(a.word(a.me), mark)&gaveUp == 0 {
		a.ringOthers()
	}
}

// markWithdrawn marks that this member has given the team up in step seq, if it has entered
// that.
func (a *arrivals) markWithdrawn(seq uint64) {
	if atomic.LoadUint64(a.word(a.me))&^marks == seq {
		atomic.OrUint64(a.word(a.me), withdrew|gaveUp)
	}
}

// resetWords lets a group begin at a step. Only the first member calls it: all words are in
// its segment.
func (a *arrivals) resetWords(start uint64) {
	for i := range a.members {
		atomic.StoreUint64(a.word(i), start)
	}
}

// waitForWord waits until a word of member i is at step seq or marked, or until the failure
// page has an epoch later than seen.
//
// The wait gets the condition by its address, not as a copy. A copy's wide loads would read
// what two narrower stores wrote a moment ago. The processor cannot forward that: such a load
// waits until all earlier stores are in the cache.
func (a *arrivals) waitForWord(ctx context.Context, i int, word *uint64, seq, seen uint64) (uint64, error) {
	return a.waiter.Wait(&wait.Cond{Addr: unsafe.Pointer(word), Val: seq, Width: 8, Cmp: wait.GE, Seen: seen, Peer: int32(a.where[i].PE) + 1}, ctx)
}

// awaitWordOrDeath waits until a word of member i is at step seq. It returns the step in the
// word, or 0 if the member died short of step seq. Package board decides what a word means.
func (a *arrivals) awaitWordOrDeath(ctx context.Context, i int, word *uint64, seq uint64) (v uint64, err error) {
	for w := (board.Wait{Seq: seq}); ; {
		switch w.Next() {
		case board.Word:
			v = atomic.LoadUint64(word)
			w.SetWord(v)
		case board.News:
			w.SetDead(a.dead != nil && a.dead[i])
		case board.Sleep:
			if _, err = a.waitForWord(ctx, i, word, seq, a.deadEpoch); errors.Is(err, wait.ErrFailure) {
				a.noteDeaths()
			} else if err != nil {
				return 0, lateError(i, err)
			}
			w.SetAwake()
		default:
			return stepByVerdict(w.Verdict(), i, v)
		}
	}
}

// stepByVerdict returns the step in member i's word, 0 if the member died short of the step
// that was waited for, or the error of its mark.
func stepByVerdict(v board.Verdict, i int, word uint64) (uint64, error) {
	switch v {
	case board.Entered:
		return word &^ marks, nil
	case board.HasLeft:
		return 0, &LeftError{Member: i}
	case board.HasGivenUp:
		return 0, ErrBroken
	default:
		return 0, nil
	}
}
