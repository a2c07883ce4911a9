package interop_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/win"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// The litmus tests are for the sentences of docs/mpi.md, "Order of puts and messages": one test for each. Each of them fails on two nodes
// if what orders is left out, which -litmusweak does: the put is still on its way from agent to agent when the message is there. On one
// node a put is a store before the store that publishes the message, and x86 keeps their order: there the tests can only find a store that comes
// later than the call that makes it.
var (
	litmusTimes = flag.Int("litmus", 1, "make litmus tests so many `times` as long")
	litmusWeak  = flag.Bool("litmusweak", false, "leave out what orders in litmus tests, which must fail then on two nodes")
)

// litmusVar tells the PEs the flags.
const litmusVar = "GOSHMEM_TEST_LITMUS"

// litmusLengths are the elements of the blocks that rounds put in turn: one that a record carries, and one that takes many.
var litmusLengths = [...]int{1, 1 << 17}

// litmus is what the tests use.
type litmus struct {
	w    *shmem.World
	c    *mpi.Comm
	me   int
	weak bool
	x    shmem.Sym[uint64]
	flag shmem.Sym[uint64]
	win  *win.Win[uint64]
	src  []uint64 // on the heap: the agent reads it when it sends
	own  []uint64 // not on the heap: the call copies it
	n    int      // elements of this round
}

// runLitmus runs rounds, numbered from 1, on one node and on two.
func runLitmus(t *testing.T, pes int, round func(t *testing.T, l *litmus, r uint64)) {
	t.Helper()
	shmemtest.Run(t, pes, func(t *testing.T, w *shmem.World) {
		times, weak := 0, false
		if _, err := fmt.Sscan(os.Getenv(litmusVar), &times, &weak); err != nil {
			t.Fatal(err)
		}
		m := must(mpi.Init())(t)
		most := litmusLengths[len(litmusLengths)-1]
		l := &litmus{w: w, c: m.Comm(), me: w.MyPE(), weak: weak, own: make([]uint64, most)}
		l.src = must(shmem.Calloc[uint64](w, most))(t).Local()
		l.x, l.flag = must(shmem.Calloc[uint64](w, most))(t), must(shmem.Calloc[uint64](w, 1))(t)
		l.win = must(win.Create(l.c, l.x))(t)
		rounds := uint64(60 * times)
		if w.Shared().NPEs() == pes { // on one node
			rounds *= 10
		}
		for r := uint64(1); r <= rounds; r++ {
			l.n = litmusLengths[r/2%uint64(len(litmusLengths))]
			round(t, l, r)
		}
		ok(t, w.Ctx().Quiet()) // of weak tests
		ok(t, l.c.Barrier())
		ok(t, l.win.Free())
		ok(t, m.Finalize())
	}, shmemtest.Nodes(1, 2), shmemtest.Env(fmt.Sprintf("%s=%d %t", litmusVar, *litmusTimes, *litmusWeak)))
}

// put puts the number of a round to a PE, without waiting.
func (l *litmus) put(t *testing.T, r uint64, pe int) {
	t.Helper()
	for i := range l.src[:l.n] {
		l.src[i] = r
	}
	ok(t, shmem.PutNBI(l.w.Ctx(), l.x, l.src[:l.n], pe))
}

// check fails the test unless this PE has the number of a round.
func (l *litmus) check(t *testing.T, r uint64, how string) {
	t.Helper()
	checkRound(t, l.x.Local()[:l.n], r, how)
}

func checkRound(t *testing.T, got []uint64, r uint64, how string) {
	t.Helper()
	for i, v := range got {
		if v != r {
			t.Fatalf("%s, round %d: element %d of %d is %d, want the number of the round", how, r, i, len(got), v)
		}
	}
}

// unless does something that orders, but not in weak tests.
func (l *litmus) unless(do func() error) error {
	if l.weak {
		return nil
	}
	return do()
}

func (l *litmus) send(t *testing.T, to int) { t.Helper(); ok(t, mpi.Send(l.c, []byte{1}, to, 1)) }

func (l *litmus) recv(t *testing.T, from int) {
	t.Helper()
	must(mpi.Recv(l.c, make([]byte, 1), from, 1))(t)
}

// A message that is sent after Quiet, or after QuietPE, tells its receiver of the puts before.
func TestLitmusQuietThenSend(t *testing.T) {
	runLitmus(t, 2, func(t *testing.T, l *litmus, r uint64) {
		other := 1 - l.me
		if r%2 != uint64(l.me) {
			l.recv(t, other)
			l.check(t, r, "Recv after Quiet and Send")
			return
		}
		l.put(t, r, other)
		ok(t, l.unless(func() error {
			if r%4 < 2 {
				return l.w.Ctx().QuietPE(other)
			}
			return l.w.Ctx().Quiet()
		}))
		l.send(t, other)
	})
}

// Messages pass on what their sender knows: of a put to a third PE, by a message, and by a flag that it has waited for.
func TestLitmusChain(t *testing.T) {
	runLitmus(t, 4, func(t *testing.T, l *litmus, r uint64) { // on two nodes, PEs 0 and 1 are on the first one
		const from, last = 0, 3
		between, byFlag := 1+int(r%2), r%4 >= 2
		switch l.me {
		case from:
			l.put(t, r, last)
			ok(t, l.unless(l.w.Ctx().Quiet))
			if byFlag {
				ok(t, shmem.AtomicSet(l.w.Ctx(), l.flag, r, between))
			} else {
				l.send(t, between)
			}
			l.recv(t, last)
		case between:
			if byFlag {
				ok(t, shmem.WaitUntil(l.w.Ctx(), l.flag, shmem.EQ, r))
			} else {
				l.recv(t, from)
			}
			l.send(t, last)
		case last:
			l.recv(t, between)
			l.check(t, r, "Recv from one who knew")
			l.send(t, from)
		}
	})
}

// Quiet before a collective that all enter, BarrierAll and World.Barrier: after them, all see what all have put.
func TestLitmusBarriers(t *testing.T) {
	ways := []struct {
		name string
		meet func(l *litmus, dup *mpi.Comm) error
	}{
		{"Quiet and Barrier", func(l *litmus, _ *mpi.Comm) error { return errors.Join(l.w.Ctx().Quiet(), l.c.Barrier()) }},
		{"Quiet and Barrier of a communicator without a team", func(l *litmus, dup *mpi.Comm) error {
			return errors.Join(l.w.Ctx().Quiet(), dup.Barrier())
		}},
		{"Quiet and Allreduce", func(l *litmus, dup *mpi.Comm) error {
			x := []int{1}
			return errors.Join(l.w.Ctx().Quiet(), mpi.Allreduce(dup, x, x, mpi.Sum))
		}},
		{"BarrierAll", func(l *litmus, dup *mpi.Comm) error { return interop.BarrierAll(l.w, dup) }},
		{"World.Barrier", func(l *litmus, _ *mpi.Comm) error { return l.w.Barrier() }},
	}
	var dup *mpi.Comm
	runLitmus(t, 4, func(t *testing.T, l *litmus, r uint64) {
		if r == 1 {
			dup = must(l.c.CreateGroup(l.c.Group(), 1))(t)
		}
		way := ways[r/4%uint64(len(ways))]
		if l.put(t, r, (l.me+2)%4); l.weak {
			ok(t, dup.Barrier())
		} else {
			ok(t, way.meet(l, dup))
		}
		l.check(t, r, way.name)
		ok(t, dup.Barrier()) // before the next put
	})
}

// A get that is complete before a message is sent has read what was there before its receiver changes it.
func TestLitmusReadThenSend(t *testing.T) {
	got := make([]uint64, litmusLengths[1])
	runLitmus(t, 2, func(t *testing.T, l *litmus, r uint64) {
		l.n = litmusLengths[1]
		if l.me == 1 {
			l.recv(t, 0)
			for i := range l.x.Local() {
				l.x.Local()[i] = r
			}
			l.send(t, 0)
			return
		}
		p := must(shmem.GetNBI(l.w.Ctx(), got, l.x, 1))(t)
		ok(t, l.unless(l.w.Ctx().Quiet))
		l.send(t, 1)
		ok(t, l.w.Ctx().Quiet())
		must(p.Wait())(t)
		checkRound(t, got, r-1, "Get before Send")
		l.recv(t, 1)
	})
}

// The buffer of a message may be on the heap: it is sent with what others had put there, and what was received there, others get.
func TestLitmusHeapBuffers(t *testing.T) {
	got := make([]uint64, litmusLengths[1])
	runLitmus(t, 4, func(t *testing.T, l *litmus, r uint64) { // on two nodes, PEs 2 and 3 are on the second one
		const from, owner, last = 0, 2, 3
		switch l.me {
		case from:
			l.put(t, r, owner)
			ok(t, l.unless(l.w.Ctx().Quiet))
			l.send(t, owner)
			ok(t, shmem.WaitUntil(l.w.Ctx(), l.flag, shmem.EQ, r)) // last has received it
			ok(t, shmem.Get(l.w.Ctx(), got[:l.n], l.x, last))
			checkRound(t, got[:l.n], r, "Get of what was received")
		case owner:
			l.recv(t, from)
			ok(t, mpi.Send(l.c, l.x.Local()[:l.n], last, 2))
		case last:
			must(mpi.Recv(l.c, l.x.Local()[:l.n], owner, 2))(t)
			l.check(t, r, "Recv of what was put")
			ok(t, shmem.P(l.w.Ctx(), l.flag, r, from))
		}
		ok(t, l.c.Barrier())
	})
}

// A message that is sent after Flush, FlushAll, Unlock or Complete tells its receiver of the puts to a window before. Fence tells all ranks.
func TestLitmusWindows(t *testing.T) {
	names := []string{"Flush", "FlushAll", "Unlock", "Complete", "Fence"}
	runLitmus(t, 2, func(t *testing.T, l *litmus, r uint64) {
		other, way := 1-l.me, names[r/4%uint64(len(names))]
		writes := r%2 == uint64(l.me)
		l.n = min(l.n, 1<<15) // Put returns with all of it under way
		if l.weak {
			way = ""
		}
		switch {
		case way == "Unlock" && writes:
			must(l.win.Lock(other, true))(t)
		case way == "Complete" && writes:
			ok(t, l.win.Start(other))
		case way == "Complete":
			ok(t, l.win.Post(other))
		}
		if writes {
			for i := range l.own[:l.n] {
				l.own[i] = r
			}
			ok(t, l.win.Put(l.own[:l.n], other, 0))
		}
		switch {
		case way == "Fence":
			ok(t, l.win.Fence())
		case !writes:
			l.recv(t, other)
		default:
			ok(t, map[string]func() error{
				"": func() error { return nil }, "Flush": func() error { return l.win.Flush(other) }, "FlushAll": l.win.FlushAll,
				"Unlock": func() error { return l.win.Unlock(other) }, "Complete": l.win.Complete,
			}[way]())
			l.send(t, other)
		}
		if !writes {
			l.check(t, r, way)
			if way == "Complete" {
				ok(t, l.win.Wait())
			}
		}
		ok(t, l.c.Barrier())
	})
}
