package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// poller is a PE of testPoll, which looks at the next PE's element.
type poller struct {
	w    *shmem.World
	m    *mpi.World
	c    *shmem.Ctx
	x    shmem.Sym[int64]
	sig  shmem.Sym[uint64]
	next int
}

// polls are calls that a waiting PE may make in a loop without any other call.
var polls = []struct {
	name string
	call func(p *poller) error
}{
	{"G", func(p *poller) error { _, err := shmem.G(p.c, p.x, p.next); return err }},
	{"Get", func(p *poller) error { return shmem.Get(p.c, make([]int64, 1), p.x, p.next) }},
	{"GetNBI", func(p *poller) error { _, err := shmem.GetNBI(p.c, make([]int64, 1), p.x, p.next); return err }},
	{"IGet", func(p *poller) error {
		return shmem.IGet(p.c, make([]int64, 1), p.x, shmem.Stride{Dst: 1, Src: 1, N: 1}, p.next)
	}},
	{"P and Quiet", func(p *poller) error { return errors.Join(shmem.P(p.c, p.x, 1, p.next), p.c.Quiet()) }},
	{"AtomicFetch", func(p *poller) error { _, err := shmem.AtomicFetch(p.c, p.x, p.next); return err }},
	{"AtomicCompareSwap", func(p *poller) error { _, err := shmem.AtomicCompareSwap(p.c, p.x, 1, 2, p.next); return err }},
	{"AtomicFetchNBI", func(p *poller) error { _, err := shmem.AtomicFetchNBI(p.c, p.x, p.next); return err }},
	{"AtomicAdd", func(p *poller) error { return shmem.AtomicAdd(p.c, p.x, 1, p.next) }},
	{"SignalAdd", func(p *poller) error { return p.c.SignalAdd(p.sig, 1, p.next) }},
	{"PutSignal", func(p *poller) error {
		return shmem.PutSignal(p.c, p.x, []int64{1}, p.sig, 1, shmem.SignalAdd, p.next)
	}},
	{"SignalFetch", func(p *poller) error { _, err := p.c.SignalFetch(p.sig); return err }},
	{"Quiet", func(p *poller) error { return p.c.Quiet() }},
	{"QuietPE", func(p *poller) error { return p.c.QuietPE(p.next) }},
	{"Fence", func(p *poller) error { return p.c.Fence() }},
	{"Failed", func(p *poller) error { return found(p.w.Failed()) }},
	{"PEAccessible", func(p *poller) error { p.w.PEAccessible(p.next); return nil }},
	{"Peer", func(p *poller) error { p.x.Peer(p.next); return nil }},
	{"Comm.Failed", func(p *poller) error { return found(p.m.Comm().Failed()) }},
	{"Test", func(p *poller) error { _, err := shmem.Test(p.c, p.x, shmem.EQ, -1); return err }},
}

// found returns an error if PEs are reported dead.
func found(pes []int) error {
	if len(pes) > 0 {
		return fmt.Errorf("PEs %v are dead", pes)
	}
	return nil
}

// testPoll is a PE that polls with one call, until it has used enough processor time.
func testPoll(args []string, _, stderr io.Writer) int {
	d, err := time.ParseDuration(args[0])
	w, err2 := shmem.Init()
	m, err3 := mpi.Init()
	if err = errors.Join(err, err2, err3); err == nil {
		p := &poller{w: w, m: m, c: w.Ctx(), next: (w.MyPE() + 1) % w.NPEs()}
		p.x, err = shmem.Calloc[int64](w, 1)
		p.sig, err2 = shmem.Calloc[uint64](w, 1)
		poll := polls[w.MyPE()].call
		for err = errors.Join(err, err2); err == nil && processorTime() < d; {
			for range 1000 {
				err = errors.Join(err, poll(p))
			}
		}
	}
	if err = errors.Join(err, m.Finalize(), w.Finalize()); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PEs that poll with one call of the library are not reported as hung.
func TestPollersDoNotHang(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	j := start(t, "-n", fmt.Sprint(len(polls)), "--hang-timeout", "0.1", "t-poll", "400ms")
	status, said := j.ended(testPatience)
	if status != 0 || strings.Contains(said, "hangs") {
		t.Errorf("status %d, want 0 and no PE reported as hung:\n%s", status, said)
	}
}
