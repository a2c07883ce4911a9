package mpi_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/group"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A synchronous send returns when its message is received, not before. A buffered one never waits.
func TestSendModes(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		for _, n := range []int{0, 1, 20_000} {
			buf := message(n, 1)
			if c.Rank() == 0 {
				r := must(mpi.Issend(c, buf, 1, 1))(t)
				for range 100 {
					if _, done, err := r.Test(); done || err != nil {
						t.Fatalf("a synchronous send of %d bytes is complete without a receive: %v", n, err)
					}
				}
				ok(t, mpi.Send(c, []byte{1}, 1, 2))
				must(r.Wait())(t)
				ok(t, mpi.Ssend(c, buf, 1, 3))
				ok(t, mpi.Rsend(c, buf, 1, 4))
				out := slices.Clone(buf)
				for range 50 {
					ok(t, mpi.Bsend(c, out, 1, 5))
				}
				clear(out)
				must(mpi.SendrecvReplace(c, buf, 1, 6, 1, 6))(t)
				checkMessage(t, buf, 2)
				continue
			}
			must(mpi.Recv(c, make([]byte, 1), 0, 2))(t)
			for _, tag := range []int{1, 3, 4} {
				in := make([]byte, n)
				must(mpi.Recv(c, in, 0, tag))(t)
				checkMessage(t, in, 1)
			}
			for range 50 {
				in := make([]byte, n)
				must(mpi.Recv(c, in, 0, 5))(t)
				checkMessage(t, in, 1)
			}
			mine := message(n, 2)
			must(mpi.SendrecvReplace(c, mine, 0, 6, 0, 6))(t)
			checkMessage(t, mine, 1)
		}
	})
}

// A synchronous send to the process itself ends with its receive, or with its communicator.
func TestSynchronousToSelf(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		for _, n := range []int{0, 8, 200_000} {
			buf, in := message(n, 1), make([]byte, n)
			r := must(mpi.Issend(c, buf, 0, 1))(t)
			if _, done, err := r.Test(); done || err != nil {
				t.Errorf("a synchronous send of %d bytes is complete without a receive: %v", n, err)
			}
			must(mpi.Recv(c, in, 0, 1))(t)
			must(r.Wait())(t)
			checkMessage(t, in, 1)
			posted := must(mpi.Irecv(c, in, 0, 1))(t)
			ok(t, mpi.Ssend(c, buf, 0, 1))
			must(posted.Wait())(t)
		}
		d := must(c.Split(0, 0))(t)
		r := must(mpi.Issend(d, []byte{1}, 0, 1))(t)
		ok(t, d.Free())
		if err := errOf(r.Wait()); !errors.Is(err, mpi.ErrFreed) {
			t.Errorf("a synchronous send after Free: %v, want %v", err, mpi.ErrFreed)
		}
	})
}

// A synchronous send to the own process is given up after a probe has taken its message. Then its request may be another call's, which the message does not end.
func TestSynchronousGivenUp(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := mpi.Ssend(c.With(ctx), []byte{7}, 0, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("Ssend: %v, want %v", err, context.Canceled)
			}
		})
		m, _, err := c.Mprobe(0, 1)
		ok(t, err)
		cancel()
		wg.Wait()
		in, others := make([]byte, 64), []mpi.Request{}
		for i := range in { // more than the pool had when Ssend began: one of them has its request
			others = append(others, must(mpi.Irecv(c, in[i:i+1], 0, 2))(t))
		}
		buf := []byte{0}
		if must(mpi.Mrecv(m, buf))(t); buf[0] != 7 {
			t.Errorf("received %d, want 7", buf[0])
		}
		for i, r := range others {
			if _, done, err := r.Test(); done || err != nil {
				t.Errorf("receive %d: done %t, error %v, want one that waits", i, done, err)
			}
		}
		for range in {
			ok(t, mpi.Send(c, []byte{1}, 0, 2))
		}
		ok(t, mpi.WaitAll(others, nil))
	})
}

// Probes find messages and leave them; matched probes take them, and no other receive gets them.
func TestProbes(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const many = 40
		if c.Rank() == 1 {
			must(mpi.Recv(c, make([]byte, 1), 0, 1))(t)
			for i := range many {
				ok(t, mpi.Send(c, message(100*i*i, i), 0, 10+i))
			}
			return
		}
		if _, found, err := c.Iprobe(1, mpi.AnyTag); found || err != nil {
			t.Errorf("Iprobe before there is a message: %v, %v", found, err)
		}
		if _, _, found, err := c.Improbe(mpi.AnySource, 3); found || err != nil {
			t.Errorf("Improbe before there is a message: %v, %v", found, err)
		}
		ok(t, mpi.Send(c, []byte{1}, 1, 1))
		for i := range many {
			s := must(c.Probe(1, mpi.AnyTag))(t)
			if want := (mpi.Status{Source: 1, Tag: 10 + i, Count: 100 * i * i, Bytes: 100 * i * i}); s != want {
				t.Fatalf("Probe found %+v, want %+v", s, want)
			}
			in := make([]byte, s.Bytes)
			switch i % 3 {
			case 0:
				must(mpi.Recv(c, in, 1, mpi.AnyTag))(t)
			case 1:
				m, again, err := c.Mprobe(mpi.AnySource, s.Tag)
				ok(t, err)
				if again != s {
					t.Errorf("Mprobe found %+v, want %+v", again, s)
				}
				if _, found, err := c.Iprobe(1, s.Tag); found || err != nil {
					t.Errorf("the message was taken, and Iprobe reports %v, %v", found, err)
				}
				must(mpi.Mrecv(m, in))(t)
				if err := errOf(mpi.Mrecv(m, in)); !errors.Is(err, mpi.ErrArgument) {
					t.Errorf("a second Mrecv: %v, want %v", err, mpi.ErrArgument)
				}
			case 2:
				m, _, found, err := c.Improbe(1, s.Tag)
				if !found || err != nil {
					t.Fatalf("Improbe: %v, %v, want the message", found, err)
				}
				must(must(mpi.Imrecv(m, in))(t).Wait())(t)
			}
			checkMessage(t, in, i)
		}
		s, err := c.Probe(mpi.ProcNull, 1)
		if ok(t, err); s.Source != mpi.ProcNull {
			t.Errorf("Probe of ProcNull: %+v", s)
		}
		m, _, err := c.Mprobe(mpi.ProcNull, 1)
		ok(t, err)
		if s := must(mpi.Mrecv(m, make([]byte, 1)))(t); s.Source != mpi.ProcNull {
			t.Errorf("Mrecv of ProcNull: %+v", s)
		}
	})
}

// A death ends probes, as it ends receives.
func TestDeathInProbe(t *testing.T) {
	const victim = 1
	for _, src := range []int{victim, mpi.AnySource} {
		run(t, 2, func(t *testing.T, c *mpi.Comm) {
			if c.Rank() == victim {
				ok(t, mpi.Send(c, []byte{1}, 0, 1))
				die()
			}
			must(c.Probe(src, 1))(t)
			must(mpi.Recv(c, make([]byte, 1), src, 1))(t)
			wantDeathError(t, "Comm.Probe", errOf(c.Probe(src, 1)), victim)
			_, _, err := c.Mprobe(src, 1)
			wantDeathError(t, "Comm.Mprobe", err, victim)
		}, shmemtest.Recover(victim))
	}
}

// Goroutines that probe for different messages each find theirs.
func TestParkedProbes(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const many = 50
		if c.Rank() == 1 {
			must(mpi.Recv(c, make([]byte, 1), 0, many))(t)
			for i := range many {
				ok(t, mpi.Send(c, []int{i}, 0, i))
			}
			return
		}
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				m, s, err := c.Mprobe(1, i)
				in := make([]int, 1)
				if err == nil {
					_, err = mpi.Mrecv(m, in)
				}
				if err != nil || s.Tag != i || in[0] != i {
					t.Errorf("probe %d: %+v, %d, %v", i, s, in[0], err)
				}
			})
		}
		for mpi.Probing(c) < many {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := errOf(c.With(ctx).Probe(1, many+1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Probe with a deadline: %v", err)
		}
		ok(t, mpi.Send(c, []byte{1}, 1, many))
		wg.Wait()
	})
}

// WaitAny, WaitSome and their tests find the requests that are complete, each once.
func TestWaitsForSome(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const many = 30
		if c.Rank() == 1 {
			for i := range 4 * many {
				must(mpi.Recv(c, make([]byte, 1), 0, 1000))(t)
				ok(t, mpi.Send(c, []int{i}, 0, (i*7)%many))
			}
			return
		}
		if i, s, err := mpi.WaitAny(nil); i != -1 || s != emptyStatus || err != nil {
			t.Errorf("WaitAny of nothing: %d, %+v, %v", i, s, err)
		}
		if i, _, done, err := mpi.TestAny([]mpi.Request{{}}); i != -1 || !done || err != nil {
			t.Errorf("TestAny of nothing that counts: %d, %v, %v", i, done, err)
		}
		in, all := make([]int, many), make([]mpi.Request, many)
		post := func() {
			for i := range all {
				all[i] = must(mpi.Irecv(c, in[i:i+1], 1, i))(t)
			}
		}
		next := func() { ok(t, mpi.Send(c, []byte{1}, 1, 1000)) }
		post()
		if i, _, done, err := mpi.TestAny(all); i != -1 || done || err != nil {
			t.Errorf("TestAny before there is a message: %d, %v, %v", i, done, err)
		}
		for k := range many {
			next()
			i, s, err := mpi.WaitAny(all)
			if ok(t, err); i != k*7%many || s.Tag != i || in[i] != k {
				t.Fatalf("WaitAny %d: %d with %+v", k, i, s)
			}
		}
		post()
		for k := range many {
			next()
			for {
				some, err := mpi.TestSome(all)
				if ok(t, err); len(some) == 0 {
					continue
				}
				if len(some) != 1 || some[0].Index != k*7%many || some[0].Err != nil {
					t.Fatalf("TestSome %d: %+v", k, some)
				}
				break
			}
		}
		post()
		if done, err := mpi.TestAll(all, nil); done || err != nil {
			t.Errorf("TestAll before there is a message: %v, %v", done, err)
		}
		seen := map[int]bool{}
		for range many {
			next()
		}
		for len(seen) < many {
			some, err := mpi.WaitSome(all)
			ok(t, err)
			for _, o := range some {
				if seen[o.Index] || o.Err != nil || o.Status.Tag != o.Index {
					t.Fatalf("WaitSome: %+v", o)
				}
				seen[o.Index] = true
			}
		}
		post()
		for range many {
			next()
		}
		count := 0
		for i, o := range mpi.Completed(all) {
			if ok(t, o.Err); o.Status.Tag != i {
				t.Errorf("request %d: %+v", i, o)
			}
			count++
		}
		if count != many {
			t.Errorf("%d requests were completed, want %d", count, many)
		}
	})
}

// TestAll makes progress although one of the requests is complete.
func TestTestAllMakesProgress(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		in := make([]int, 3)
		if c.Rank() == 1 {
			ok(t, mpi.Send(c, []int{1}, 0, 1))
			ok(t, mpi.Send(c, []int{3}, 0, 3))
			must(mpi.Recv(c, in[:1], 0, 1))(t)
			ok(t, mpi.Send(c, []int{2}, 0, 2))
			return
		}
		all := []mpi.Request{must(mpi.Irecv(c, in[:1], 1, 1))(t), must(mpi.Irecv(c, in[1:2], 1, 2))(t)}
		must(mpi.Recv(c, in[2:], 1, 3))(t) // the first request is complete
		ok(t, mpi.Send(c, in[:1], 1, 1))
		for done := false; !done; {
			var err error
			done, err = mpi.TestAll(all, nil)
			ok(t, err)
		}
		if !slices.Equal(in, []int{1, 2, 3}) {
			t.Errorf("received %v, want 1, 2 and 3", in)
		}
	}, hangTimeout)
}

// Tests of several requests find out that the peer has left.
func TestTestsAfterLeaving(t *testing.T) {
	const victim = 2
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		switch c.Rank() {
		case victim:
			die()
		case 1:
			for len(c.Failed()) == 0 {
				time.Sleep(time.Millisecond)
			}
			return
		}
		for name, test := range map[string]func(all []mpi.Request) error{
			"TestAny": func(all []mpi.Request) error { _, _, _, err := mpi.TestAny(all); return err },
			"TestAll": func(all []mpi.Request) error { return errOf(mpi.TestAll(all, nil)) },
			"TestSome": func(all []mpi.Request) error {
				some, err := mpi.TestSome(all)
				for _, o := range some {
					err = errors.Join(err, o.Err)
				}
				return err
			},
		} {
			all := []mpi.Request{must(mpi.Irecv(c, make([]int, 1), 1, 1))(t)}
			var err error
			for err == nil {
				err = test(all)
			}
			if !errors.Is(err, mpi.ErrRankFinalized) {
				t.Errorf("%s: %v, want %v", name, err, mpi.ErrRankFinalized)
			}
		}
	}, shmemtest.Recover(victim), hangTimeout)
}

// A receive that is canceled ends, and its message goes to another one.
func TestCancel(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		in := make([]int, 2)
		first := must(mpi.Irecv(c, in[:1], 0, 1))(t)
		second := must(mpi.Irecv(c, in[1:], 0, 1))(t)
		ok(t, first.Cancel())
		ok(t, first.Cancel())
		if err := errOf(first.Wait()); !errors.Is(err, mpi.ErrRequestCanceled) {
			t.Errorf("Wait of a canceled receive: %v, want %v", err, mpi.ErrRequestCanceled)
		}
		ok(t, mpi.Send(c, []int{7}, 0, 1))
		ok(t, second.Cancel()) // it has its message
		if must(second.Wait())(t); !slices.Equal(in, []int{0, 7}) {
			t.Errorf("got %v, want 0 and 7", in)
		}
	})
}

// Communicators are duplicated, compared, and made of groups.
func TestMakingCommunicators(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		d := must(c.Dup())(t)
		tryComm(t, d, 1)
		e, r, err := c.Idup()
		ok(t, err)
		f, q, err := c.Idup()
		ok(t, err)
		must(q.Wait())(t)
		must(r.Wait())(t)
		tryComm(t, e, 2)
		tryComm(t, f, 3)
		for _, x := range []struct {
			a, b *mpi.Comm
			want mpi.Comparison
		}{{c, c, group.Ident}, {c, d, group.Congruent}, {d, e, group.Congruent}} {
			if got := must(x.a.Compare(x.b))(t); got != x.want {
				t.Errorf("communicators are %v, want %v", got, x.want)
			}
		}
		back := must(c.Split(0, -me))(t)
		if got := must(c.Compare(back))(t); got != group.Similar {
			t.Errorf("communicators are %v, want %v", got, group.Similar)
		}
		odd := must(c.Group().RangeIncl(group.Range{First: 1, Last: n - 1, Stride: 2}))(t)
		x := must(c.Create(odd))(t)
		if (x != nil) != (me%2 == 1) {
			t.Fatalf("rank %d has communicator %v", me, x)
		}
		if x != nil {
			tryComm(t, x, 4)
			if got := must(c.Compare(x))(t); got != group.Unequal {
				t.Errorf("communicators are %v, want %v", got, group.Unequal)
			}
			var wg sync.WaitGroup
			for tag := range 5 { // at a time, with different tags
				wg.Go(func() {
					y, err := c.CreateGroup(odd, tag)
					if err != nil {
						t.Error(err)
						return
					}
					tryComm(t, y, 10+tag)
					if err := y.Free(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			ok(t, x.Free())
		}
		near := must(c.SplitType(mpi.Shared, 0))(t)
		tryComm(t, near, 5)
		for _, x := range []*mpi.Comm{near, back, f, e, d} {
			ok(t, x.Free())
		}
	})
}

// Survivors make a communicator of their group, although the one that it comes of has dead ranks.
func TestGroupOfSurvivors(t *testing.T) {
	const victim, n = 1, 4
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == victim {
			die()
		}
		for len(c.Failed()) == 0 {
			time.Sleep(time.Millisecond)
		}
		of := must(must(c.Group().Excl(victim))(t).Incl(2, 0, 1))(t)
		x := must(c.CreateGroup(of, 1))(t)
		tryComm(t, x, 1)
		if want := map[int]int{0: 1, 2: 2, 3: 0}[c.Rank()]; x.Rank() != want {
			t.Errorf("rank %d is rank %d, want %d", c.Rank(), x.Rank(), want)
		}
		ok(t, x.Free())
	}, shmemtest.Recover(victim))
}

// A process alone has a communicator, too.
func TestSelf(t *testing.T) {
	runBare(t, 2, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Self()
		if c.Size() != 1 || c.Rank() != 0 {
			t.Fatalf("rank %d of %d, want 0 of 1", c.Rank(), c.Size())
		}
		tryComm(t, c, w.Comm().Rank())
		d := must(c.Dup())(t)
		tryComm(t, d, 10)
		ok(t, d.Free())
		if err := c.Free(); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Free of World.Self: %v, want %v", err, mpi.ErrArgument)
		}
		if x := must(w.Comm().Compare(c))(t); x != group.Unequal {
			t.Errorf("World.Comm and World.Self are %v", x)
		}
		ok(t, w.Finalize())
	})
}

// Attributes are kept with communicators, and duplicates get them as their keys say.
func TestAttributes(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		same := mpi.NewKey[int](nil)
		next := mpi.NewKey(func(v string) (string, bool) { return v + "'", true })
		none := mpi.NewKey(func(v []int) ([]int, bool) { return nil, false })
		if _, found := same.Get(c); found {
			t.Error("a value that was never set")
		}
		ok(t, same.Set(c, 7))
		ok(t, next.Set(c, "x"))
		ok(t, none.Set(c, []int{1}))
		d := must(c.Dup())(t)
		e, r, err := d.Idup()
		ok(t, err)
		must(r.Wait())(t)
		for _, x := range []struct {
			c     *mpi.Comm
			text  string
			slice bool
		}{{c, "x", true}, {d, "x'", false}, {e, "x''", false}} {
			v, _ := same.Get(x.c)
			text, _ := next.Get(x.c)
			_, slice := none.Get(x.c)
			if v != 7 || text != x.text || slice != x.slice {
				t.Errorf("attributes %d, %q, %v, want 7, %q, %v", v, text, slice, x.text, x.slice)
			}
		}
		same.Delete(d)
		if _, found := same.Get(d); found {
			t.Error("a value that was deleted")
		}
		if v, found := same.Get(e); v != 7 || !found {
			t.Error("Delete has removed the value of another communicator")
		}
		ok(t, e.Free())
		ok(t, d.Free())
		if err := same.Set(d, 1); !errors.Is(err, mpi.ErrFreed) {
			t.Errorf("Set after Free: %v, want %v", err, mpi.ErrFreed)
		}
		if a, b := mpi.Wtime(), mpi.Wtime(); b < a || mpi.Wtick() <= 0 {
			t.Errorf("times %v, then %v", a, b)
		}
	})
}
