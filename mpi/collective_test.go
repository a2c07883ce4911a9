package mpi_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// value is element i of a rank's contribution.
func value(rank, i int) int64 { return int64(rank+1)*1_000_003 + int64(i)*7 }

// Collectives of sizes around the limits of pieces run on every root, while messages with any tag
// wait to be received. Collectives and messages do not mix.
func TestCollectives(t *testing.T) {
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		me, n := c.Rank(), c.Size()
		wild := must(mpi.Irecv(c, make([]int64, 1), mpi.AnySource, mpi.AnyTag))(t)
		for _, size := range []int{0, 1, 7, 28, 29, 1019, 1020, 1021, 1024, 2040, 5000, 40_000} {
			src, dst := make([]int64, size), make([]int64, size)
			for root := range n {
				for i := range src {
					src[i] = value(me, i)
				}
				copy(dst, src)
				ok(t, mpi.Bcast(c, dst, root))
				for i, v := range dst {
					if v != value(root, i) {
						t.Fatalf("broadcast of %d elements from rank %d: element %d is %d, want %d", size, root, i, v, value(root, i))
					}
				}
				var to []int64
				if me == root {
					to = dst
				}
				ok(t, mpi.Reduce(c, to, src, mpi.Max, root))
				for i, v := range to {
					if v != value(n-1, i) {
						t.Fatalf("maximum of %d elements at rank %d: element %d is %d, want %d", size, root, i, v, value(n-1, i))
					}
				}
			}
			ok(t, mpi.Allreduce(c, dst, src, mpi.Sum))
			ok(t, mpi.Allreduce(c, src, src, mpi.Sum))
			for i, v := range dst {
				want := int64(0)
				for rank := range n {
					want += value(rank, i)
				}
				if v != want || src[i] != want {
					t.Fatalf("sum of %d elements: element %d is %d, in place %d, want %d", size, i, v, src[i], want)
				}
			}
		}
		if s, done, err := wild.Test(); done || err != nil {
			t.Errorf("a receive took the message of a collective: %+v, %v", s, err)
		}
		ok(t, mpi.Send(c, []int64{1}, me, 0))
		must(wild.Wait())(t)
	})
}

// All operators, and a user's operator whose result depends on the order.
func TestOperators(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		x := []int{6, 5, 3}[c.Rank()]
		for _, o := range []struct {
			op   mpi.Op[int]
			want int
		}{
			{mpi.Sum[int], 14},
			{mpi.Prod[int], 90},
			{mpi.Min[int], 3},
			{mpi.Max[int], 6},
			{mpi.And[int], 6 & 5 & 3},
			{mpi.Or[int], 6 | 5 | 3},
			{mpi.Xor[int], 6 ^ 5 ^ 3},
			{func(acc, in []int) { acc[0] = acc[0]*10 + in[0] }, 653},
		} {
			got := make([]int, 1)
			ok(t, mpi.Allreduce(c, got, []int{x}, o.op))
			if got[0] != o.want {
				t.Errorf("got %d, want %d", got[0], o.want)
			}
		}
		odd, all := make([]bool, 3), []bool{true, c.Rank() == 1, c.Rank() > 0}
		ok(t, mpi.Allreduce(c, odd, all, mpi.And))
		checkBools(t, odd, true, false, false)
		ok(t, mpi.Allreduce(c, odd, all, mpi.Or))
		checkBools(t, odd, true, true, true)
		ok(t, mpi.Allreduce(c, odd, all, mpi.Xor))
		checkBools(t, odd, true, true, false)
	})
}

// checkBools compares the bools that an operator has computed.
func checkBools(t *testing.T, have []bool, want ...bool) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Errorf("got %v, want %v", have, want)
	}
}

// Ranks that call different collectives get an error.
func TestMismatch(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		n := 1 + c.Rank()
		x := make([]int, n)
		d := must(c.Split(0, 0))(t)
		if err := mpi.Allreduce(d, x, x, mpi.Sum); !errors.Is(err, mpi.ErrMismatch) {
			t.Errorf("reductions of different sizes: %v, want %v", err, mpi.ErrMismatch)
		}
		if err := d.Barrier(); !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("barrier after it: %v, want %v", err, mpi.ErrCommBroken)
		}
		ok(t, d.Free())
		d = must(c.Split(0, 0))(t)
		err := mpi.Bcast(d, x, 0)
		if c.Rank() == 0 {
			ok(t, err)
		} else if !errors.Is(err, mpi.ErrMismatch) {
			t.Errorf("broadcasts of different sizes: %v, want %v", err, mpi.ErrMismatch)
		}
		if err := d.Barrier(); !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("barrier after it: %v, want %v", err, mpi.ErrCommBroken)
		}
		ok(t, d.Free())
	})
}

// No rank waits forever for ranks that are in another collective, however many steps its own
// collective has.
func TestMismatchEndsForAll(t *testing.T) {
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		if c.Size() == 1 {
			return
		}
		x, large := make([]int, 1), make([]int, 1<<17)
		calls := map[string]func(d *mpi.Comm) error{
			"Split":           func(d *mpi.Comm) error { return errOf(d.Split(0, 0)) },
			"Allreduce":       func(d *mpi.Comm) error { return mpi.Allreduce(d, x, x, mpi.Sum) },
			"large Allreduce": func(d *mpi.Comm) error { return mpi.Allreduce(d, large, large, mpi.Sum) },
			"large Reduce":    func(d *mpi.Comm) error { return mpi.Reduce(d, large, large, mpi.Sum, 0) },
		}
		names := slices.Sorted(maps.Keys(calls))
		for _, one := range names {
			for _, others := range names {
				if one == others {
					continue
				}
				d := must(c.Split(0, c.Rank()))(t)
				call := others
				if d.Rank() == 1 {
					call = one
				}
				err := calls[call](d)
				if !errors.Is(err, mpi.ErrMismatch) && !errors.Is(err, mpi.ErrCommBroken) && (err != nil || call != "large Reduce") {
					t.Errorf("%s of rank 1, %s of the others: error %v, want %v or %v", one, others, err, mpi.ErrMismatch, mpi.ErrCommBroken)
				}
				ok(t, c.Barrier()) // before any rank finalizes, which would end it for the others as well
				ok(t, d.Free())
			}
		}
	})
}

// Split returns an error if a rank is in another collective.
func TestSplitFails(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Split(0, 0))(t)
		if d.Rank() == 0 {
			if _, err := d.Split(0, 0); !errors.Is(err, mpi.ErrMismatch) {
				t.Errorf("Split while another rank is in a barrier: error %v, want %v", err, mpi.ErrMismatch)
			}
		} else if err := d.Barrier(); err != nil && !errors.Is(err, mpi.ErrMismatch) && !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("barrier while another rank is in Split: error %v, want none or %v", err, mpi.ErrMismatch)
		}
		ok(t, d.Free())
	})
}

// An invalid color is an error on all ranks, whether it is the rank's own or another rank's. No
// rank waits, and the communicator is unchanged.
func TestSplitColor(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		color, want, text := 0, mpi.ErrMismatch, "rank 1 gave color -9"
		if c.Rank() == 1 {
			color, want, text = -9, mpi.ErrArgument, "color -9"
		}
		d, err := c.Split(color, 0)
		if d != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("Split returned %v, %v, want an error with %q that is %v", d, err, text, want)
		}
		ok(t, c.Barrier())
		ok(t, must(c.Split(0, 0))(t).Free())
	})
}

// The communicators that Split makes have their own ranks, messages and collectives.
func TestSplit(t *testing.T) {
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		me, n := c.Rank(), c.Size()
		for round := range 5 {
			color := me % 3
			if me == 4 {
				color = mpi.Undefined
			}
			d := must(c.Split(color, -me))(t)
			var want []int // the ranks of the new communicator
			for r := n - 1; r >= 0; r-- {
				if r%3 == me%3 && r != 4 {
					want = append(want, r)
				}
			}
			if me == 4 {
				if d != nil {
					t.Fatalf("Split with Undefined returned a communicator of size %d, want nil", d.Size())
				}
				continue
			}
			if d.Size() != len(want) || want[d.Rank()] != me {
				t.Fatalf("this is rank %d of %d, want the members %v", d.Rank(), d.Size(), want)
			}
			all := make([]int, n)
			all[me] = 1
			ok(t, mpi.Allreduce(d, all, slices.Clone(all), mpi.Sum))
			for r, v := range all {
				if (v == 1) != slices.Contains(want, r) {
					t.Fatalf("got members %v, want %v", all, want)
				}
			}
			// Both communicators have messages with the same source and tag, which are received in
			// the opposite order.
			next, last := (d.Rank()+1)%d.Size(), (d.Rank()+d.Size()-1)%d.Size()
			ok(t, mpi.Send(c, []int{1000 + me}, want[next], round))
			ok(t, mpi.Send(d, []int{2000 + me}, next, round))
			in := make([]int, 1)
			if s := must(mpi.Recv(d, in, mpi.AnySource, mpi.AnyTag))(t); in[0] != 2000+want[last] || s.Source != last {
				t.Fatalf("got %d with status %+v, want %d from rank %d", in[0], s, 2000+want[last], last)
			}
			if s := must(mpi.Recv(c, in, mpi.AnySource, mpi.AnyTag))(t); in[0] != 1000+want[last] || s.Source != want[last] {
				t.Fatalf("got %d with status %+v, want %d from rank %d", in[0], s, 1000+want[last], want[last])
			}
			ok(t, mpi.Send(d, []int{1}, next, 99)) // dropped by Free
			ok(t, d.Free())
			if err := d.Barrier(); !errors.Is(err, mpi.ErrFreed) {
				t.Errorf("barrier after Free: %v, want %v", err, mpi.ErrFreed)
			}
		}
	})
}

// Init and Finalize may be called again. Messages from before are gone.
func TestInitAgain(t *testing.T) {
	runBare(t, 3, func(t *testing.T) {
		for round := range 4 {
			w := must(mpi.Init())(t)
			if again := must(mpi.Init())(t); again != w {
				t.Fatal("a nested Init returned a different World")
			}
			c := w.Comm()
			other := (c.Rank() + 1) % 3
			in := []int{0}
			r := must(mpi.Irecv(c, in, mpi.AnySource, 7))(t)
			ok(t, mpi.Send(c, []int{round}, other, 7))
			must(r.Wait())(t)
			if in[0] != round {
				t.Fatalf("round %d: got a message of round %d", round, in[0])
			}
			ok(t, mpi.Send(c, []int{round}, other, 7)) // never received
			ok(t, w.Finalize())
			ok(t, c.Barrier()) // the first of the two calls of Finalize
			ok(t, w.Finalize())
			if err := mpi.Send(c, in, other, 7); !errors.Is(err, mpi.ErrFinalized) {
				t.Errorf("send after Finalize: %v, want %v", err, mpi.ErrFinalized)
			}
			if err := w.Finalize(); !errors.Is(err, mpi.ErrFinalized) || mpi.Initialized() {
				t.Errorf("Finalize after the last one: error %v, want %v", err, mpi.ErrFinalized)
			}
		}
	})
}

// Random traffic is compared with a model: receives from one source that are posted one after the
// other each take the earliest message that matches.
func TestRandomTraffic(t *testing.T) {
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		const count, tags, most = 600, 4, 90_000
		me, n := c.Rank(), c.Size()
		type sent struct{ tag, size, id int }
		stream := func(src, dst int) (all []sent) {
			rng := rand.New(rand.NewPCG(uint64(src), uint64(dst)))
			for id := range count / n {
				s := sent{rng.IntN(tags), rng.IntN(200), id}
				switch rng.IntN(10) {
				case 0:
					s.size = rng.IntN(most)
				case 1:
					s.size = rng.IntN(20_000)
				}
				all = append(all, s)
			}
			return all
		}
		rng := rand.New(rand.NewPCG(77, uint64(me)))
		left, todo := make([][]sent, n), make([][]sent, n)
		for r := range n {
			left[r], todo[r] = stream(r, me), stream(me, r)
		}
		var sends []mpi.Request
		type wait struct {
			r    mpi.Request
			buf  []byte
			src  int
			want sent
		}
		var waits []wait
		total := 0
		for total < n*(count/n) || len(waits) > 0 || slices.ContainsFunc(todo, func(x []sent) bool { return len(x) > 0 }) {
			if dst := rng.IntN(n); len(todo[dst]) > 0 {
				s := todo[dst][0]
				todo[dst] = todo[dst][1:]
				sends = append(sends, must(mpi.Isend(c, message(s.size, s.id), dst, s.tag))(t))
				continue
			}
			if src := rng.IntN(n); len(left[src]) > 0 && len(waits) < 50 {
				x := left[src][rng.IntN(min(len(left[src]), 20))]
				tag := x.tag
				if rng.IntN(3) == 0 {
					tag = mpi.AnyTag
				}
				i := slices.IndexFunc(left[src], func(s sent) bool { return tag == mpi.AnyTag || s.tag == tag })
				w := wait{buf: make([]byte, most), src: src, want: left[src][i]}
				left[src] = slices.Delete(left[src], i, i+1)
				w.r = must(mpi.Irecv(c, w.buf, src, tag))(t)
				waits = append(waits, w)
				total++
				continue
			}
			if len(waits) == 0 {
				continue
			}
			// A posted receive may wait for a message that its peer sends only later, so the order
			// is arbitrary.
			i := rng.IntN(len(waits))
			s, done, err := waits[i].r.Test()
			ok(t, err)
			if !done {
				continue
			}
			w := waits[i]
			if s.Source != w.src || s.Tag != w.want.tag || s.Bytes != w.want.size {
				t.Fatalf("got status %+v, want message %+v of rank %d", s, w.want, w.src)
			}
			checkMessage(t, w.buf[:s.Bytes], w.want.id)
			waits = slices.Delete(waits, i, i+1)
		}
		ok(t, mpi.WaitAll(sends, nil))
	})
}
