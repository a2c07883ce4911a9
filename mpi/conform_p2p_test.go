package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// Tests that check what programs of MPICH's test suite check: docs/mpich-tests.md says which program each one is for.

// conformSizes are lengths of messages on both sides of each limit: of a cell, of the short messages and of the parts of long ones.
var conformSizes = []int{0, 1, 40, 41, 600, 16 << 10, 16<<10 + 1, 70_000, 300_000}

// Each rank has many requests with each rank, itself included: of all lengths, posted and waited for in different orders.
func TestManyMixedRequests(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		rnd := rand.New(rand.NewPCG(uint64(me), 7))
		for _, late := range []bool{false, true} { // whether receives come after the messages
			var all []mpi.Request
			which := func(from, to, tag int) int { return from*100 + to*10 + tag }
			bufs := make([][]byte, n*len(conformSizes))
			receive := func() {
				order := rnd.Perm(len(bufs))
				for _, i := range order {
					src, tag := i/len(conformSizes), i%len(conformSizes)
					bufs[i] = make([]byte, conformSizes[tag])
					all = append(all, must(mpi.Irecv(c, bufs[i], src, tag))(t))
				}
			}
			if !late {
				receive()
			}
			for _, i := range rnd.Perm(len(bufs)) {
				dst, tag := i/len(conformSizes), i%len(conformSizes)
				all = append(all, must(mpi.Isend(c, message(conformSizes[tag], which(me, dst, tag)), dst, tag))(t))
			}
			if late {
				ok(t, c.Barrier())
				receive()
			}
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for range all {
				i, _, err := mpi.WaitAny(all)
				ok(t, err)
				if all[i] = (mpi.Request{}); i < 0 {
					t.Fatal("WaitAny has found no request before all have ended")
				}
			}
			for i, buf := range bufs {
				checkMessage(t, buf, which(i/len(conformSizes), me, i%len(conformSizes)))
			}
		}
	})
}

// Receives from anyone with any tag get the messages of one sender in the order in which they were posted.
func TestAnythingInOrder(t *testing.T) {
	const many = 30
	for _, unit := range []int{1, 700, 5000} { // bytes: the messages fit cells, are short, and some are long
		t.Run(fmt.Sprint(unit), func(t *testing.T) {
			run(t, 2, func(t *testing.T, c *mpi.Comm) {
				if c.Rank() == 0 {
					ok(t, c.Barrier())
					for i := range many {
						ok(t, mpi.Send(c, message((many-i)*unit, i), 1, 3))
					}
					return
				}
				bufs, all := make([][]byte, many), make([]mpi.Request, many)
				for i := range all {
					bufs[i] = make([]byte, (many-i)*unit)
					all[i] = must(mpi.Irecv(c, bufs[i], mpi.AnySource, mpi.AnyTag))(t)
				}
				ok(t, c.Barrier())
				for range all {
					i, s, err := mpi.WaitAny(all)
					if ok(t, err); s.Bytes != len(bufs[i]) || s.Source != 0 || s.Tag != 3 {
						t.Fatalf("receive %d of %d bytes has %+v", i, len(bufs[i]), s)
					}
					checkMessage(t, bufs[i], i)
				}
			})
		})
	}
}

// A rank sends to itself in all modes, before and after the receive is posted.
func TestSelfInAllModes(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		me := c.Rank()
		done := func(err error) (mpi.Request, error) { return mpi.Request{}, err }
		started := func(p mpi.Persistent, err error) (mpi.Request, error) {
			if err == nil {
				err = mpi.Start(p)
			}
			return p.Request(), err
		}
		modes := []struct {
			name string
			send func(buf []byte) (mpi.Request, error)
			late bool // it needs no receive to begin
		}{
			{"Send", func(buf []byte) (mpi.Request, error) { return done(mpi.Send(c, buf, me, 1)) }, true},
			{"Bsend", func(buf []byte) (mpi.Request, error) { return done(mpi.Bsend(c, buf, me, 1)) }, true},
			{"Rsend", func(buf []byte) (mpi.Request, error) { return done(mpi.Rsend(c, buf, me, 1)) }, false},
			{"Ssend", func(buf []byte) (mpi.Request, error) { return done(mpi.Ssend(c, buf, me, 1)) }, false},
			{"Isend", func(buf []byte) (mpi.Request, error) { return mpi.Isend(c, buf, me, 1) }, true},
			{"Issend", func(buf []byte) (mpi.Request, error) { return mpi.Issend(c, buf, me, 1) }, true},
			{"SendInit", func(buf []byte) (mpi.Request, error) { return started(mpi.SendInit(c, buf, me, 1)) }, true},
			{"SsendInit", func(buf []byte) (mpi.Request, error) { return started(mpi.SsendInit(c, buf, me, 1)) }, true},
		}
		for k, x := range modes {
			for _, n := range conformSizes {
				in := make([]byte, n)
				posted := must(mpi.Irecv(c, in, me, 1))(t)
				r := must(x.send(message(n, k)))(t)
				ok(t, mpi.WaitAll([]mpi.Request{r, posted}, nil))
				checkMessage(t, in, k)
				if !x.late {
					continue
				}
				r = must(x.send(message(n, k+50)))(t)
				if s := must(c.Probe(mpi.AnySource, mpi.AnyTag))(t); s.Bytes != n || s.Source != me || s.Tag != 1 {
					t.Fatalf("%s of %d bytes: Probe found %+v", x.name, n, s)
				}
				m, _, err := c.Mprobe(me, 1)
				ok(t, err)
				must(mpi.Mrecv(m, in))(t)
				must(r.Wait())(t)
				checkMessage(t, in, k+50)
			}
		}
		buf, in := message(5000, 1), make([]byte, 5000)
		must(mpi.Sendrecv(c, buf, me, 1, in, me, 1))(t)
		checkMessage(t, in, 1)
		must(mpi.SendrecvReplace(c, buf, me, 1, mpi.AnySource, 1))(t)
		checkMessage(t, buf, 1)
	}, hangTimeout)
}

// A send whose handle the program drops is received all the same.
func TestDroppedHandles(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		for dst := range n { // itself as well
			for tag, size := range conformSizes {
				must(mpi.Isend(c, message(size, me*20+tag), dst, tag))(t)
				must(mpi.Issend(c, message(size, me*20+tag), dst, 100+tag))(t)
			}
		}
		for tag, size := range conformSizes {
			for src := range n {
				for _, base := range []int{100, 0} {
					m, s, err := c.Mprobe(src, base+tag)
					ok(t, err)
					in := make([]byte, s.Bytes)
					must(mpi.Mrecv(m, in))(t)
					if checkMessage(t, in, src*20+tag); s.Bytes != size {
						t.Errorf("message of %d bytes, want %d", s.Bytes, size)
					}
				}
			}
		}
		ok(t, c.Barrier())
	}, hangTimeout)
}

// Receives are canceled in any order, of a queue in which others stay, from one rank or from any.
func TestCancelSome(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const many = 7
		for round, order := range [][]int{{0, 1, 2}, {2, 0, 5}, {6, 5, 0, 1}, {1, 3, 2, 4, 0, 6, 5}, {3}} {
			if c.Rank() == 0 {
				must(mpi.Recv(c, make([]byte, 1), 1, 1))(t)
				for range many - len(order) {
					ok(t, mpi.Send(c, []int{round}, 1, 2))
				}
				continue
			}
			in, all := make([]int, many), make([]mpi.Request, many)
			for i := range all {
				src := 0
				if i%2 == 1 {
					src, in[i] = mpi.AnySource, -1
				}
				all[i] = must(mpi.Irecv(c, in[i:i+1], src, 2))(t)
			}
			for _, i := range order {
				ok(t, all[i].Cancel())
				if err := errOf(all[i].Wait()); !errors.Is(err, mpi.ErrRequestCanceled) {
					t.Errorf("round %d: receive %d: %v, want %v", round, i, err, mpi.ErrRequestCanceled)
				}
			}
			ok(t, mpi.Send(c, []byte{1}, 0, 1))
			for i, r := range all {
				if !slices.Contains(order, i) {
					if s := must(r.Wait())(t); s.Source != 0 || in[i] != round {
						t.Errorf("round %d: receive %d got %d with %+v", round, i, in[i], s)
					}
				}
			}
		}
		// A persistent receive is canceled, and started again. A send cannot be canceled, and goes on.
		in := []int{0}
		p := must(mpi.RecvInit(c, in, c.Rank(), 5))(t)
		for range 3 {
			ok(t, mpi.Start(p))
			ok(t, p.Request().Cancel())
			if err := errOf(p.Wait()); !errors.Is(err, mpi.ErrRequestCanceled) {
				t.Errorf("a persistent receive: %v, want %v", err, mpi.ErrRequestCanceled)
			}
		}
		r := must(mpi.Issend(c, []int{7}, c.Rank(), 5))(t)
		if err := r.Cancel(); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Cancel of a send: %v, want %v", err, mpi.ErrArgument)
		}
		ok(t, mpi.Start(p))
		must(p.Wait())(t)
		if must(r.Wait())(t); in[0] != 7 {
			t.Errorf("received %d, want 7", in[0])
		}
	}, hangTimeout)
}

// Receives are canceled while their messages come: each message is received once, by a receive that was not canceled.
func TestCancelRace(t *testing.T) {
	const rounds, window = 40, 8
	for _, size := range []int{8, 3000, 40_000} {
		run(t, 2, func(t *testing.T, c *mpi.Comm) {
			if c.Rank() == 0 {
				for round := range rounds {
					must(mpi.Recv(c, make([]byte, 1), 1, 1))(t)
					for i := range window {
						ok(t, mpi.Send(c, message(size, round*window+i), 1, 2))
					}
				}
				return
			}
			for round := range rounds {
				bufs, all := make([][]byte, window), make([]mpi.Request, window)
				for i := range all {
					bufs[i] = make([]byte, size)
					all[i] = must(mpi.Irecv(c, bufs[i], 0, 2))(t)
				}
				ok(t, mpi.Send(c, []byte{1}, 0, 1))
				next := 0
				for k := range window { // from the last one, while messages meet the first ones
					ok(t, all[window-1-k].Cancel())
				}
				for i, r := range all {
					switch err := errOf(r.Wait()); {
					case err == nil:
						checkMessage(t, bufs[i], round*window+next)
						next++
					case !errors.Is(err, mpi.ErrRequestCanceled):
						t.Fatal(err)
					}
				}
				for ; next < window; next++ {
					must(mpi.Recv(c, bufs[0], 0, 2))(t)
					checkMessage(t, bufs[0], round*window+next)
				}
			}
		}, hangTimeout)
	}
}

// Tests and waits take requests that are zero, inactive or of ProcNull, among those that are under way, and report the empty status for them.
func TestNullAndInactiveRequests(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		in, out := []int{0}, []int{c.Rank() + 1}
		idle := []mpi.Persistent{must(mpi.SendInit(c, out, other, 9))(t), must(mpi.RecvInit(c, in, other, 9))(t), must(mpi.BcastInit(c, in, 0))(t), must(c.BarrierInit())(t)}
		for round := range 2 { // the second time they were active between
			all := []mpi.Request{{}}
			for _, p := range idle {
				if s, done, err := p.Test(); s != emptyStatus || !done || err != nil {
					t.Errorf("Test of an inactive operation: %+v, %v, %v", s, done, err)
				}
				if s, err := p.Wait(); s != emptyStatus || err != nil {
					t.Errorf("Wait of an inactive operation: %+v, %v", s, err)
				}
				all = append(all, p.Request())
			}
			statuses := slices.Repeat([]mpi.Status{{Source: 77}}, len(all))
			if done, err := mpi.TestAll(all, statuses); !done || err != nil || !slices.Equal(statuses, slices.Repeat([]mpi.Status{emptyStatus}, len(all))) {
				t.Errorf("TestAll: %v, %v, %+v", done, err, statuses)
			}
			ok(t, mpi.WaitAll(all, statuses))
			ok(t, mpi.WaitAll(nil, nil))
			if i, s, err := mpi.WaitAny(all); i != -1 || s != emptyStatus || err != nil {
				t.Errorf("WaitAny: %d, %+v, %v", i, s, err)
			}
			if i, s, done, err := mpi.TestAny(all); i != -1 || s != emptyStatus || !done || err != nil {
				t.Errorf("TestAny: %d, %+v, %v, %v", i, s, done, err)
			}
			if some, err := mpi.WaitSome(all); len(some) != 0 || err != nil {
				t.Errorf("WaitSome: %+v, %v", some, err)
			}
			if some, err := mpi.TestSome(all); len(some) != 0 || err != nil {
				t.Errorf("TestSome: %+v, %v", some, err)
			}
			ok(t, mpi.Start(idle[:2]...))
			all[1], all[2] = idle[0].Request(), idle[1].Request()
			for range 2 {
				if i, _, err := mpi.WaitAny(all); i != 1 && i != 2 || err != nil {
					t.Errorf("WaitAny of two requests that count: %d, %v", i, err)
				}
			}
			if in[0] != other+1 {
				t.Errorf("round %d: received %d", round, in[0])
			}
			ok(t, mpi.Start(idle[3]))
			must(idle[3].Wait())(t)
		}
		nobody := mpi.Status{Source: mpi.ProcNull, Tag: mpi.AnyTag}
		if s, found, err := c.Iprobe(mpi.ProcNull, 5); s != nobody || !found || err != nil {
			t.Errorf("Iprobe of ProcNull: %+v, %v, %v", s, found, err)
		}
		p := must(mpi.RecvInit(c, in, mpi.ProcNull, 1))(t)
		ok(t, mpi.Start(p))
		if i, s, err := mpi.WaitAny([]mpi.Request{{}, p.Request()}); i != 1 || s != nobody || err != nil {
			t.Errorf("WaitAny of a receive from ProcNull: %d, %+v, %v", i, s, err)
		}
	}, hangTimeout)
}

// Buffered messages of all lengths are received in another order than they were sent, after their buffers have changed, also in the other group of an Intercomm.
func TestBufferedOutOfOrder(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		x, _ := newIntercomm(t, c, 2)
		for _, c := range []*mpi.Comm{c, x.Remote()} {
			me := c.Rank()
			for tag, size := range conformSizes {
				buf := message(size, me*20+tag)
				for i := range 3 {
					ok(t, mpi.Bsend(c, buf, 0, 10*tag+i))
				}
				clear(buf)
			}
			if me > 0 {
				continue
			}
			for _, tag := range []int{8, 0, 7, 3, 1, 6, 2, 5, 4} {
				for src := range c.Size() {
					for _, i := range []int{1, 2, 0} {
						in := make([]byte, conformSizes[tag]+5)
						s := must(mpi.Recv(c, in, src, 10*tag+i))(t)
						if s.Bytes != conformSizes[tag] || s.Source != src || s.Tag != 10*tag+i {
							t.Fatalf("%d bytes: status %+v", conformSizes[tag], s)
						}
						checkMessage(t, in[:s.Bytes], src*20+tag)
					}
				}
			}
		}
		ok(t, c.Barrier())
		ok(t, x.Free())
	}, hangTimeout)
}

// The greatest tags work, a receive may have more room than the message needs, and less than none.
func TestTagsAndRoom(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		for i, tag := range []int{0, mpi.MaxTag, mpi.MaxTag - 1, 1 << 30, 1<<30 + 1} {
			in := make([]byte, 1<<20)
			s := must(mpi.Sendrecv(c, message(i, i), other, tag, in, mpi.AnySource, tag))(t)
			if checkMessage(t, in[:i], i); s.Tag != tag || s.Bytes != i || in[i] != 0 {
				t.Errorf("tag %d: %+v", tag, s)
			}
			s = must(mpi.Sendrecv(c, message(100*i, i), other, tag, in, other, mpi.AnyTag))(t)
			if checkMessage(t, in[:100*i], i); s.Tag != tag || s.Bytes != 100*i {
				t.Errorf("tag %d: %+v", tag, s)
			}
		}
		for _, size := range []int{1, 100, 50_000} {
			ok(t, mpi.Bsend(c, message(size, 1), other, 1))
			ok(t, mpi.Bsend(c, message(size, 2), other, 2))
			s, err := mpi.Recv(c, []byte{}, other, 1)
			if want := (mpi.Status{Source: other, Tag: 1}); !errors.Is(err, mpi.ErrTruncated) || s != want {
				t.Errorf("%d bytes into none: %+v, %v, want %+v, %v", size, s, err, want, mpi.ErrTruncated)
			}
			m, _, err := c.Mprobe(other, 2)
			ok(t, err)
			in := make([]byte, size)
			if s, err := mpi.Mrecv(m, in[:size-1]); !errors.Is(err, mpi.ErrTruncated) || s.Bytes != size-1 || in[size-1] != 0 {
				t.Errorf("Mrecv of %d bytes into one less: %+v, %v", size, s, err)
			}
			if s, err := mpi.Sendrecv(c, message(size, 3), other, 3, in[:size-1], other, 3); !errors.Is(err, mpi.ErrTruncated) || s.Bytes != size-1 {
				t.Errorf("Sendrecv of %d bytes into one less: %+v, %v", size, s, err)
			}
			must(mpi.Sendrecv(c, message(size, 4), other, 4, in, other, 4))(t)
			checkMessage(t, in, 4)
		}
	}, hangTimeout)
}

// A persistent synchronous send is complete when its receive has met it, not before, each time it is started.
func TestPersistentSynchronous(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		for _, size := range []int{0, 8, 50_000} {
			buf := message(size, 1)
			if c.Rank() == 0 {
				p := must(mpi.SsendInit(c, buf, 1, 1))(t)
				for range 3 {
					ok(t, mpi.Start(p))
					for range 50 {
						if _, done, err := p.Test(); done || err != nil {
							t.Fatalf("a synchronous send of %d bytes is complete without a receive: %v", size, err)
						}
					}
					ok(t, mpi.Send(c, []byte{1}, 1, 2))
					must(p.Wait())(t)
				}
				continue
			}
			q := must(mpi.RecvInit(c, buf, mpi.AnySource, 1))(t)
			for range 3 {
				must(mpi.Recv(c, make([]byte, 1), 0, 2))(t)
				clear(buf)
				ok(t, mpi.Start(q))
				if s := must(q.Wait())(t); s.Source != 0 || s.Bytes != size {
					t.Errorf("status %+v", s)
				}
				checkMessage(t, buf, 1)
			}
		}
	}, hangTimeout)
}

// Probe finds messages that come while it waits, of all lengths, sent in both modes.
func TestProbeMeanwhile(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		for size := 1; size <= 128<<10; size *= 2 {
			for round := range 4 {
				buf := message(size, round)
				if round%2 == c.Rank() {
					must(mpi.Recv(c, make([]byte, 1), other, 1))(t)
					if round < 2 {
						ok(t, mpi.Send(c, buf, other, 2))
					} else {
						ok(t, mpi.Ssend(c, buf, other, 2))
					}
					continue
				}
				clear(buf)
				ok(t, mpi.Send(c, []byte{1}, other, 1))
				s := must(c.Probe(mpi.AnySource, mpi.AnyTag))(t)
				if s.Source != other || s.Tag != 2 || s.Bytes != size {
					t.Fatalf("Probe found %+v, want %d bytes", s, size)
				}
				must(mpi.Recv(c, buf, s.Source, s.Tag))(t)
				checkMessage(t, buf, round)
			}
		}
	}, hangTimeout)
}
