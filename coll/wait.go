package coll

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/internal/wait"
)

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
// it is known to have entered; with 0 when it is dead short of it and the team
// tolerant.
func (t *Team) await(ctx context.Context, i int, seq uint64) (uint64, error) {
	v := atomic.LoadUint64(t.word(i))
	if v < seq {
		if t.tolerant {
			return t.settle(ctx, i, t.word(i), seq)
		}
		var err error
		if v, err = t.wait(ctx, i, seq); err != nil {
			return 0, err
		}
	}
	if v&^marks < seq {
		return t.marked(i, v)
	}
	return v &^ marks, nil
}

// marked returns the error of a wait for member i that its mark has ended.
func (t *Team) marked(i int, word uint64) (uint64, error) {
	if err := t.bury(); err != nil {
		return 0, err
	}
	if word&left != 0 {
		return 0, &LeftError{Member: i}
	}
	return 0, ErrBroken
}

// wait returns member i's word when it is at step seq or marked. Deaths end it only
// if the step cannot be reached by all.
func (t *Team) wait(ctx context.Context, i int, seq uint64) (uint64, error) {
	for seen := t.seen; ; {
		v, err := t.waitBehind(ctx, i, t.word(i), seq, seen)
		if err == nil {
			return v, nil
		}
		if !errors.Is(err, wait.ErrFailure) {
			return v, late(i, err)
		}
		seen = t.failures.Epoch() // before the looks at the members
		if t.missing(seq) {
			return 0, t.bury()
		}
	}
}

// late returns the error of a wait for member i that ended with err, which may be nil.
func late(i int, err error) error {
	if err == nil {
		return nil
	}
	return &LateError{Member: i, Err: err}
}

// waitBehind waits until a word of member i's is at step seq or marked, or there is a death behind
// epoch seen.
//
// The condition is not copied: the loads of a copy take what two stores have written, and so
// wait until all stores before them have got their lines.
func (t *Team) waitBehind(ctx context.Context, i int, word *uint64, seq, seen uint64) (uint64, error) {
	return t.w.Wait(&wait.Cond{Addr: unsafe.Pointer(word), Val: seq, Width: 8, Cmp: wait.GE, Seen: seen, Peer: int32(t.pes[i]) + 1}, ctx)
}

// settle returns when member i has entered step seq, by the word given, with the
// latest step that it is known to have entered; or with 0 when it is dead short of it.
func (t *Team) settle(ctx context.Context, i int, word *uint64, seq uint64) (v uint64, err error) {
	for w := (board.Wait{Seq: seq}); ; {
		switch w.Next() {
		case board.Word:
			v = atomic.LoadUint64(word)
			w.Tell(v)
		case board.News:
			w.Heard(t.gone != nil && t.gone[i])
		case board.Sleep:
			if _, err = t.waitBehind(ctx, i, word, seq, t.seen); errors.Is(err, wait.ErrFailure) {
				t.look()
			} else if err != nil {
				return 0, late(i, err)
			}
			w.Woken()
		default:
			return verdict(w.Verdict(), i, v)
		}
	}
}

// verdict gives what is known of member i the form of await's results.
func verdict(v board.Verdict, i int, word uint64) (uint64, error) {
	switch v {
	case board.In:
		return word &^ marks, nil
	case board.HasLeft:
		return 0, &LeftError{Member: i}
	case board.HasGiven:
		return 0, ErrBroken
	default:
		return 0, nil
	}
}

// awaitAll returns when all members have entered step seq, but for those that are
// dead short of it if the team is tolerant.
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
		if v != 0 {
			met = min(met, v)
		}
	}
	t.met = met
	return nil
}

// in says whether member i has entered step seq, which has been waited for.
func (t *Team) in(i int, seq uint64) bool {
	return t.gone == nil || !t.gone[i] || board.Judge(atomic.LoadUint64(t.word(i)), seq, true) == board.In
}

// present returns the members that have entered step seq, which has been waited for:
// all, unless some are dead. The slice is good until the next call.
func (t *Team) present(seq uint64) []int {
	if t.gone == nil {
		return t.all // in line
	}
	return t.living(seq)
}

func (t *Team) living(seq uint64) []int {
	t.some = t.some[:0]
	for i := range t.members {
		if t.in(i, seq) {
			t.some = append(t.some, i)
		}
	}
	return t.some
}

// Outcome says of whom a collective was.
type Outcome struct {
	// Contributors are the members whose data are in it, ascending: those that have
	// entered it, of a broadcast the root alone.
	Contributors []int
	// Failed are those that died short of it, ascending.
	Failed []int
}

// Outcome returns that of the latest collective of this member that has returned
// without an error, or with the death of a broadcast's root. It is the same for all members
// that returned from it.
//
//   - Cost: none for the collective; here two slices.
func (t *Team) Outcome() (o Outcome) {
	for i := range t.members {
		switch {
		case t.only >= 0 && t.only != i:
		case t.in(i, t.first):
			o.Contributors = append(o.Contributors, i)
		default:
			o.Failed = append(o.Failed, i)
		}
	}
	return o
}

// Whole returns a *DeadError if members died short of the latest collective: for
// those who cannot do without.
func (t *Team) Whole() error {
	if t.gone == nil {
		return nil
	}
	if failed := t.Outcome().Failed; failed != nil {
		return &DeadError{Members: failed}
	}
	return nil
}
