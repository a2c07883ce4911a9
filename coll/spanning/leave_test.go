package spanning

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A member that leaves ends the step that it does not enter with an error that names it, whichever member it is and whether
// the others wait already. It does not disturb the steps before.
func TestLeave(t *testing.T) {
	for leaver := range 6 {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(leaver, late), func(t *testing.T) {
				c := newCluster(t, 2, 2, 2)
				others := c.all(leaver)
				errs := c.each(c.all(), func(x *process) error {
					for range 5 {
						if err := meet(t.Context(), x.world); err != nil {
							return fmt.Errorf("before PE %d leaves: %w", leaver, err)
						}
					}
					if int(x.pe) != leaver {
						return meet(t.Context(), x.world)
					}
					for i := 0; late && i < len(others); {
						if o := c.pes[others[i]]; atomic.LoadUint32(&o.of.m.Control(o.local).Bell.Sleeping)&layout.BellAsleep != 0 {
							i++
						}
						runtime.Gosched()
					}
					x.world.Leave()
					x.world.Leave() // which does nothing
					return nil
				})
				fatal(t, errs[leaver])
				wantAll[*coll.LeftError](t, others, errs)
				if e, _ := errors.AsType[*coll.LeftError](errs[others[0]]); e.Member != leaver {
					t.Errorf("member %d has left, want %d", e.Member, leaver)
				}
			})
		}
	}
}

// A death is reported rather than that another member has left.
func TestLeaveAfterDeath(t *testing.T) {
	c := newCluster(t, 2, 2, 2)
	c.publish(3)
	c.pes[4].world.Leave()
	alive := c.all(3, 4)
	wantAll[*coll.DeadError](t, alive, c.each(alive, func(x *process) error { return meet(t.Context(), x.world) }))
}

// A team that is dissolved has no words any more that Leave might write: they may be another team's.
func TestLeaveAfterDissolve(t *testing.T) {
	c := newCluster(t, 1, 1)
	fatal(t, errors.Join(c.each(c.all(), func(x *process) error {
		for range 3 {
			made, err := x.world.Split(t.Context(), 7, []int{1, 0}, false)
			if err != nil {
				return err
			}
			if err := errors.Join(meet(t.Context(), made.Far), made.Far.Dissolve(t.Context(), coll.Words{})); err != nil {
				return err
			}
			made.Far.Leave()
		}
		return nil
	})...))
}

// A member that could not do its part of a collective makes it fail for all, whichever member it is. The team is broken.
func TestConclude(t *testing.T) {
	for failing := range 6 {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprint(failing, dies), func(t *testing.T) {
				c := newCluster(t, 2, 2, 2)
				failed := errors.New("out of paper")
				if dies {
					failed = &coll.DeadError{Members: []int{(failing + 1) % 6}} // which the pages do not tell yet
				}
				conclude := func(x *process, failed error) error {
					_, _, err := x.world.Conclude(t.Context(), coll.Words{}, failed)
					return err
				}
				for pe, err := range c.each(c.all(), func(x *process) error {
					if err := conclude(x, nil); err != nil {
						return fmt.Errorf("before a failure: %w", err)
					}
					if int(x.pe) == failing {
						return conclude(x, failed)
					}
					return conclude(x, nil)
				}) {
					dead, isDeath := errors.AsType[*coll.DeadError](err)
					switch {
					case dies && (!isDeath || dead.Members[0] != (failing+1)%6):
						t.Errorf("member %d: %v, want the death of member %d", pe, err, (failing+1)%6)
					case !dies && !errors.Is(err, coll.ErrBroken):
						t.Errorf("member %d: %v, want that of a broken team", pe, err)
					}
				}
				for pe, err := range c.each(c.all(), func(x *process) error { return conclude(x, nil) }) {
					if !errors.Is(err, coll.ErrBroken) {
						t.Errorf("member %d: %v in the next step, want that of a broken team", pe, err)
					}
				}
			})
		}
	}
}
