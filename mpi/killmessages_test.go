package mpi_test

import (
	"context"
	"runtime"
	"slices"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/obj"
)

// killTag is the tag of all messages of TestKillsInCalls.
const killTag = 3

// ring returns the step of a call that sends to the next rank, and of one that receives from the previous rank. Both may wait.
func (k *killRound) ring(send, recv func() error) func(i int) error {
	return func(i int) error {
		put(k.out, k.me, i, 0)
		first, second := recv, send
		if k.me == 0 {
			first, second = send, recv
		}
		if err := first(); err != nil {
			return err
		}
		if err := second(); err != nil {
			return err
		}
		return wrong(k.in, k.prev, k.prev+1, i, 0)
	}
}

// pass is ring for a send that does not wait for its receive: all ranks send first.
func (k *killRound) pass(send func() (mpi.Request, error), recv func() error) func(i int) error {
	return func(i int) error {
		put(k.out, k.me, i, 0)
		q, err := k.track(send())
		if err != nil {
			return err
		}
		if err := recv(); err != nil {
			return err
		}
		if _, err := q.Wait(); err != nil {
			return err
		}
		k.left = nil
		return wrong(k.in, k.prev, k.prev+1, i, 0)
	}
}

// track notes a request that must end whatever happens.
func (k *killRound) track(q mpi.Request, err error) (mpi.Request, error) {
	if err == nil {
		k.left = append(k.left, q)
	}
	return q, err
}

// recv receives from the previous rank.
func (k *killRound) recv() error { return errOf(mpi.Recv(k.c, k.in, k.prev, killTag)) }

// isend sends to the next rank.
func (k *killRound) isend() (mpi.Request, error) { return mpi.Isend(k.c, k.out, k.next, killTag) }

// simpleCall returns a call of the table whose begin cannot fail.
func simpleCall(name string, step func(k *killRound) func(i int) error) killCall {
	return killCall{name: name, begin: func(k *killRound) (func(int) error, error) { return step(k), nil }}
}

// killMessages returns the calls that send and receive.
func killMessages() []killCall {
	all := []killCall{
		simpleCall("Send", func(k *killRound) func(int) error {
			return k.ring(func() error { return mpi.Send(k.c, k.out, k.next, killTag) }, k.recv)
		}),
		simpleCall("Ssend", func(k *killRound) func(int) error {
			return k.ring(func() error { return mpi.Ssend(k.c, k.out, k.next, killTag) }, k.recv)
		}),
		simpleCall("Bsend", func(k *killRound) func(int) error {
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if err := mpi.Bsend(k.c, k.out, k.next, killTag); err != nil {
					return err
				}
				if err := k.recv(); err != nil {
					return err
				}
				return wrong(k.in, k.prev, k.prev+1, i, 0)
			}
		}),
		simpleCall("Isend", func(k *killRound) func(int) error { return k.pass(k.isend, k.recv) }),
		simpleCall("Issend", func(k *killRound) func(int) error {
			return k.pass(func() (mpi.Request, error) { return mpi.Issend(k.c, k.out, k.next, killTag) }, k.recv)
		}),
		simpleCall("Rsend", killRsend),
		simpleCall("Recv With", func(k *killRound) func(int) error {
			ctx, cancel := context.WithCancel(k.t.Context())
			k.t.Cleanup(cancel)
			return k.pass(k.isend, func() error { return errOf(mpi.Recv(k.c.With(ctx), k.in, k.prev, killTag)) })
		}),
		simpleCall("Send With", func(k *killRound) func(int) error {
			ctx, cancel := context.WithCancel(k.t.Context())
			k.t.Cleanup(cancel)
			return k.ring(func() error { return mpi.Send(k.c.With(ctx), k.out, k.next, killTag) }, k.recv)
		}),
		simpleCall("Irecv", func(k *killRound) func(int) error {
			return k.pass(k.isend, func() error {
				q, err := k.track(mpi.Irecv(k.c, k.in, k.prev, mpi.AnyTag))
				if err == nil {
					_, err = q.Wait()
				}
				return err
			})
		}),
		simpleCall("Recv AnySource", func(k *killRound) func(int) error {
			return k.serve(func() (mpi.Status, error) { return mpi.Recv(k.c, k.in, mpi.AnySource, killTag) })
		}),
		simpleCall("Irecv AnySource", func(k *killRound) func(int) error {
			return k.serve(func() (mpi.Status, error) {
				q, err := k.track(mpi.Irecv(k.c, k.in, mpi.AnySource, killTag))
				if err != nil {
					return mpi.Status{}, err
				}
				s, err := q.Wait()
				if err == nil {
					k.left = nil
				}
				return s, err
			})
		}),
		simpleCall("Sendrecv", func(k *killRound) func(int) error {
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if _, err := mpi.Sendrecv(k.c, k.out, k.next, killTag, k.in, k.prev, killTag); err != nil {
					return err
				}
				return wrong(k.in, k.prev, k.prev+1, i, 0)
			}
		}),
		simpleCall("SendrecvReplace", func(k *killRound) func(int) error {
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if _, err := mpi.SendrecvReplace(k.c, k.out, k.next, killTag, k.prev, killTag); err != nil {
					return err
				}
				return wrong(k.out, k.prev, k.prev+1, i, 0)
			}
		}),
		simpleCall("Isendrecv", func(k *killRound) func(int) error {
			return func(i int) error {
				put(k.out, k.me, i, 0)
				q, err := k.track(mpi.Isendrecv(k.c, k.out, k.next, killTag, k.in, k.prev, killTag))
				for done := false; err == nil && !done; {
					_, done, err = q.Status()
				}
				if err == nil {
					_, err = q.Wait()
				}
				if err != nil {
					return err
				}
				k.left = nil
				return wrong(k.in, k.prev, k.prev+1, i, 0)
			}
		}),
	}
	return slices.Concat(all, killProbes(), killOthers())
}

// killRsend sends when the receive waits.
func killRsend(k *killRound) func(i int) error {
	word := make([]byte, 1)
	return func(i int) error {
		put(k.out, k.me, i, 0)
		q, err := k.track(mpi.Irecv(k.c, k.in, k.prev, killTag))
		if err == nil {
			err = mpi.Send(k.c, word, k.prev, killTag+1)
		}
		if err == nil {
			_, err = mpi.Recv(k.c, word, k.next, killTag+1)
		}
		if err == nil {
			err = mpi.Rsend(k.c, k.out, k.next, killTag)
		}
		if err == nil {
			_, err = q.Wait()
		}
		if err != nil {
			return err
		}
		k.left = nil
		return wrong(k.in, k.prev, k.prev+1, i, 0)
	}
}

// serve returns the step of a call by which rank 0 receives from all others. It answers them.
func (k *killRound) serve(recv func() (mpi.Status, error)) func(i int) error {
	return func(i int) error {
		put(k.out, k.me, i, 0)
		if k.me != 0 {
			if err := mpi.Send(k.c, k.out, 0, killTag); err != nil {
				return err
			}
			if _, err := mpi.Recv(k.c, k.in, 0, killTag); err != nil {
				return err
			}
			return wrong(k.in, 0, 1, i, 0)
		}
		for range k.n - 1 {
			s, err := recv()
			if err == nil {
				err = wrong(k.in, s.Source, s.Source+1, i, 0)
			}
			if err != nil {
				return err
			}
		}
		for rank := 1; rank < k.n; rank++ {
			if err := mpi.Send(k.c, k.out, rank, killTag); err != nil {
				return err
			}
		}
		return nil
	}
}

// killProbes returns the calls that probe.
func killProbes() []killCall {
	return []killCall{
		simpleCall("Probe", func(k *killRound) func(int) error {
			return k.pass(k.isend, func() error {
				if _, err := k.c.Probe(k.prev, killTag); err != nil {
					return err
				}
				return k.recv()
			})
		}),
		simpleCall("Iprobe", func(k *killRound) func(int) error {
			return k.pass(k.isend, func() error {
				for {
					_, found, err := k.c.Iprobe(k.prev, mpi.AnyTag)
					if err != nil {
						return err
					}
					if found {
						return k.recv()
					}
					runtime.Gosched()
				}
			})
		}),
		simpleCall("Mprobe", func(k *killRound) func(int) error {
			return k.pass(k.isend, func() error {
				m, _, err := k.c.Mprobe(k.prev, killTag)
				if err == nil {
					_, err = mpi.Mrecv(m, k.in)
				}
				return err
			})
		}),
		simpleCall("Mprobe AnySource", func(k *killRound) func(int) error {
			return k.serve(func() (mpi.Status, error) {
				m, _, err := k.c.Mprobe(mpi.AnySource, killTag)
				if err != nil {
					return mpi.Status{}, err
				}
				return mpi.Mrecv(m, k.in)
			})
		}),
		simpleCall("Improbe", func(k *killRound) func(int) error {
			return k.pass(k.isend, func() error {
				for {
					m, _, found, err := k.c.Improbe(k.prev, killTag)
					if err != nil {
						return err
					}
					if !found {
						runtime.Gosched()
						continue
					}
					q, err := k.track(mpi.Imrecv(m, k.in))
					if err == nil {
						_, err = q.Wait()
					}
					return err
				}
			})
		}),
	}
}

// killOthers returns the calls for layouts, values and persistent messages.
func killOthers() []killCall {
	return []killCall{
		simpleCall("SendLayout", func(k *killRound) func(int) error {
			from, to, l := make([]uint64, 2*k.words), make([]uint64, 2*k.words), mpi.Vector(k.words, 1, 2)
			move := k.ring(func() error {
				for j, v := range k.out {
					from[2*j] = v
				}
				return mpi.SendLayout(k.c, from, l, k.next, killTag)
			}, func() error {
				_, err := mpi.RecvLayout(k.c, to, l, k.prev, killTag)
				for j := range k.in {
					k.in[j] = to[2*j]
				}
				return err
			})
			return move
		}),
		simpleCall("IsendLayout", func(k *killRound) func(int) error {
			from, to, l := make([]uint64, 2*k.words), make([]uint64, 2*k.words), mpi.Vector(k.words, 1, 2)
			return k.pass(func() (mpi.Request, error) {
				for j, v := range k.out {
					from[2*j] = v
				}
				return mpi.IsendLayout(k.c, from, l, k.next, killTag)
			}, func() error {
				q, err := k.track(mpi.IrecvLayout(k.c, to, l, k.prev, killTag))
				if err == nil {
					_, err = q.Wait()
				}
				for j := range k.in {
					k.in[j] = to[2*j]
				}
				return err
			})
		}),
		simpleCall("obj.Send", func(k *killRound) func(int) error {
			return k.ring(func() error { return obj.Send(k.c, map[string][]uint64{"x": k.out}, k.next, killTag) }, func() error {
				var got map[string][]uint64
				_, err := obj.Recv(k.c, &got, k.prev, killTag)
				copy(k.in, got["x"])
				return err
			})
		}),
		{name: "SendInit", begin: func(k *killRound) (func(int) error, error) {
			ps := make([]mpi.Persistent, 2)
			var err error
			if ps[0], err = mpi.RecvInit(k.c, k.in, k.prev, killTag); err != nil {
				return nil, err
			}
			if ps[1], err = mpi.SendInit(k.c, k.out, k.next, killTag); err != nil {
				return nil, err
			}
			return func(i int) error {
				put(k.out, k.me, i, 0)
				k.left = nil
				if err := mpi.Start(ps...); err != nil {
					return err
				}
				k.left = []mpi.Request{ps[0].Request(), ps[1].Request()}
				for _, p := range ps {
					if _, err := p.Wait(); err != nil {
						return err
					}
				}
				return wrong(k.in, k.prev, k.prev+1, i, 0)
			}, nil
		}},
	}
}

// killRequests returns the calls that wait for several requests: of all messages between all ranks.
func killRequests() (all []killCall) {
	for _, x := range []struct {
		name string
		wait func(all []mpi.Request) error
	}{
		{"WaitAll", func(all []mpi.Request) error { return mpi.WaitAll(all, nil) }},
		{"WaitAny", func(all []mpi.Request) (err error) {
			for i := 0; i >= 0 && err == nil; {
				i, _, err = mpi.WaitAny(all)
			}
			return err
		}},
		{"WaitSome", func(all []mpi.Request) error { return someEnd(all, mpi.WaitSome) }},
		{"TestSome", func(all []mpi.Request) error { return someEnd(all, mpi.TestSome) }},
		{"TestAll", func(all []mpi.Request) error {
			for {
				if done, err := mpi.TestAll(all, nil); done || err != nil {
					return err
				}
				runtime.Gosched()
			}
		}},
		{"TestAny", func(all []mpi.Request) error {
			for {
				if i, _, done, err := mpi.TestAny(all); err != nil || done && i < 0 {
					return err
				}
				runtime.Gosched()
			}
		}},
		{"Test", func(all []mpi.Request) error {
			for _, q := range all {
				for {
					_, done, err := q.Test()
					if err != nil {
						return err
					}
					if done {
						break
					}
					runtime.Gosched()
				}
			}
			return nil
		}},
		{"Completed", func(all []mpi.Request) error {
			for _, o := range mpi.Completed(all) {
				if o.Err != nil {
					return o.Err
				}
			}
			return nil
		}},
	} {
		all = append(all, simpleCall(x.name, func(k *killRound) func(int) error { return k.swap(x.wait) }))
	}
	return all
}

// someEnd waits for all requests by WaitSome or TestSome. Sends that were complete at once are in no outcome.
func someEnd(all []mpi.Request, some func([]mpi.Request) ([]mpi.Outcome, error)) error {
	for {
		ended, err := some(all)
		if err != nil {
			return err
		}
		for _, o := range ended {
			if o.Err != nil {
				return o.Err
			}
		}
		if i, _, done, err := mpi.TestAny(all); err != nil || done && i < 0 {
			return err
		}
		runtime.Gosched()
	}
}

// swap returns a step in which each rank sends to each other one.
func (k *killRound) swap(wait func(all []mpi.Request) error) func(i int) error {
	in := make([][]uint64, k.n)
	for rank := range in {
		in[rank] = make([]uint64, k.words)
	}
	return func(i int) error {
		put(k.out, k.me, i, 0)
		k.left = nil
		for rank := range k.n {
			if rank == k.me {
				continue
			}
			if _, err := k.track(mpi.Irecv(k.c, in[rank], rank, killTag)); err != nil {
				return err
			}
			if _, err := k.track(mpi.Isend(k.c, k.out, rank, killTag)); err != nil {
				return err
			}
		}
		if err := wait(slices.Clone(k.left)); err != nil {
			return err
		}
		for rank := range k.n {
			if rank == k.me {
				continue
			}
			if err := wrong(in[rank], rank, rank+1, i, 0); err != nil {
				return err
			}
		}
		return nil
	}
}
