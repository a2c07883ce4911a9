package wait

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Set is a condition on each of N words of the same width that lie one after the other. Like Cond, it
// is plain data.
type Set struct {
	Cond                 // the condition; Addr is the address of word 0, Val is for all words if Vals is nil
	Vals  unsafe.Pointer // N values of the words' width, one for each word; nil: Val
	N     int            // number of words
	Skip  []bool         // Skip[i]: word i does not count; nil: all words count
	Start int            // the word that is checked first, below N
}

// Empty says whether no word counts.
func (s *Set) Empty() bool {
	for i := range s.N {
		if !s.skips(i) {
			return false
		}
	}
	return true
}

func (s *Set) skips(i int) bool { return s.Skip != nil && s.Skip[i] }

// At returns the condition on word i, and whether the word counts.
func (s *Set) At(i int) (c Cond, counts bool) {
	c = s.Cond
	if s.Vals != nil {
		v := Cond{Addr: unsafe.Add(s.Vals, i*int(s.Width)), Width: s.Width, Signed: s.Signed}
		c.Val = v.readLocal()
	}
	c.Addr = unsafe.Add(s.Addr, i*int(s.Width))
	return c, !s.skips(i)
}

// readLocal reads a word that no other process writes, extended as Load extends it.
func (c *Cond) readLocal() uint64 {
	switch {
	case c.Width == 8:
		return *(*uint64)(c.Addr)
	case c.Width == 4 && c.Signed:
		return uint64(int64(*(*int32)(c.Addr)))
	case c.Width == 4:
		return uint64(*(*uint32)(c.Addr))
	case c.Signed:
		return uint64(int64(*(*int16)(c.Addr)))
	default:
		return uint64(*(*uint16)(c.Addr))
	}
}

// Find checks each word that counts once: from word Start to the last, then from word 0 to the one before
// Start. It returns the first word whose condition holds, or -1.
func (s *Set) Find() int {
	if i := s.findBetween(s.Start, s.N); i >= 0 {
		return i
	}
	return s.findBetween(0, s.Start)
}

// Collect checks words in the order of Find. It stores the words whose condition holds in idx, until idx is
// full, and returns their number.
func (s *Set) Collect(idx []int) int {
	n := s.collect(idx, s.Start, s.N)
	return n + s.collect(idx[n:], 0, s.Start)
}

// CollectBut is Collect without word i, beginning at the word after it.
func (s *Set) CollectBut(i int, idx []int) int {
	n := s.collect(idx, i+1, s.N)
	return n + s.collect(idx[n:], 0, i)
}

// collect stores in idx those of words i to j-1 whose conditions hold.
func (s *Set) collect(idx []int, i, j int) (n int) {
	for ; n < len(idx); i++ {
		if i = s.findBetween(i, j); i < 0 {
			break
		}
		idx[n] = i
		n++
	}
	return n
}

// findBetween returns the first of words i to j-1 whose condition holds, or -1.
func (s *Set) findBetween(i, j int) int {
	for ; i < j; i++ {
		if c, counts := s.At(i); counts && c.Ready() {
			return i
		}
	}
	return -1
}

// WaitAny is Wait for any word of a set in which at least one word counts. It returns a word whose condition
// holds, or -1 and the error.
//
//   - Phases, failures, peers: as in Wait and Serve. All words are in this PE's segment, so their writers
//     ring the same bell.
//   - Polls: Policy.Polls divided by the number of words, so that the first yield comes after about the
//     same time.
func (w *Waiter) WaitAny(s *Set, ctx context.Context) (int, error) { //nolint:revive // as Wait
	w.Beat()
	for timeout := w.First; ; {
		for range max(w.Polls/s.N, 1) {
			if i := s.Find(); i >= 0 {
				return i, nil
			}
		}
		if w.diedSince(s.Seen) {
			return s.findOr(ErrFailure)
		}
		_, over := w.serveAndLook(ctx)
		for t := w.turns(); over == nil && t.next(); {
			var worked bool
			if worked, over = w.serveAndLook(ctx); worked {
				t.restartTiming()
			}
			if i := s.Find(); i >= 0 {
				return i, nil
			}
			if w.diedSince(s.Seen) {
				return s.findOr(ErrFailure)
			}
		}
		if over != nil {
			return s.findOr(over)
		}
		if i, err := w.sleepSet(s, ctx, &timeout); i >= 0 || err != nil {
			return i, err
		}
	}
}

// sleepSet is sleep for a set. It returns -1 without an error if the caller should check again.
func (w *Waiter) sleepSet(s *Set, ctx context.Context, timeout *time.Duration) (int, error) { //nolint:revive // as Wait
	w.sleepers.Add(1)
	defer w.leaveSleep()
	w.awaited.Store(0) // no single peer
	for ; ; *timeout = min(2**timeout, w.Most) {
		armed := w.armBell(false)
		if i := s.Find(); i >= 0 {
			return i, nil
		}
		if err := w.expired(ctx); err != nil {
			return -1, err
		}
		if w.diedSince(s.Seen) {
			return s.findOr(ErrFailure)
		}
		if worked, over := w.serveAndLook(ctx); worked {
			return s.findOr(over)
		}
		err := xunix.FutexWait(&w.bell.Sleeping, armed, *timeout)
		if errors.Is(err, xunix.ErrTimeout) {
			continue
		}
		if i := s.Find(); i >= 0 {
			return i, nil
		}
		return -1, err
	}
}

// findOr returns the first word whose condition holds, or -1 and err.
func (s *Set) findOr(err error) (int, error) {
	if i := s.Find(); i >= 0 {
		return i, nil
	}
	return -1, err
}
