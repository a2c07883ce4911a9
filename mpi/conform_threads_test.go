package mpi_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/group"
)

// inGoroutines runs body in some goroutines, and reports the first error of each.
func inGoroutines(t *testing.T, many int, body func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			if err := body(i); err != nil {
				t.Errorf("goroutine %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// Goroutines take messages of anyone, with matched probes, plain receives and receives from any source at a time: each message is received once, whole.
func TestGoroutinesReceiveAnything(t *testing.T) {
	const many, each = 4, 40
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		sizeOf := func(k int) int { return conformSizes[k%(len(conformSizes)-1)] + 8 }
		if me > 0 {
			inGoroutines(t, many, func(g int) error {
				for k := range each {
					buf := message(sizeOf(k), me*100+k)
					if err := mpi.Send(c, buf, 0, g*each+k); err != nil {
						return err
					}
				}
				return nil
			})
			return
		}
		var mu sync.Mutex
		seen := map[[2]int]bool{}
		total := many * each * (n - 1)
		inGoroutines(t, many, func(g int) error {
			for range total / many {
				var s mpi.Status
				var err error
				buf := make([]byte, 80_000)
				switch g % 3 {
				case 0:
					var m mpi.Message
					if m, _, err = c.Mprobe(mpi.AnySource, mpi.AnyTag); err == nil {
						s, err = mpi.Mrecv(m, buf)
					}
				case 1:
					s, err = mpi.Recv(c, buf, mpi.AnySource, mpi.AnyTag)
				case 2:
					for found := false; !found && err == nil; {
						var m mpi.Message
						if m, s, found, err = c.Improbe(mpi.AnySource, mpi.AnyTag); found {
							s, err = mpi.Mrecv(m, buf[:s.Bytes])
						}
					}
				}
				if err != nil {
					return err
				}
				k := s.Tag % each
				if s.Bytes != sizeOf(k) || !slices.Equal(buf[:s.Bytes], message(s.Bytes, s.Source*100+k)) {
					t.Errorf("message %+v is wrong", s)
				}
				mu.Lock()
				if at := [2]int{s.Source, s.Tag}; seen[at] {
					t.Errorf("message %+v was received twice", s)
				} else {
					seen[at] = true
				}
				mu.Unlock()
			}
			return nil
		})
		if len(seen) != total {
			t.Errorf("%d messages, want %d", len(seen), total)
		}
	}, hangTimeout)
}

// Each goroutine has its own order of collectives on its communicator, other ranks' goroutines run in another order, and none waits for another.
func TestGoroutinesWithCollectives(t *testing.T) {
	const many, rounds = 4, 15
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		comms := make([]*mpi.Comm, many)
		for i := range comms {
			comms[i] = must(c.Dup())(t)
		}
		inGoroutines(t, many, func(i int) error {
			d := comms[(i+me)%many]
			mark := (i + me) % many
			for round := range rounds {
				sum, pre, all := []int{0}, []int{0}, make([]int, n)
				r, err := mpi.Iallreduce(d, pre, []int{mark * round}, mpi.Max)
				if err != nil {
					return err
				}
				if err := mpi.Allreduce(d, sum, []int{mark + me}, mpi.Sum); err != nil {
					return err
				}
				if err := mpi.Allgather(d, all, []int{mark*10 + me}); err != nil {
					return err
				}
				if _, err := r.Wait(); err != nil {
					return err
				}
				if sum[0] != n*mark+n*(n-1)/2 || pre[0] != mark*round || all[n-1] != mark*10+n-1 {
					t.Errorf("communicator %d, round %d: %v, %v, %v", mark, round, sum, pre, all)
				}
			}
			return nil
		})
		for _, d := range comms {
			ok(t, d.Free())
		}
	}, hangTimeout)
}

// Goroutines make communicators at a time by all ways, each of its own communicator, and by CreateGroup of one.
func TestGoroutinesMakeCommunicators(t *testing.T) {
	const many, rounds = 4, 6
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		parents := make([]*mpi.Comm, many)
		for i := range parents {
			parents[i] = must(c.Dup())(t)
		}
		half := must(c.Group().RangeIncl(group.Range{First: me % 2, Last: n - 1, Stride: 2}))(t)
		inGoroutines(t, many, func(i int) error {
			i = (i + me) % many // another order at each rank
			parent := parents[i]
			for round := range rounds {
				made := make([]*mpi.Comm, 5)
				var r mpi.Request
				var err error
				if made[0], r, err = parent.Idup(); err != nil {
					return err
				}
				for k, f := range []func() (*mpi.Comm, error){
					parent.Dup,
					func() (*mpi.Comm, error) { return parent.Split(me/2, -me) },
					func() (*mpi.Comm, error) { return c.CreateGroup(half, i) },
					func() (*mpi.Comm, error) { return parent.Create(half) },
				} {
					if made[k+1], err = f(); err != nil {
						return err
					}
				}
				if _, err := r.Wait(); err != nil {
					return err
				}
				for k, d := range made {
					sum := []int{0}
					if err := mpi.Allreduce(d, sum, []int{100*i + k}, mpi.Sum); err != nil {
						return err
					}
					if sum[0] != d.Size()*(100*i+k) || d.Size() != []int{n, n, n / 2, n / 2, n / 2}[k] {
						t.Errorf("goroutine %d, round %d, communicator %d of %d: %d", i, round, k, d.Size(), sum[0])
					}
					if err := d.Free(); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for _, d := range parents {
			ok(t, d.Free())
		}
	}, hangTimeout)
}

// Goroutines send to their own process and to others in all modes, cancel receives, and use persistent operations, at a time.
func TestGoroutinesInAllModes(t *testing.T) {
	const many, rounds = 6, 20
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		me := c.Rank()
		inGoroutines(t, many, func(i int) error {
			peer := (me + i) % 2 // itself, or the other rank
			size := conformSizes[i]
			in, out := make([]byte, size), message(size, i)
			p, err := mpi.SendInit(c, out, peer, i)
			if err != nil {
				return err
			}
			q, err := mpi.RecvInit(c, in, peer, i)
			if err != nil {
				return err
			}
			for round := range rounds {
				never, err := mpi.Irecv(c, make([]byte, 1), mpi.AnySource, 1000+i)
				if err != nil {
					return err
				}
				clear(in)
				if err := mpi.Start(q); err != nil {
					return err
				}
				var r mpi.Request
				switch round % 5 {
				case 0:
					if err = mpi.Start(p); err == nil {
						r = p.Request()
					}
				case 1:
					err = mpi.Bsend(c, out, peer, i)
				case 2:
					r, err = mpi.Issend(c, out, peer, i)
				case 3:
					err = mpi.Ssend(c, out, peer, i)
				case 4:
					r, err = mpi.Isend(c, out, peer, i)
				}
				if err != nil {
					return err
				}
				if err := mpi.WaitAll([]mpi.Request{r, q.Request()}, nil); err != nil {
					return err
				}
				if !slices.Equal(in, out) {
					t.Errorf("goroutine %d, round %d: the message is wrong", i, round)
				}
				if err := never.Cancel(); err != nil {
					return err
				}
				if _, err := never.Wait(); err == nil {
					t.Error("a receive that was canceled has a message")
				}
			}
			return nil
		})
	}, hangTimeout)
}
