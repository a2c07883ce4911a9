package shmem

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll"
)

// With GOSHMEM_CHECK=collectives, the PEs of a team tell each other what they call before each
// collective, by one more step of the same team. As each collective is compared before it
// begins, all PEs are in the same step whenever they compare, whatever they call; and as they
// find the same differences, all return an error and none enters the collective. So the team
// and the heaps stay good.
//
// A PE whose arguments are bad tells the others so and returns its own error, which they quote.
//
// What is not compared: collectives of different teams with each other; calls that are
// documented to do nothing at once, as Free of a zero handle; meetings inside a call that was
// compared; what package interop does with a team; operators of the program that are function
// literals of its generic code, and what a function literal has captured.

// compare returns an error if the other PEs of the team do not call the same: ErrMismatch, and
// ErrTeamBroken as well if one of them has given its call up by now. The text of a call has its
// arguments, but for the offsets of the objects.
func (t *Team) compare(op string, dst, src uint64, format string, args ...any) error {
	return t.compareCall(op, coll.Call{Text: fmt.Sprintf(format, args...), Objects: [2]uint64{dst, src}})
}

func (t *Team) compareCall(op string, c coll.Call) error {
	all, err := t.t.Compare(t.ctx, c)
	if err != nil || all == nil {
		return t.fail(op, err)
	}
	cause := ErrMismatch
	if slices.ContainsFunc(all, func(c coll.Callers) bool { return c.GaveUp }) {
		cause = errors.Join(ErrMismatch, ErrTeamBroken)
	}
	who := coll.NameCallers(all, "PE", func(i int) int { return int(t.g.pes[i]) })
	return usage(op, cause, "%s: want the same call on all PEs of the team", who)
}

// compareLiving is compare for calls that work on every team. Where members are dead or the
// team is broken, nothing can be compared, and the call goes on. So it does when the team's With
// has ended: the call finds that itself, and tells those that wait for this PE in it.
func (t *Team) compareLiving(op string) error {
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", op); errors.Is(err, ErrMismatch) && !errors.Is(err, ErrTeamBroken) {
			return err
		}
	}
	return nil
}

// refuse returns err, the error of a call whose arguments are bad at this PE. Where PEs
// compare what they call, the others get an error that has its text, instead of waiting for
// this PE.
func (t *Team) refuse(op string, err error) error {
	if t.usable(op) != nil || !t.h.checks {
		return err
	}
	why := err.Error()
	if bad, ok := errors.AsType[*UsageError](err); ok {
		why = bad.Msg
	}
	_ = t.compareCall(op, coll.Call{Text: fmt.Sprintf("%s with bad arguments (%s)", op, why), Refused: true}) // what is wrong here comes first
	return err
}
