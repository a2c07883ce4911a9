package shmem

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll"
)

// With GOSHMEM_CHECK=collectives, the PEs of a team tell each other what they call before each collective, in one
// more step of the same team. Each collective is compared before it begins, so all PEs are in the same step when they
// compare, whatever they call. All find the same differences. So all return an error, none enters the collective, and
// the team and the heaps stay good.
//
// A PE whose arguments are bad tells the others so and returns its own error, which the others quote.
//
// Not compared:
//
//   - collectives of teams that span nodes. These compare the kinds of calls, and the arguments of allocations and
//     splits, in each collective;
//   - collectives of different teams with each other;
//   - calls that are documented to return at once, such as Free of a zero handle;
//   - meetings inside a call that was compared;
//   - what package interop does with a team;
//   - operators that are function literals in generic code of the program, and the variables that a function literal
//     captures.

// compare returns ErrMismatch if the other PEs of the team call something else, and ErrTeamBroken as well if one of
// them has given its call up by now. The text of a call contains its arguments, except the offsets of the objects.
func (t *Team) compare(op string, dst, src uint64, format string, args ...any) error {
	return t.compareCall(op, coll.Call{Text: fmt.Sprintf(format, args...), Objects: [2]uint64{dst, src}})
}

// compareCall is compare for a call that has been described already.
func (t *Team) compareCall(op string, c coll.Call) error {
	if t.upper != nil {
		return nil
	}
	all, err := t.coll.Compare(t.ctx, c)
	if err != nil || all == nil {
		return t.publicError(op, err)
	}
	cause := ErrMismatch
	if slices.ContainsFunc(all, func(c coll.Callers) bool { return c.GaveUp }) {
		cause = errors.Join(ErrMismatch, ErrTeamBroken)
	}
	who := coll.NameCallers(all, "PE", func(i int) int { return int(t.group.pe(i)) })
	return usage(op, cause, "%s: want the same call on all PEs of the team", who)
}

// compareIfPossible is compare for calls that work on every team. If members are dead or the team is broken, nothing
// can be compared, and the call goes on. It also goes on if the team's With has ended: the call finds that itself,
// and tells the PEs that wait for this one in it.
func (t *Team) compareIfPossible(op string) error {
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", op); errors.Is(err, ErrMismatch) && !errors.Is(err, ErrTeamBroken) {
			return err
		}
	}
	return nil
}

// reportRefusal returns err, the error of a call whose arguments are bad at this PE. If PEs compare what they call,
// the others get an error that quotes err, instead of waiting for this PE.
func (t *Team) reportRefusal(op string, err error) error {
	if t.checkUsable(op) != nil || !t.h.checks {
		return err
	}
	why := err.Error()
	if bad, ok := errors.AsType[*UsageError](err); ok {
		why = bad.Msg
	}
	_ = t.compareCall(op, coll.Call{Text: fmt.Sprintf("%s with bad arguments (%s)", op, why), Refused: true}) // err, this PE's own mistake, matters more
	return err
}
