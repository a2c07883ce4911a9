package mpi_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// Counters count, and an interceptor sees all calls with their arguments and errors, and none any more once it is taken away.
func TestCountersAndIntercept(t *testing.T) {
	runBare(t, 2, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		before := w.Counters()
		const messages = 10
		other := 1 - c.Rank()
		x := []int{1}
		if c.Rank() == 0 {
			for range messages {
				ok(t, mpi.Send(c, x, 1, 1))
			}
			ok(t, mpi.Send(c, x, 1, 2))
		} else {
			must(mpi.Recv(c, x, 0, 2))(t)
			n := w.Counters()
			if n.KeptBytes == 0 || n.CellsReceived < messages {
				t.Errorf("%+v, and before %+v", n, before)
			}
			for range messages {
				must(mpi.Recv(c, x, 0, 1))(t)
			}
			if n := w.Counters(); n.KeptBytes != 0 {
				t.Errorf("%+v after all receives", n)
			}
		}
		d := must(c.Dup())(t)
		if n := w.Counters(); n.Communicators != before.Communicators+1 {
			t.Errorf("%d communicators, and before Dup %d", n.Communicators, before.Communicators)
		}
		var mu sync.Mutex
		var ops []string
		mpi.Intercept(func(call mpi.Call) func(error) {
			return func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if call.Comm != d || err != nil && call.Peer != 9 || call.Op == "Send" && call.Peer != 9 && (call.Peer != other || call.Tag != 3 || call.Bytes != 8) {
					t.Errorf("call %+v, error %v", call, err)
				}
				ops = append(ops, call.Op)
			}
		})
		ok(t, mpi.Send(d, x, other, 3))
		must(mpi.Recv(d, x, other, 3))(t)
		if mpi.Send(d, x, 9, 3) == nil {
			t.Error("Send to rank 9 has succeeded")
		}
		q := must(mpi.Irecv(d, x, other, 4))(t)
		must(must(mpi.Isend(d, x, other, 4))(t).Wait())(t)
		must(q.Wait())(t)
		ok(t, d.Barrier())
		ok(t, mpi.Bcast(d, x, 0))
		ok(t, mpi.Allreduce(d, x, x, mpi.Sum))
		ok(t, mpi.Gather(d, make([]int, 2), x, 0))
		must(must(d.Ibarrier())(t).Wait())(t)
		for range 2 {
			ok(t, mpi.Bsend(d, x, other, 3))
		}
		m, _, err := d.Mprobe(other, 3)
		ok(t, err)
		must(mpi.Mrecv(m, x))(t)
		m, _, err = d.Mprobe(other, 3)
		ok(t, err)
		must(must(mpi.Imrecv(m, x))(t).Wait())(t)
		out, in := must(mpi.SendInit(d, x, other, 3))(t), must(mpi.RecvInit(d, x, other, 3))(t)
		for range 2 {
			ok(t, mpi.Start(out, in))
			must(out.Wait())(t)
			must(in.Wait())(t)
		}
		b := must(d.BarrierInit())(t)
		ok(t, mpi.Start(b))
		must(b.Wait())(t)
		must(must(mpi.Isendrecv(d, x, other, 3, make([]int, 1), other, 3))(t).Wait())(t)
		mpi.Intercept(nil)
		ok(t, d.Barrier())
		want := []string{"Send", "Recv", "Send", "Irecv", "Isend", "Barrier", "Bcast", "Allreduce", "Gather", "Ibarrier", "Bsend", "Bsend", "Mrecv", "Imrecv"}
		starts := []string{"Start of SendInit", "Start of RecvInit"}
		want = slices.Concat(want, starts, starts, []string{"Start of BarrierInit", "Isendrecv"})
		if !slices.Equal(ops, want) {
			t.Errorf("calls %v, want %v", ops, want)
		}
		ok(t, d.Free())
		ok(t, w.Finalize())
	})
}
