package interop_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// polling is what a program polls until PE 1 puts v into the elements of flag on PE 0. Before, PE
// 0 puts v into begun on PE 1, which says that all its messages are in progress.
type polling struct {
	c           *shmem.Ctx
	flag, begun shmem.Sym[int64]
	sig         shmem.Sym[uint64]
	v           int64
}

func newPolling(t *testing.T, w *shmem.World) *polling {
	t.Helper()
	return &polling{c: w.Ctx(), flag: must(shmem.Calloc[int64](w, 2))(t), begun: must(shmem.Calloc[int64](w, 1))(t), sig: must(shmem.Calloc[uint64](w, 1))(t)}
}

// newRound begins another round on both PEs.
func (p *polling) newRound(t *testing.T, w *shmem.World) {
	t.Helper()
	p.v++
	ok(t, w.Barrier())
}

// waitUntilBegun returns when PE 0's messages are in progress. Unlike a wait of the library, it
// reads no lane.
func (p *polling) waitUntilBegun(t *testing.T) {
	t.Helper()
	pollUntil(t, "AtomicFetch", func() (bool, error) {
		v, err := shmem.AtomicFetch(p.c, p.begun, 1)
		return v == p.v, err
	})
}

// polls lists the routines that test once and report whether all elements are set.
var polls = []struct {
	name string
	look func(p *polling) (bool, error)
}{
	{"Test", func(p *polling) (bool, error) { return shmem.Test(p.c, p.flag, shmem.EQ, p.v) }},
	{"TestAll", func(p *polling) (bool, error) { return shmem.TestAll(p.c, p.flag, nil, shmem.EQ, p.v) }},
	{"TestAllVector", func(p *polling) (bool, error) {
		return shmem.TestAllVector(p.c, p.flag, nil, shmem.EQ, []int64{p.v, p.v})
	}},
	{"TestAny", func(p *polling) (bool, error) {
		i, err := shmem.TestAny(p.c, p.flag, nil, shmem.EQ, p.v)
		return i >= 0, err
	}},
	{"TestAnyVector", func(p *polling) (bool, error) {
		i, err := shmem.TestAnyVector(p.c, p.flag, nil, shmem.EQ, []int64{p.v, p.v})
		return i >= 0, err
	}},
	{"TestSome", func(p *polling) (bool, error) {
		n, err := shmem.TestSome(p.c, p.flag, make([]int, 2), nil, shmem.EQ, p.v)
		return n > 0, err
	}},
	{"TestSomeVector", func(p *polling) (bool, error) {
		n, err := shmem.TestSomeVector(p.c, p.flag, make([]int, 2), nil, shmem.EQ, []int64{p.v, p.v})
		return n > 0, err
	}},
	{"SignalFetch", func(p *polling) (bool, error) {
		v, err := p.c.SignalFetch(p.sig)
		return v == uint64(p.v), err
	}},
}

// pollUntil polls until look returns true, or fails the test.
func pollUntil(t *testing.T, name string, look func() (bool, error)) {
	t.Helper()
	for begun := time.Now(); !must(look())(t); runtime.Gosched() {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%s never returned true: messages make no progress", name)
		}
	}
}

const (
	manyMessages = 2000   // more than fit into a lane: the sender has to keep sending
	longMessage  = 40_000 // elements: the receiver has to answer before they can be sent
)

// messages start messages from PE 0, which goes on with something else, to PE 1, or in the other
// direction. On PE 0 they return the requests to wait for at the end.
var messages = map[string]func(t *testing.T, c *mpi.Comm, p *polling) []mpi.Request{
	"many from": func(t *testing.T, c *mpi.Comm, p *polling) (under []mpi.Request) {
		if c.Rank() == 0 {
			for i := range int64(manyMessages) {
				under = append(under, must(mpi.Isend(c, []int64{i}, 1, 0))(t))
			}
			ok(t, shmem.AtomicSet(p.c, p.begun, p.v, 1))
			return under
		}
		p.waitUntilBegun(t)
		in := make([]int64, 1)
		for i := range int64(manyMessages) {
			if must(mpi.Recv(c, in, 0, 0))(t); in[0] != i {
				t.Fatalf("message %d is %d, want its number", i, in[0])
			}
		}
		return nil
	},
	"long to": func(t *testing.T, c *mpi.Comm, p *polling) []mpi.Request {
		if c.Rank() == 0 {
			r := must(mpi.Irecv(c, make([]int64, longMessage), 1, 0))(t)
			ok(t, shmem.AtomicSet(p.c, p.begun, p.v, 1))
			return []mpi.Request{r}
		}
		p.waitUntilBegun(t)
		ok(t, mpi.Send(c, make([]int64, longMessage), 0, 0))
		return nil
	},
}

// A program that polls with tests of shmem instead of waiting makes progress for its messages.
func TestPollsMakeProgress(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		p := newPolling(t, w)
		for _, direction := range []string{"many from", "long to"} {
			for _, x := range polls {
				p.newRound(t, w)
				under := messages[direction](t, m.Comm(), p)
				if w.MyPE() == 0 {
					pollUntil(t, fmt.Sprintf("%s with %s PE 0", x.name, direction), func() (bool, error) { return x.look(p) })
					ok(t, mpi.WaitAll(under, nil))
				} else {
					ok(t, shmem.PutSignal(p.c, p.flag, []int64{p.v, p.v}, p.sig, uint64(p.v), shmem.SignalSet, 0))
				}
			}
		}
		ok(t, m.Finalize())
	})
}

// A program that polls for a lock makes progress as well. Here PE 1, the other side of its
// messages, holds the lock.
func TestLockPollsMakeProgress(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		c, lock, p := w.Ctx(), must(shmem.NewLock(w))(t), newPolling(t, w)
		for _, direction := range []string{"many from", "long to"} {
			if w.MyPE() == 1 {
				must(lock.Acquire(c))(t)
			}
			p.newRound(t, w)
			under := messages[direction](t, m.Comm(), p)
			if w.MyPE() == 0 {
				pollUntil(t, "Lock.Try with "+direction+" PE 0", func() (bool, error) {
					_, got, err := lock.Try(c)
					return got, err
				})
				ok(t, mpi.WaitAll(under, nil))
			}
			ok(t, lock.Release(c))
			ok(t, w.Barrier()) // before PE 1 acquires it again
		}
		ok(t, m.Finalize())
	})
}
