package mpi_test

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// sizes are message sizes around each limit: a cell's body, lines, eager messages, parts of long
// messages, and lanes.
var sizes = []int{
	0, 1, 8, 39, 40, 41, 63, 64, 65, 448, 449, 1000, 4095, 4096, 4097, 8192, 16128, 16129, 16320, 16383, 16384, 16385, 16448, 32768, 32769,
	48_000, 49_088, 49_152, 65_536, 65_537, 100_000, 1 << 20, 1<<20 + 1,
}

// A ring of blocking sends and receives of every size, in both orders.
func TestSizes(t *testing.T) { forEachSize(t, testSizes) }

func testSizes(t *testing.T, c *mpi.Comm) {
	me, n := c.Rank(), c.Size()
	right, left := (me+1)%n, (me+n-1)%n
	for _, size := range sizes {
		out, in := message(size, me), make([]byte, size+100)
		for _, early := range []bool{false, true} {
			clear(in)
			var r mpi.Request
			if early {
				r = must(mpi.Irecv(c, in, left, size))(t)
				ok(t, c.Barrier()) // the receive is first
			}
			s := must(mpi.Isend(c, out, right, size))(t)
			if !early {
				ok(t, c.Barrier()) // the message, or its announcement, is first
				r = must(mpi.Irecv(c, in, left, size))(t)
			}
			st := must(r.Wait())(t)
			if st != (mpi.Status{Source: left, Tag: size, Count: size, Bytes: size}) {
				t.Fatalf("got status %+v, want %d bytes from rank %d", st, size, left)
			}
			checkMessage(t, in[:size], left)
			for i, v := range in[size:] {
				if v != 0 {
					t.Fatalf("byte %d after a message of %d bytes was written", i, size)
				}
			}
			must(s.Wait())(t)
		}
	}
}

// Long messages with the source, the destination, both or neither in the symmetric heap.
func TestSymmetric(t *testing.T) {
	runWith(t, 2, func(t *testing.T, sw *shmem.World) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		const room = 200_000
		from, to := must(shmem.Calloc[byte](sw, room))(t), must(shmem.Calloc[byte](sw, room))(t)
		for _, n := range []int{100, 16384, 16385, 50_000, room} {
			for kind := range 4 {
				src, dst := make([]byte, n), make([]byte, n)
				if kind&1 != 0 {
					src = from.Local()[room-n:] // up to the end of the object
				}
				if kind&2 != 0 {
					dst = to.Local()[:n]
				}
				clear(dst)
				copy(src, message(n, c.Rank()+kind))
				s := must(mpi.Sendrecv(c, src, 1-c.Rank(), kind, dst, 1-c.Rank(), kind))(t)
				if s.Bytes != n {
					t.Fatalf("received %d of %d bytes", s.Bytes, n)
				}
				checkMessage(t, dst, 1-c.Rank()+kind)
			}
		}
		ok(t, w.Finalize())
	})
}

// Messages of one sender are received in order, whatever their sizes, with and without wildcards.
func TestOrder(t *testing.T) { forEachSize(t, testOrder) }

func testOrder(t *testing.T, c *mpi.Comm) {
	const count = 400
	me, n := c.Rank(), c.Size()
	size := func(i int) int { return sizes[(i*7)%len(sizes)] % 70_000 }
	var sends []mpi.Request
	bufs := make([][]byte, count)
	for i := range count {
		bufs[i] = message(size(i), i)
		for dst := range n {
			sends = append(sends, must(mpi.Isend(c, bufs[i], dst, i%3))(t))
		}
	}
	// Messages with tag 0 are received from each source by name, those with tag 1 from any source,
	// and then the rest in order with any tag.
	next := func(seen []int, src, tag int) int {
		for i := seen[src]; ; i++ {
			if i%3 == tag {
				seen[src] = i + 1
				return i
			}
		}
	}
	seen := make([]int, n)
	in := make([]byte, 70_000)
	for range (count + 2) / 3 {
		for src := range n {
			s := must(mpi.Recv(c, in, src, 0))(t)
			i := next(seen, src, 0)
			if s.Source != src || s.Tag != 0 || s.Bytes != size(i) {
				t.Fatalf("got status %+v, want message %d of %d bytes", s, i, size(i))
			}
			checkMessage(t, in[:s.Bytes], i)
		}
	}
	clear(seen)
	for range n * ((count + 1) / 3) {
		s := must(mpi.Recv(c, in, mpi.AnySource, 1))(t)
		i := next(seen, s.Source, 1)
		if s.Tag != 1 || s.Bytes != size(i) {
			t.Fatalf("got status %+v, want message %d of %d bytes", s, i, size(i))
		}
		checkMessage(t, in[:s.Bytes], i)
	}
	clear(seen)
	for range n * (count / 3) {
		s := must(mpi.Recv(c, in, mpi.AnySource, mpi.AnyTag))(t)
		i := next(seen, s.Source, 2)
		if s.Tag != 2 || s.Bytes != size(i) {
			t.Fatalf("got status %+v, want message %d of %d bytes", s, i, size(i))
		}
		checkMessage(t, in[:s.Bytes], i)
	}
	ok(t, mpi.WaitAll(sends, nil))
	ok(t, c.Barrier())
	if s, done, err := must(mpi.Irecv(c, in, mpi.AnySource, mpi.AnyTag))(t).Test(); done || err != nil {
		t.Errorf("rank %d got one message too many: %+v, %v", me, s, err)
	}
}

// A flood of messages, short ones and announcements, for which no receive is posted yet.
func TestFlood(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		const flood, long = 100_000, 300
		switch c.Rank() {
		case 0:
			for i := range flood {
				ok(t, mpi.Send(c, []int64{int64(i), -int64(i)}, 2, 1))
			}
			ok(t, mpi.Send(c, []int64{1}, 2, 9))
		case 1:
			var all []mpi.Request
			for i := range long {
				all = append(all, must(mpi.Isend(c, message(20_000+i, i), 2, 2))(t))
			}
			ok(t, mpi.Send(c, []int64{1}, 2, 9))
			ok(t, mpi.WaitAll(all, nil))
		case 2:
			word := make([]int64, 2)
			for src := range 2 { // when this message has arrived, so have all before it
				must(mpi.Recv(c, word, src, 9))(t)
			}
			buf := make([]byte, 30_000)
			for i := range long {
				s := must(mpi.Recv(c, buf, 1, mpi.AnyTag))(t)
				checkMessage(t, buf[:s.Bytes], i)
			}
			for i := range flood {
				s := must(mpi.Recv(c, word, 0, 1))(t)
				if s.Count != 2 || word[0] != int64(i) || word[1] != -int64(i) {
					t.Fatalf("message %d has the value %v", i, word)
				}
			}
		}
	})
}

// Windows of messages that are larger than the lane, with both sides sending: a send finds room at
// once, at the second try, or not at all.
func TestWindows(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const rounds, window = 1500, 64
		for _, size := range []int{1024, 4096} {
			buf, all := make([]byte, size), make([]mpi.Request, window)
			for range rounds {
				for i := range all {
					if c.Rank() == 0 {
						all[i] = must(mpi.Isend(c, buf, 1, 1))(t)
					} else {
						all[i] = must(mpi.Irecv(c, buf, 0, 1))(t)
					}
				}
				ok(t, mpi.WaitAll(all, nil))
				if c.Rank() == 0 {
					must(mpi.Recv(c, buf[:0], 1, 2))(t)
				} else {
					ok(t, mpi.Send(c, buf[:0], 0, 2))
				}
			}
		}
	})
}

// All ranks send to all ranks, each blocking, with the receives posted. No rank waits forever.
func TestAllAtOnce(t *testing.T) { forEachSize(t, testAllAtOnce) }

func testAllAtOnce(t *testing.T, c *mpi.Comm) {
	n, me := c.Size(), c.Rank()
	for _, size := range []int{8, 3000, 40_000, 300_000} {
		in, all := make([][]byte, n), []mpi.Request(nil)
		for src := range n {
			in[src] = make([]byte, size)
			all = append(all, must(mpi.Irecv(c, in[src], src, 5))(t))
		}
		for k := range n {
			dst := (me + k) % n
			ok(t, mpi.Send(c, message(size, me*n+dst), dst, 5))
		}
		statuses := make([]mpi.Status, n)
		ok(t, mpi.WaitAll(all, statuses))
		for src := range n {
			if statuses[src].Source != src || statuses[src].Bytes != size {
				t.Errorf("got status %+v, want rank %d and %d bytes", statuses[src], src, size)
			}
			checkMessage(t, in[src], src*n+me)
		}
	}
}

// A rank that waits for one message makes progress for other messages, also in collectives and in
// waits of shmem.
func TestProgressWhileWaiting(t *testing.T) {
	runWith(t, 3, func(t *testing.T, sw *shmem.World) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		flag := must(shmem.Calloc[int64](sw, 1))(t)
		const long = 500_000
		for round, wait := range []func(){
			func() { must(mpi.Recv(c, make([]byte, 1), 1, 2))(t) },
			func() { ok(t, c.Barrier()) },
			func() { ok(t, sw.Barrier()) },
			func() { ok(t, shmem.WaitUntil(sw.Ctx(), flag, shmem.NE, 0)) },
		} {
			in := make([]byte, long)
			switch c.Rank() {
			case 0: // sends and receives a long message while it waits for rank 1
				r := must(mpi.Irecv(c, in, 2, 1))(t)
				s := must(mpi.Isend(c, message(long, round), 2, 3))(t)
				wait()
				must(r.Wait())(t)
				must(s.Wait())(t)
				checkMessage(t, in, round+100)
			case 1: // does so only after rank 2 has its message
				must(mpi.Recv(c, in[:1], 2, 4))(t)
				switch round {
				case 0:
					ok(t, mpi.Send(c, in[:1], 0, 2))
				case 1:
					ok(t, c.Barrier())
				case 2:
					ok(t, sw.Barrier())
				case 3:
					ok(t, shmem.P(sw.Ctx(), flag, 1, 0))
				}
			case 2:
				ok(t, mpi.Send(c, message(long, round+100), 0, 1))
				must(mpi.Recv(c, in, 0, 3))(t)
				checkMessage(t, in, round)
				ok(t, mpi.Send(c, in[:1], 1, 4))
				switch round {
				case 1:
					ok(t, c.Barrier())
				case 2:
					ok(t, sw.Barrier())
				}
			}
		}
		ok(t, w.Finalize())
	})
}

// The same with lanes as small as they can be.
func TestSmallLanes(t *testing.T) {
	for name, body := range map[string]func(t *testing.T, c *mpi.Comm){"ring": testSizes, "order": testOrder, "all": testAllAtOnce} {
		t.Run(name, func(t *testing.T) {
			runBare(t, 3, func(t *testing.T) {
				mpi.SmallLanes()
				w := must(mpi.Init())(t)
				body(t, w.Comm())
				if !t.Failed() {
					ok(t, w.Finalize())
				}
			})
		})
	}
}

// Several goroutines of each rank exchange messages at the same time, each with its own tag.
func TestGoroutines(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const talkers, rounds = 6, 500
		done := make(chan error, talkers)
		for tag := range talkers {
			go func() {
				done <- func() error {
					out, in := []int64{0}, []int64{0}
					for i := range int64(rounds) {
						out[0] = i*talkers + int64(tag)
						if c.Rank() == 0 {
							if err := mpi.Send(c, out, 1, tag); err != nil {
								return err
							}
						}
						if _, err := mpi.Recv(c, in, 1-c.Rank(), tag); err != nil {
							return err
						}
						if in[0] != out[0] {
							return fmt.Errorf("goroutine %d, round %d: got %d, want %d", tag, i, in[0], out[0])
						}
						if c.Rank() == 1 {
							if err := mpi.Send(c, out, 0, tag); err != nil {
								return err
							}
						}
					}
					return nil
				}()
			}()
		}
		for range talkers {
			ok(t, <-done)
		}
	})
}
