//go:build explore

package coll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Collectives are explored as lists of acts. Each member's contribution to an act differs from
// those of the other members and of other acts. Sources change as soon as an act has returned,
// even with an error. All members to which an act returned must have found the same contributors
// and the results of those.

// act is one collective of a scenario, the k-th.
type act func(r *run, tm *coll.Team, me, k int) error

func add64(acc, in []uint64) {
	for i := range acc {
		acc[i] += in[i]
	}
}

const exploredSrc, exploredDst = 256 << 10, 0

// gives is element j of member i's contribution to the k-th act.
func gives(i, k, j int) uint64 { return 1<<(8*i)*uint64(1+k%5) + uint64(j)<<32 }

// prepare fills the member's source and clears its destination, which is another object.
func (r *run) prepare(me, k, n, room int) (src, dst []uint64) {
	src, dst = elements[uint64](r.nd, me, exploredSrc, n), elements[uint64](r.nd, me, exploredDst, room)
	for j := range src {
		src[j] = gives(me, k, j)
	}
	clear(dst)
	return src, dst
}

func buffers(n int) coll.Buffers {
	return coll.Buffers{Dst: layout.HeapOffset + exploredDst, Src: layout.HeapOffset + exploredSrc, N: n}
}

// expect compares a result.
func expect(k, from int, got []uint64, want func(j int) uint64) error {
	for j := range got {
		if w := want(j); got[j] != w {
			return &wrongError{fmt.Sprintf("act %d: element %d is %#x, want %#x", k, from+j, got[j], w)}
		}
	}
	return nil
}

// wrongError is a wrong result, which no death excuses.
type wrongError struct{ what string }

func (e *wrongError) Error() string { return e.what }

// sumOf returns the result of a reduction over some contributors.
func sumOf(who []int, k int) func(j int) uint64 {
	return func(j int) (sum uint64) {
		for _, i := range who {
			sum += gives(i, k, j)
		}
		return sum
	}
}

func syncs(r *run, tm *coll.Team, me, _ int) error { return tm.Sync(r.ctx(me)) }

func reducing(n int) act { return reductions(n, false) }

// reductions use objects of their own, or work in place.
func reductions(n int, inPlace bool) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		src, dst, b := r.objects(me, k, n, inPlace)
		err := coll.Reduce(r.ctx(me), tm, b, add64)
		if err == nil {
			err = expect(k, 0, dst, sumOf(tm.Outcome().Contributors, k))
		}
		clear(src)
		return err
	}
}

// objects returns the objects of a collective whose destination is as large as its source.
func (r *run) objects(me, k, n int, inPlace bool) (src, dst []uint64, b coll.Buffers) {
	src, dst = r.prepare(me, k, n, n)
	b = buffers(n)
	if inPlace {
		b.Dst, dst = b.Src, src
	}
	return src, dst, b
}

func scanning(n int, exclusive bool) act { return scansOf(n, exclusive, false) }

// scansOf are inclusive or exclusive, with objects of their own or in place.
func scansOf(n int, exclusive, inPlace bool) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		src, dst, b := r.objects(me, k, n, inPlace)
		err := coll.Scan(r.ctx(me), tm, b, add64, exclusive)
		if err == nil {
			who := slices.DeleteFunc(tm.Outcome().Contributors, func(i int) bool { return i > me || exclusive && i == me })
			err = expect(k, 0, dst, sumOf(who, k))
		}
		clear(src)
		return err
	}
}

func broadcasting(n, root int) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		src, dst := r.prepare(me, k, n, n)
		err := coll.Broadcast[uint64](r.ctx(me), tm, buffers(n), root)
		clear(src)
		if o := tm.Outcome(); err == nil && (!slices.Equal(o.Contributors, []int{root}) || o.Failed != nil) {
			return &wrongError{fmt.Sprintf("act %d: the broadcast by member %d has the outcome %+v", k, root, o)}
		}
		if err == nil {
			err = expect(k, 0, dst, sumOf([]int{root}, k))
		}
		return err
	}
}

// collecting is FCollect, or Collect in which member i has i elements more.
func collecting(n int, equal bool) act {
	if equal {
		return collectsBy(func(int) int { return n }, func(r *run, tm *coll.Team, me, _ int) error {
			return coll.FCollect[uint64](r.ctx(me), tm, buffers(n))
		})
	}
	return collectingOf(func(i int) int { return n + i })
}

// collectingOf is Collect in which member i has sizes(i) elements.
func collectingOf(sizes func(i int) int) act {
	return collectsBy(sizes, func(r *run, tm *coll.Team, me, room int) error {
		return coll.Collect[uint64](r.ctx(me), tm, buffers(sizes(me)), room)
	})
}

// collectsBy expects the contributors' parts one after the other, or, for FCollect, each at its
// own place.
func collectsBy(sizes func(i int) int, call func(r *run, tm *coll.Team, me, room int) error) act {
	return func(r *run, tm *coll.Team, me, k int) (err error) {
		room, equal := 0, true
		for i := range r.n {
			room += sizes(i)
			equal = equal && sizes(i) == sizes(0)
		}
		src, dst := r.prepare(me, k, sizes(me), room)
		err = call(r, tm, me, room)
		clear(src)
		if err != nil {
			return err
		}
		at := 0
		for _, i := range tm.Outcome().Contributors {
			if equal {
				at = i * sizes(i)
			}
			if err := expect(k, at, dst[at:at+sizes(i)], sumOf([]int{i}, k)); err != nil {
				return err
			}
			at += sizes(i)
		}
		for _, i := range tm.Outcome().Failed {
			if part := i * sizes(i); equal && dst[part] != 0 {
				return &wrongError{fmt.Sprintf("act %d: the part of member %d, which did not contribute, holds %#x", k, i, dst[part])}
			}
		}
		return nil
	}
}

// exchanging is Alltoall, or AlltoallS with a stride of 2 in the destination.
func exchanging(n, stride int) act {
	return func(r *run, tm *coll.Team, me, k int) (err error) {
		src, dst := r.prepare(me, k, n*r.n, n*r.n*stride)
		if stride == 1 {
			err = coll.Alltoall[uint64](r.ctx(me), tm, buffers(n))
		} else {
			err = coll.AlltoallS[uint64](r.ctx(me), tm, buffers(n), coll.Strides{Dst: stride, Src: 1})
		}
		clear(src)
		if err != nil {
			return err
		}
		for _, i := range tm.Outcome().Contributors {
			for j := range n {
				if got, want := dst[(i*n+j)*stride], gives(i, k, me*n+j); got != want {
					return &wrongError{fmt.Sprintf("act %d: element %d of member %d is %#x, want %#x", k, j, i, got, want)}
				}
			}
		}
		for _, i := range tm.Outcome().Failed {
			if got := dst[i*n*stride]; got != 0 {
				return &wrongError{fmt.Sprintf("act %d: the block of member %d, which did not contribute, holds %#x", k, i, got)}
			}
		}
		return nil
	}
}

func privateReduces(n, root int) act { return privateReducesBy(add64, n, root) }

func privateReducesBy(op coll.Op[uint64], n, root int) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		src, dst := make([]uint64, n), make([]uint64, n)
		for j := range src {
			src[j] = gives(me, k, j)
		}
		err := coll.ReducePrivate(r.ctx(me), tm, dst, src, op, root)
		if err == nil && (root < 0 || root == me) {
			err = expect(k, 0, dst, sumOf(tm.Outcome().Contributors, k))
		}
		return err
	}
}

func valueReduces(r *run, tm *coll.Team, me, k int) error {
	v := gives(me, k, 0)
	err := coll.ReduceValue(r.ctx(me), tm, &v, add64)
	if err == nil {
		err = expect(k, 0, []uint64{v}, sumOf(tm.Outcome().Contributors, k))
	}
	return err
}

// wide64 is a value that is larger than a slot.
type wide64 [1100]uint64

func wideReduces(r *run, tm *coll.Team, me, k int) error {
	v := new(wide64)
	for j := range v {
		v[j] = gives(me, k, j)
	}
	err := coll.ReduceValue(r.ctx(me), tm, v, func(acc, in []wide64) { add64(acc[0][:], in[0][:]) })
	if err == nil {
		err = expect(k, 0, v[:], sumOf(tm.Outcome().Contributors, k))
	}
	return err
}

func privateBroadcasts(n, root int) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		buf := make([]byte, n)
		for j := range buf {
			if buf[j] = 0xff; me == root {
				buf[j] = byte(k)
			}
		}
		err := coll.BroadcastPrivate(r.ctx(me), tm, buf, root)
		if err == nil && slices.ContainsFunc(buf, func(b byte) bool { return b != byte(k) }) {
			err = &wrongError{fmt.Sprintf("act %d: the private broadcast is %d ... %d, want %d", k, buf[0], buf[n-1], k)}
		}
		return err
	}
}

// sames is Same, or Gather, of words that differ only by act.
func sames(gather bool) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		w := coll.Words{uint64(k), 7}
		if gather {
			w[1] = uint64(me)
			all, err := tm.Gather(r.ctx(me), w)
			for i := range all {
				if err == nil && all[i] != (coll.Words{uint64(k), uint64(i)}) {
					err = &wrongError{fmt.Sprintf("act %d: words of member %d are %v", k, i, all[i])}
				}
			}
			return err
		}
		differs, a, b, err := tm.Same(r.ctx(me), w)
		if err == nil && differs >= 0 {
			err = &wrongError{fmt.Sprintf("act %d: Same returned that %v and %v differ", k, a, b)}
		}
		return err
	}
}

// anew replaces the member's side of the team by a new one, as a successor does.
func anew(r *run, tm *coll.Team, me, _ int) error {
	r.teams[me] = r.team(me, tm.ID(), tm.Tolerant())
	return nil
}

// loose marks an act that may return on some members and fail on others of a strict team.
func loose(a act) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		err := a(r, tm, me, k)
		if err != nil && !isWrong(err) {
			return fmt.Errorf("%w: %w", errLoose, err)
		}
		r.ended[me] = err == nil
		return err
	}
}

var errLoose = errors.New("a broadcast failed")

func isWrong(err error) bool {
	_, wrong := errors.AsType[*wrongError](err)
	return wrong
}

// outcome is the end of an act as text, which must be the same on all members.
func outcome(tm *coll.Team, err error) string {
	if _, dead := errors.AsType[*coll.DeadError](err); dead && tm.Tolerant() {
		return "dead"
	}
	if err != nil {
		return "failed"
	}
	o := tm.Outcome()
	return fmt.Sprint(o.Contributors, o.Failed)
}

// playing plays collectives on one team.
func playing(tolerant bool, list ...act) func(r *run) {
	return func(r *run) {
		notes := make([][]string, r.n)
		r.teams, r.ended = make([]*coll.Team, r.n), make([]bool, r.n)
		for me := range r.n {
			r.teams[me] = r.team(me, 0, tolerant)
		}
		r.body = func(me int) error {
			for k, a := range list {
				r.ended[me] = false
				err := a(r, r.teams[me], me, k)
				if err != nil && (isWrong(err) || !r.mayFail(r.teams[me], err)) {
					return fmt.Errorf("act %d: %w", k, err)
				}
				note := outcome(r.teams[me], err)
				if errors.Is(err, errLoose) && !tolerant {
					note = ""
				}
				if r.ended[me] && !tolerant {
					note = "ended"
				}
				notes[me] = append(notes[me], note)
				if note == "failed" || note == "" {
					if err := r.wantRefused(r.teams[me], me, k); err != nil {
						return err
					}
					if r.canceledAny() { // after a death, the mark of giving up has to be enough
						r.teams[me].Leave()
					}
					return nil
				}
			}
			return nil
		}
		r.check = func() error { return r.compareNotes(notes) }
	}
}

// wantRefused checks that a team on which an act has failed refuses the next one.
func (r *run) wantRefused(tm *coll.Team, me, k int) error {
	err := tm.Sync(r.ctx(me))
	if _, dead := errors.AsType[*coll.DeadError](err); !dead && !errors.Is(err, coll.ErrBroken) {
		return &wrongError{fmt.Sprintf("act %d failed, but Sync after it returned %v", k, err)}
	}
	return nil
}

// canceledAny reports whether any member's context has ended.
func (r *run) canceledAny() bool {
	return slices.ContainsFunc(r.members, func(m *member) bool { return m.canceled })
}

// mayFail reports whether an act may fail with this error.
func (r *run) mayFail(tm *coll.Team, err error) bool {
	_, dead := errors.AsType[*coll.DeadError](err)
	if r.canceledAny() {
		return dead || hasLeft(err) || errors.Is(err, context.Canceled) || errors.Is(err, coll.ErrBroken)
	}
	return dead && slices.ContainsFunc(r.members, func(m *member) bool { return m.killed })
}

// compareNotes finds acts that ended differently on different members.
func (r *run) compareNotes(notes [][]string) error {
	if r.canceledAny() {
		return nil // some members may succeed while others fail
	}
	for k := 0; ; k++ {
		first, any := "", false
		for i := range notes {
			switch {
			case k >= len(notes[i]):
			case !any || first == "":
				first, any = notes[i][k], true
			case notes[i][k] != first && notes[i][k] != "":
				return fmt.Errorf("act %d: %q on some members, %q on member %d", k, first, notes[i][k], i)
			}
		}
		if !any {
			return nil
		}
	}
}

func repeat(n int, list ...act) (all []act) {
	for range n {
		all = append(all, list...)
	}
	return all
}

const (
	cellOf = 100 / 8  // elements that fit into a cell
	wideOf = 400 / 8  // into a slot only, but not into two cells
	slotOf = 1000 / 8 // into a slot only
	bigOf  = 1040 / 8 // into no slot, if every PE has a processor
	fullOf = 8200 / 8 // into no slot
	partOf = 4104 / 8 // into no slot, and neither do two of them
)

var (
	one   = budget{switches: 1}
	two   = budget{switches: 2}
	three = budget{switches: 3}
	late  = budget{switches: 1, delays: 1}
	death = budget{switches: 1, deaths: 1}
	fatal = budget{deaths: 1}
	ends  = budget{switches: 1, cancels: 1}
	most  = budget{switches: 12, delays: 3}
	kills = budget{switches: 12, delays: 2, deaths: 1}
	kill2 = budget{switches: 12, delays: 2, deaths: 2}
	quits = budget{switches: 12, delays: 2, cancels: 1}
)

var dataScenarios = []scenario{
	{name: "sync2", n: 2, budgets: []budget{three, late}, play: playSync},
	{name: "sync3", n: 3, budgets: []budget{one, late}, draws: 8000, most: most, play: playSync},
	{name: "lines2", n: 2, budgets: []budget{two, late}, draws: 3000, most: most, play: playing(false, repeat(5, reducing(1))...)},
	{name: "lines3", n: 3, budgets: []budget{one}, draws: 8000, most: most, play: playing(false, repeat(4, reducing(3))...)},
	{name: "cells", n: 2, budgets: []budget{two}, draws: 3000, most: most, play: playing(false, repeat(2, reducing(cellOf), reducing(slotOf), reducing(1))...)},
	{name: "roots", n: 2, budgets: []budget{one}, draws: 3000, most: most, play: playing(false, repeat(70, broadcasting(cellOf, 0))...)},
	{name: "wide", n: 2, budgets: []budget{one}, play: playing(false, repeat(3, broadcasting(wideOf, 0))...)},
	{name: "wakes", n: 3, draws: 3000, most: most, play: playWakes},
	{name: "roots3", n: 3, draws: 8000, most: most, play: playing(false, broadcasting(1, 0), broadcasting(cellOf, 0), reducing(cellOf), broadcasting(slotOf, 0), broadcasting(1, 1), broadcasting(slotOf, 0), broadcasting(slotOf, 0))},
	{name: "anew", n: 2, budgets: []budget{two}, draws: 3000, most: most, play: playing(false, broadcasting(slotOf, 0), broadcasting(slotOf, 0), anew, broadcasting(slotOf, 0), anew, reducing(1), anew, broadcasting(cellOf, 0), reducing(2), anew, reducing(3))},
	{name: "large2", n: 2, budgets: []budget{two, late}, draws: 3000, most: most, play: playing(false, reducing(bigOf), broadcasting(bigOf, 1), scanning(bigOf, false), reducing(bigOf))},
	{name: "large3", n: 3, draws: 8000, most: most, play: playing(false, reducing(bigOf), broadcasting(bigOf, 1), collecting(bigOf, true), scanning(bigOf, true))},
	{name: "collects", n: 2, budgets: []budget{two}, draws: 3000, most: most, play: playing(false, collecting(2, false), collecting(bigOf, false), collecting(3, true), collecting(bigOf, true), collecting(4, false))},
	{name: "collectsLess", n: 2, budgets: []budget{one}, draws: 2000, most: most, play: playing(false, repeat(2, collectingOf(lessOf))...)},
	{name: "exchanges", n: 2, budgets: []budget{one}, draws: 3000, most: most, play: playing(false, exchanging(2, 1), exchanging(bigOf, 1), exchanging(2, 2), exchanging(bigOf, 2), exchanging(2, 1), exchanging(1, 1), exchanging(1, 1))},
	{name: "turns2", n: 2, busy: true, budgets: []budget{one}, draws: 3000, most: most, play: playing(false, exchanging(partOf, 1), collecting(fullOf, true), exchanging(2, 1), exchanging(partOf, 1), reducing(fullOf), exchanging(partOf, 1))},
	{name: "turnsLater", n: 2, busy: true, budgets: []budget{late}, play: playing(false, exchanging(partOf, 1), exchanging(partOf, 1))},
	{name: "turns3", n: 3, busy: true, draws: 8000, most: most, play: playing(false, exchanging(partOf, 1), collecting(fullOf, true), exchanging(partOf, 1))},
	{name: "turnsAmong", n: 3, busy: true, draws: 4000, most: kills, play: playing(false, exchanging(2, 1), exchanging(partOf, 1), reducing(1), collecting(2, true), exchanging(partOf, 1), reducing(cellOf))},
	{name: "mates2", n: 2, busy: true, on: []uint32{1, 1}, budgets: []budget{one}, draws: 2000, most: most, play: playing(false, repeat(3, exchanging(partOf, 1))...)},
	{name: "homes2", n: 2, busy: true, on: []uint32{1, 2}, budgets: []budget{one}, draws: 6000, most: most, play: playing(false, exchanging(partOf, 1), exchanging(partOf, 1), collecting(fullOf, true))},
	{name: "homes3", n: 3, busy: true, on: []uint32{1, 1, 2}, draws: 8000, most: most, play: playing(false, repeat(3, exchanging(partOf, 1))...)},
	{name: "homes3Each", n: 3, busy: true, on: []uint32{1, 2, 3}, draws: 8000, most: most, play: playing(false, repeat(3, exchanging(partOf, 1))...)},
	{name: "homes4", n: 4, busy: true, on: []uint32{1, 2, 1, 2}, draws: 8000, most: most, play: playing(false, repeat(3, exchanging(partOf, 1))...)},
	{name: "roaming3", n: 3, busy: true, roams: true, draws: 12000, most: most, play: playing(false, repeat(4, exchanging(partOf, 1))...)},
	{name: "scans", n: 3, budgets: []budget{one}, draws: 8000, most: most, play: playing(false, scanning(2, false), scanning(2, true), scanning(2, false), scanning(slotOf, true))},
	{name: "words", n: 2, budgets: []budget{two}, draws: 3000, most: most, play: playing(false, sames(false), sames(true), sames(false), sames(true))},
	{name: "private", n: 2, budgets: []budget{two}, draws: 3000, most: most, play: playing(false, privateReduces(1, -1), privateBroadcasts(9, 0), privateBroadcasts(9, 0), privateReduces(1, 0), privateReduces(1, -1), privateBroadcasts(9000, 1))},
	{name: "values", n: 2, budgets: []budget{one}, draws: 2000, most: most, play: playing(false, valueReduces, wideReduces, valueReduces, valueReduces, wideReduces)},
	{name: "areas", n: 2, budgets: []budget{one}, draws: 500, most: most, play: playing(false, privateReduces(1700, -1), privateReduces(1100, 0), privateReduces(1, -1))},
	{name: "areasOfTwo", n: 3, draws: 2000, most: most, focus: []string{".collectShares", ".foldShare"}, play: playAreas},
	{name: "areasDying", n: 4, dying: 1, draws: 4000, most: most, focus: []string{".collectShares"}, play: playAreasByTurns},
	{name: "areasCanceled", n: 4, draws: 4000, most: quits, play: playAreasByTurns},

	{name: "strict3", n: 3, draws: 8000, most: kill2, play: playing(false, repeat(2, syncs, reducing(1), reducing(cellOf))...)},
	{name: "strict2", n: 2, budgets: []budget{fatal}, draws: 5000, most: kills, play: playing(false, repeat(2, syncs, reducing(1), reducing(bigOf))...)},
	{name: "strictRoot", n: 3, draws: 8000, most: kill2, play: playing(false, loose(broadcasting(1, 0)), loose(broadcasting(bigOf, 1)), syncs)},
	{name: "tolerant3", n: 3, draws: 8000, most: kill2, play: playing(true, repeat(2, syncs, reducing(1), reducing(cellOf))...)},
	{name: "tolerant2", n: 2, budgets: []budget{fatal}, draws: 5000, most: kills, play: playing(true, repeat(2, syncs, reducing(1), reducing(slotOf))...)},
	{name: "rescue3", n: 3, draws: 8000, most: kill2, play: playing(true, reducing(bigOf), reducing(bigOf), reducing(1))},
	{name: "rescueSlots", n: 2, budgets: []budget{fatal}, draws: 5000, most: kills, play: playing(true, reducing(3100), syncs)},
	{name: "rescueScan", n: 3, draws: 8000, most: kill2, play: playing(true, scanning(bigOf, false), scanning(bigOf, true), reducing(1))},
	{name: "rescueScan2", n: 2, budgets: []budget{fatal}, draws: 5000, most: kills, play: playing(true, scanning(2200, false), scanning(bigOf, true))},
	{name: "rescueInPlace", n: 3, draws: 8000, most: kill2, play: playing(true, reductions(bigOf, true), reductions(bigOf, true), reducing(1))},
	{name: "rescueScanInPlace", n: 3, draws: 8000, most: kill2, play: playing(true, scansOf(bigOf, false, true), scansOf(bigOf, true, true))},
	{name: "outside", n: 3, draws: 20000, most: kill2, focus: []string{".deadShortOf"}, play: playOutside},
	{name: "tolerantRoot", n: 3, draws: 8000, most: kill2, play: playing(true, broadcasting(1, 0), broadcasting(bigOf, 1), reducing(1), broadcasting(bigOf, 0))},
	{name: "tolerantData", n: 3, draws: 8000, most: kill2, play: playing(true, exchanging(1, 1), collecting(2, false), collecting(bigOf, false), collecting(bigOf, true), exchanging(bigOf, 1), exchanging(bigOf, 2), exchanging(2, 2))},
	{name: "tolerantTurns", n: 3, busy: true, draws: 8000, most: kill2, play: playing(true, exchanging(partOf, 1), collecting(fullOf, true), exchanging(partOf, 1))},
	{name: "tolerantHomes", n: 3, busy: true, on: []uint32{1, 1, 2}, draws: 12000, most: kill2, play: playing(true, repeat(3, exchanging(partOf, 1))...)},
	{name: "tolerantHomes4", n: 4, busy: true, on: []uint32{1, 2, 1, 2}, draws: 8000, most: kills, play: playing(true, repeat(3, exchanging(partOf, 1))...)},
	{name: "tolerantRoaming", n: 3, busy: true, roams: true, draws: 8000, most: kill2, play: playing(true, repeat(3, exchanging(partOf, 1))...)},
	{name: "tolerantPrivate", n: 3, busy: true, draws: 8000, most: kill2, play: playing(true, privateReduces(1, -1), privateReduces(1100, -1), privateReduces(1, 0))},
	{name: "strictValues", n: 3, draws: 6000, most: kill2, play: playing(false, valueReduces, wideReduces, valueReduces)},
	{name: "tolerantValues", n: 3, draws: 6000, most: kill2, play: playing(true, valueReduces, wideReduces, valueReduces)},
	{name: "withdrawn2", n: 2, budgets: []budget{ends}, draws: 4000, most: quits, play: playing(false, withdrawing...)},
	{name: "withdrawn3", n: 3, draws: 12000, most: quits, play: playing(false, withdrawing...)},
	{name: "withdrawnTurns", n: 3, busy: true, draws: 8000, most: quits, play: playing(false, exchanging(partOf, 1), collecting(fullOf, true), exchanging(partOf, 1))},
	{name: "strictTurns", n: 3, busy: true, draws: 8000, most: kill2, play: playing(false, exchanging(partOf, 1), collecting(fullOf, true), exchanging(partOf, 1))},
	{name: "withdrawnHomes", n: 3, busy: true, on: []uint32{1, 1, 2}, draws: 8000, most: quits, play: playing(false, repeat(3, exchanging(partOf, 1))...)},
	{name: "strictHomes", n: 3, busy: true, on: []uint32{1, 1, 2}, draws: 8000, most: kill2, play: playing(false, repeat(3, exchanging(partOf, 1))...)},
	{name: "withdrawnHomesDying", n: 3, busy: true, roams: true, draws: 8000, most: budget{switches: 12, deaths: 1, cancels: 1, delays: 1}, play: playing(true, repeat(3, exchanging(partOf, 1))...)},
	{name: "withdrawnTurnsDying", n: 3, busy: true, draws: 8000, most: budget{switches: 12, deaths: 1, cancels: 1, delays: 1}, play: playing(true, exchanging(partOf, 1), collecting(fullOf, true), exchanging(partOf, 1))},
	{name: "withdrawnDying", n: 3, draws: 8000, most: budget{switches: 12, deaths: 1, cancels: 1, delays: 1}, play: playing(true, reducing(bigOf), scanning(bigOf, false), reductions(bigOf, true))},
	{name: "canceled", n: 2, budgets: []budget{ends}, draws: 3000, most: quits, play: playing(false, syncs, reducing(1), reducing(bigOf), syncs)},
	{name: "canceled3", n: 3, draws: 8000, most: quits, play: playing(false, syncs, reducing(1), broadcasting(bigOf, 0), syncs)},
}

// withdrawing lists collectives in which members read each other's sources.
var withdrawing = []act{reducing(bigOf), collecting(bigOf, true), exchanging(bigOf, 2), collecting(bigOf, false), scanning(bigOf, false), broadcasting(bigOf, 0)}

// lessOf makes only the first member's part large.
func lessOf(i int) int { return max(bigOf*(1-i), 2) }

// playSync: no member leaves a barrier before all have entered it.
func playSync(r *run) {
	at := make([]int, r.n)
	r.body = func(me int) error {
		tm := r.team(me, 0, false)
		for round := 1; round <= 3; round++ {
			at[me] = round
			if err := tm.Sync(r.ctx(me)); err != nil {
				return err
			}
			for i, x := range at {
				if x < round || x > round+1 {
					return fmt.Errorf("round %d: member %d is at %d after Sync", round, i, x)
				}
			}
		}
		return nil
	}
}
