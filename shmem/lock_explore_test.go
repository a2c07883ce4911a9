package shmem

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The queue of a lock is explored: a few PEs acquire the lock, give up waiting and release it.
// They may die anywhere, and their deaths are published at any later time. In every order of their
// accesses to memory, no two PEs hold the lock, no PE waits forever, and a PE that takes over from
// a dead holder is told.
//
// The explored code is the library's own. The next access of a call depends only on the results of
// its accesses so far. So the state of a PE is the list of these results, and the next access is
// found by running the call again on that list. The accesses are executed, too: each word is first
// set to the value that the call has to find.

// The kinds of accesses.
const (
	doLoad = iota
	doMove
	doStore
	doDead
	doEpoch
	doWait
	doRing
	doReturn // of the call
)

// lockPlace is a word of a lock, on a PE or, -1, on the home PE.
type lockPlace struct{ pe, word int }

// access is what a call does next.
type access struct {
	kind     int
	p        lockPlace
	from, to uint64
	died     int // of doReturn
	ok       bool
	failed   bool
}

// result is what an access returned.
type result struct {
	v   uint64
	err error
}

// replay is a model that feeds a call with a list of results and stops it after the last one. The
// call accesses the words in this struct, which are set to the expected value just before.
type replay struct {
	me, at  int
	results []result
	next    access

	home, own [64]uint64
	grants    [maxModelPEs]uint64
}

type stopped struct{}

func (r *replay) do(a access) result {
	if r.at == len(r.results) {
		r.next = a
		panic(stopped{})
	}
	r.at++
	return r.results[r.at-1]
}

// place returns the place of a word of the lock.
func (r *replay) place(p *uint64) lockPlace {
	for _, x := range []struct {
		words []uint64
		first lockPlace
	}{{r.home[:], lockPlace{pe: -1}}, {r.own[:], lockPlace{pe: r.me}}} {
		if i := (uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(&x.words[0]))) / 8; i < uintptr(len(x.words)) {
			return lockPlace{x.first.pe, int(i)}
		}
	}
	for pe := range r.grants {
		if p == &r.grants[pe] {
			return lockPlace{pe, lockGrant}
		}
	}
	panic("access to a word that is not part of the lock")
}

func (r *replay) load(p *uint64) { *p = r.do(access{kind: doLoad, p: r.place(p)}).v }

func (r *replay) cas(p *uint64, from, to uint64) {
	if *p = from; r.do(access{kind: doMove, p: r.place(p), from: from, to: to}).v == 0 {
		*p = ^from
	}
}

func (r *replay) store(p *uint64, v uint64) { r.do(access{kind: doStore, p: r.place(p), to: v}) }

func (r *replay) grantOf(pe layout.PE) *uint64 { return &r.grants[pe] }
func (r *replay) isDead(pe layout.PE) bool {
	return r.do(access{kind: doDead, p: lockPlace{pe: int(pe)}}).v != 0
}
func (r *replay) epoch() uint64         { return r.do(access{kind: doEpoch}).v }
func (r *replay) ringBell(pe layout.PE) { r.do(access{kind: doRing, p: lockPlace{pe: int(pe)}}) }

func (r *replay) awaitGrant(g, seen uint64) (uint64, error) {
	x := r.do(access{kind: doWait, from: g, to: seen})
	return x.v, x.err
}

// The calls.
const (
	callTake = iota
	callTry
	callRelease
)

// node is the state of a call: the list of results that led to it, kept as a tree.
type node struct {
	next     access
	children map[result]*node
	call, me int
	results  []result
}

func newNode(ring, call, me int, results []result) *node {
	n := &node{call: call, me: me, results: results, children: map[result]*node{}}
	r := &replay{me: me, results: results}
	func() {
		defer func() {
			if e := recover(); e != nil && e != (stopped{}) {
				panic(e)
			}
		}()
		q := lockQueue{mem: lockMemory{model: r, home: unsafe.Pointer(&r.home), own: unsafe.Pointer(&r.own)}, me: layout.PE(me), slotCount: ring}
		done := access{kind: doReturn, died: -1}
		switch call {
		case callTake:
			died, ok, err := q.acquire()
			done.died, done.ok, done.failed = int(died), ok, err != nil
		case callTry:
			died, ok := q.try()
			done.died, done.ok = int(died), ok
		default:
			done.ok = q.release()
		}
		r.next = done
	}()
	n.next = r.next
	return n
}

// The phases of a PE.
const (
	peIdle = iota
	peCalls
	peHolds
	peCrashed // dead, but not published yet
	peDead
)

const maxModelPEs, maxModelRing = 3, 4

// modelState is the state of the whole system.
type modelState struct {
	tail, head uint64
	slots      [maxModelRing]uint64
	own        [maxModelPEs][3]uint64 // grant, state, ticket
	phase      [maxModelPEs]int
	node       [maxModelPEs]*node
	left       [maxModelPEs]int // calls of Acquire that are still to come
	epoch      uint64
	crashes    int  // crashes that are still to come
	cancels    int  // cancellations that are still to come
	untold     bool // a holder has died, and no PE was told yet
}

func (s *modelState) word(p lockPlace) *uint64 {
	switch {
	case p.pe >= 0:
		return &s.own[p.pe][p.word-lockGrant]
	case p.word == lockTail:
		return &s.tail
	case p.word == lockHead:
		return &s.head
	default:
		return &s.slots[p.word-lockSlots]
	}
}

// explorer visits all reachable states.
type explorer struct {
	t      *testing.T
	npes   int
	try    bool // PE 0 calls Try
	ring   int
	roots  map[[2]int]*node
	seen   map[[2]uint64]struct{} // hashes of 128 bits
	seeds  [2]maphash.Seed
	todo   []modelState
	failed bool
}

func (x *explorer) fail(s *modelState, format string, args ...any) {
	if !x.failed {
		x.t.Errorf("%s, in state %+v", fmt.Sprintf(format, args...), *s)
	}
	x.failed = true
}

func (x *explorer) add(s modelState) {
	key := [2]uint64{maphash.Comparable(x.seeds[0], s), maphash.Comparable(x.seeds[1], s)}
	if _, known := x.seen[key]; !known {
		x.seen[key] = struct{}{}
		x.todo = append(x.todo, s)
	}
}

// beginCall starts a call on PE pe.
func (x *explorer) beginCall(s modelState, pe, call int) {
	key := [2]int{call, pe}
	if x.roots[key] == nil {
		x.roots[key] = newNode(x.ring, call, pe, nil)
	}
	s.phase[pe], s.node[pe] = peCalls, x.roots[key]
	x.proceed(s, pe)
}

// resume gives the call of a PE the result of its access.
func (x *explorer) resume(s modelState, pe int, r result) {
	n := s.node[pe]
	if n.children[r] == nil {
		n.children[r] = newNode(x.ring, n.call, n.me, append(slices.Clip(n.results), r))
	}
	s.node[pe] = n.children[r]
	x.proceed(s, pe)
}

// proceed adds the state after the PE has taken all steps that concern no other PE.
func (x *explorer) proceed(s modelState, pe int) {
	if n := s.node[pe]; n.next.kind == doEpoch {
		s.node[pe] = x.dropHistory(&s, pe)
	}
	switch a := s.node[pe].next; {
	case a.kind == doReturn:
		x.endCall(s, pe, a)
	case a.kind == doRing:
		x.resume(s, pe, result{})
	case (a.kind == doDead || a.kind == doEpoch) && s.crashes == 0 && !slices.Contains(s.phase[:], peCrashed):
		x.perform(s, pe) // the result cannot change any more
	case a.kind != doWait && a.kind != doDead && a.kind != doEpoch && a.p.pe == pe && a.p.word != lockGrant:
		x.perform(s, pe)
	default:
		x.add(s)
	}
}

// dropHistory returns the node of a PE that is about to wait, without its history: how it came to
// its ticket no longer matters, so it may as well have drawn the ticket at once.
func (x *explorer) dropHistory(s *modelState, pe int) *node {
	t := uint64(0)
	for _, w := range s.slots[:x.ring] {
		if w != 0 && peOf(w) == layout.PE(pe) {
			t = max(t, ticketOf(w)-1)
		}
	}
	key := [2]int{-1 - int(t), pe}
	if x.roots[key] == nil {
		yes, tail := result{v: 1}, result{v: t}
		x.roots[key] = newNode(x.ring, callTake, pe, []result{yes, tail, {}, tail, yes, yes})
		if x.roots[key].next.kind != doEpoch {
			x.fail(s, "PE %d has ticket %d and does not wait for it", pe, t)
		}
	}
	return x.roots[key]
}

// endCall handles the return of a call.
func (x *explorer) endCall(s modelState, pe int, a access) {
	call := s.node[pe].call
	s.node[pe], s.phase[pe] = nil, peIdle
	switch {
	case call == callRelease && !a.ok:
		x.fail(&s, "PE %d could not release the lock that it held", pe)
	case call == callRelease:
		s.left[pe]--
	case call == callTake && !a.ok:
		x.fail(&s, "PE %d could not enter the queue", pe)
	case call == callTry && !a.ok:
		s.left[pe]--
	case a.failed: // it gave up waiting
		s.left[pe]--
	default:
		for other := range x.npes {
			if p := s.phase[other]; p == peHolds {
				x.fail(&s, "PEs %d and %d hold the lock at the same time", pe, other)
			}
		}
		if s.untold && a.died < 0 {
			x.fail(&s, "PE %d was not told of the holder's death", pe)
		}
		if a.died >= 0 && s.phase[a.died] != peDead {
			x.fail(&s, "PE %d was told that PE %d died, but it lives", pe, a.died)
		}
		s.untold = false
		s.phase[pe] = peHolds
	}
	x.add(s)
}

// perform makes the next access of a PE. It returns false if the PE has to wait.
func (x *explorer) perform(s modelState, pe int) bool {
	a := s.node[pe].next
	switch a.kind {
	case doLoad:
		x.resume(s, pe, result{v: *s.word(a.p)})
	case doStore:
		*s.word(a.p) = a.to
		x.resume(s, pe, result{})
	case doMove:
		w, done := s.word(a.p), uint64(0)
		if *w == a.from {
			*w, done = a.to, 1
		}
		x.resume(s, pe, result{v: done})
	case doDead:
		x.resume(s, pe, result{v: map[bool]uint64{true: 1}[s.phase[a.p.pe] == peDead]})
	case doEpoch:
		x.resume(s, pe, result{v: s.epoch})
	case doWait:
		g := *s.word(lockPlace{pe: pe, word: lockGrant})
		switch {
		case g != a.from:
			x.resume(s, pe, result{v: g})
		case s.epoch > a.to:
			x.resume(s, pe, result{v: g, err: wait.ErrFailure})
		default:
			return false
		}
	}
	return true
}

// addSuccessors adds all states that may follow a state.
func (x *explorer) addSuccessors(s modelState) {
	goes := false
	alive := false
	for pe := range x.npes {
		switch s.phase[pe] {
		case peIdle:
			if s.left[pe] == 0 {
				continue
			}
			goes = true
			call := callTake
			if x.try && pe == 0 {
				call = callTry
			}
			x.beginCall(s, pe, call)
		case peHolds:
			goes = true
			x.beginCall(s, pe, callRelease)
		case peCalls:
			alive = true
			goes = x.perform(s, pe) || goes
			if a := s.node[pe].next; a.kind == doWait && s.cancels > 0 {
				c := s
				c.cancels--
				x.resume(c, pe, result{v: a.from, err: context.Canceled})
			}
		case peCrashed:
			goes = true
			p := s
			p.phase[pe] = peDead
			p.epoch++
			x.add(p)
			continue
		default:
			continue
		}
		if s.crashes > 0 {
			c := s
			c.crashes--
			c.untold = c.untold || c.phase[pe] == peHolds
			c.phase[pe], c.node[pe], c.left[pe] = peCrashed, nil, 0
			x.add(c)
		}
	}
	if alive && !goes {
		x.fail(&s, "a PE waits forever")
	}
}

func TestExploreLock(t *testing.T) {
	for _, e := range []struct {
		npes, calls, crashes, cancels int
		try                           bool
	}{
		{npes: 2, calls: 1, crashes: 1, cancels: 1},
		{npes: 2, calls: 1, cancels: 1},
		{npes: 2, calls: 2},
		{npes: 2, calls: 2, crashes: 1},
		{npes: 2, calls: 2, cancels: 1},
		{npes: 2, calls: 2, cancels: 1, try: true},
		{npes: 2, calls: 1, crashes: 1, cancels: 1, try: true},
		{npes: 3, calls: 1},
		{npes: 3, calls: 1, crashes: 1},
	} {
		if testing.Short() && (e.npes > 2 || e.calls > 1) {
			continue
		}
		t.Run(fmt.Sprintf("%+v", e), func(t *testing.T) {
			t.Parallel()
			x := &explorer{
				t: t, npes: e.npes, try: e.try, ring: lockSlotCount(e.npes), roots: map[[2]int]*node{}, seen: map[[2]uint64]struct{}{},
				seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
			}
			s := modelState{crashes: e.crashes, cancels: e.cancels}
			for pe := range e.npes {
				s.left[pe] = e.calls
			}
			x.add(s)
			for len(x.todo) > 0 && !x.failed {
				s := x.todo[len(x.todo)-1]
				x.todo = x.todo[:len(x.todo)-1]
				x.addSuccessors(s)
			}
			t.Logf("%d states", len(x.seen))
		})
	}
}
