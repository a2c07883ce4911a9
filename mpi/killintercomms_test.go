package mpi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/mpi"
)

// killSides is an Intercomm of the lower ranks and the upper ranks of a round.
type killSides struct {
	x     *mpi.Intercomm
	local *mpi.Comm
	half  int // ranks of the lower side
	side  int // of this rank: 0 or 1
	first int // rank in the round of the other side's first one
	n     int // ranks of the other side
	as    int // the root argument of collectives whose root is rank 0 of the lower side
}

// split makes the communicator of this rank's side.
func (k *killRound) split() (s killSides, err error) {
	s = killSides{half: (k.n + 1) / 2}
	s.first, s.n = s.half, k.n-s.half
	switch {
	case k.me >= s.half:
		s.side, s.first, s.n = 1, 0, s.half
	case k.me == 0:
		s.as = mpi.Root
	default:
		s.as = mpi.ProcNull
	}
	if s.local, err = k.c.Split(s.side, 0); err == nil {
		k.keep(s.local)
	}
	return s, err
}

// connect makes an Intercomm of both sides.
func (k *killRound) connect(s killSides) (*mpi.Intercomm, error) {
	return mpi.NewIntercomm(s.local, 0, k.c, []int{s.half, 0}[s.side], killTag)
}

// inter returns a call on an Intercomm. The ranks in its errors are those of the round, or of Remote.
func inter(name string, remote bool, step func(k *killRound, s killSides) func(i int) error) killCall {
	return killCall{name: name, begin: func(k *killRound) (func(int) error, error) {
		s, err := k.split()
		if err == nil {
			s.x, err = k.connect(s)
		}
		if err != nil {
			return nil, err
		}
		if k.keep(s.x); remote {
			k.on = s.x.Remote()
		}
		return step(k, s), nil
	}}
}

// wrongSide returns an error unless buf has the data of all ranks of the other side, one after the other.
func (s killSides) wrongSide(k *killRound, buf []uint64, i, off int) error {
	for rank := range s.n {
		if err := wrong(buf[rank*k.words:][:k.words], s.first+rank, s.first+rank+1, i, off); err != nil {
			return err
		}
	}
	return nil
}

// killInterMoves returns the messages and collectives of an Intercomm.
func killInterMoves() []killCall {
	return []killCall{
		inter("Intercomm messages", true, func(k *killRound, s killSides) func(int) error {
			in := make([]uint64, s.n*k.words)
			return func(i int) error {
				put(k.out, k.me, i, 0)
				k.left = nil
				for rank := range s.n {
					if _, err := k.track(mpi.Irecv(s.x.Remote(), in[rank*k.words:][:k.words], rank, killTag)); err != nil {
						return err
					}
					if _, err := k.track(mpi.Isend(s.x.Remote(), k.out, rank, killTag)); err != nil {
						return err
					}
				}
				if err := mpi.WaitAll(k.left, nil); err != nil {
					return err
				}
				return s.wrongSide(k, in, i, 0)
			}
		}),
		inter("Intercomm.Barrier", false, func(_ *killRound, s killSides) func(int) error {
			return func(int) error { return s.x.Barrier() }
		}),
		inter("InterBcast", false, func(k *killRound, s killSides) func(int) error {
			return func(i int) error {
				put(k.in, k.me, i, 0)
				if err := mpi.InterBcast(s.x, k.in, s.as); err != nil || s.side == 0 {
					return err
				}
				return wrong(k.in, 0, 1, i, 0)
			}
		}),
		inter("InterReduce", false, func(k *killRound, s killSides) func(int) error {
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if err := mpi.InterReduce(s.x, k.in, k.out, mpi.Sum, s.as); err != nil || s.as != mpi.Root {
					return err
				}
				return wrong(k.in, s.first, s.first+s.n, i, 0)
			}
		}),
		inter("InterAllreduce", false, func(k *killRound, s killSides) func(int) error {
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if err := mpi.InterAllreduce(s.x, k.in, k.out, mpi.Sum); err != nil {
					return err
				}
				return wrong(k.in, s.first, s.first+s.n, i, 0)
			}
		}),
		inter("InterAllgather", false, func(k *killRound, s killSides) func(int) error {
			in := make([]uint64, s.n*k.words)
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if err := mpi.InterAllgather(s.x, in, k.out); err != nil {
					return err
				}
				return s.wrongSide(k, in, i, 0)
			}
		}),
		inter("InterAlltoall", false, func(k *killRound, s killSides) func(int) error {
			in, out := make([]uint64, s.n*k.words), make([]uint64, s.n*k.words)
			return func(i int) error {
				put(out, k.me, i, 0)
				if err := mpi.InterAlltoall(s.x, in, out); err != nil {
					return err
				}
				return s.wrongSide(k, in, i, s.x.Remote().Rank()*k.words)
			}
		}),
	}
}

// killInterParts returns the collectives of an Intercomm in which ranks give or get parts, in the form that waits and in the one that does not.
func killInterParts() []killCall {
	return []killCall{
		inter("InterGather", false, func(k *killRound, s killSides) func(int) error {
			in := make([]uint64, s.n*k.words)
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if err := k.inter(i, func() error { return mpi.InterGather(s.x, in, k.out, s.as) },
					func() (mpi.Request, error) { return mpi.IinterGather(s.x, in, k.out, s.as) }); err != nil || s.as != mpi.Root {
					return err
				}
				return s.wrongSide(k, in, i, 0)
			}
		}),
		inter("InterScatter", false, func(k *killRound, s killSides) func(int) error {
			out := make([]uint64, s.n*k.words)
			return func(i int) error {
				put(out, k.me, i, 0)
				if err := k.inter(i, func() error { return mpi.InterScatter(s.x, k.in, out, s.as) },
					func() (mpi.Request, error) { return mpi.IinterScatter(s.x, k.in, out, s.as) }); err != nil || s.side == 0 {
					return err
				}
				return wrong(k.in, 0, 1, i, s.x.Remote().Rank()*k.words)
			}
		}),
		inter("InterAllgatherv", false, func(k *killRound, s killSides) func(int) error {
			in := make([]uint64, s.n*k.words)
			v := mpi.Counts{Counts: slices.Repeat([]int{k.words}, s.n)}
			return func(i int) error {
				put(k.out, k.me, i, 0)
				if err := k.inter(i, func() error { return mpi.InterAllgatherv(s.x, in, k.out, v) },
					func() (mpi.Request, error) { return mpi.IinterAllgatherv(s.x, in, k.out, v) }); err != nil {
					return err
				}
				return s.wrongSide(k, in, i, 0)
			}
		}),
		inter("InterReduceScatter", false, func(k *killRound, s killSides) func(int) error {
			size, me := s.local.Size(), s.local.Rank()
			counts := equal(size, k.words)
			if k.plan.step%2 == 0 {
				counts = skewed(size, k.words)
			}
			at := 0
			for _, before := range counts[:me] {
				at += before
			}
			return func(i int) error {
				put(k.out, k.me, i, 0)
				dst := k.in[:counts[me]]
				if err := k.inter(i, func() error { return mpi.InterReduceScatter(s.x, dst, k.out, counts, mpi.Sum) },
					func() (mpi.Request, error) { return mpi.IinterReduceScatter(s.x, dst, k.out, counts, mpi.Sum) }); err != nil {
					return err
				}
				return wrong(dst, s.first, s.first+s.n, i, at)
			}
		}),
	}
}

// inter makes a collective of an Intercomm: in even steps in the form that waits.
func (k *killRound) inter(i int, wait func() error, begin func() (mpi.Request, error)) error {
	if i%2 == 0 {
		return wait()
	}
	q, err := k.track(begin())
	if err == nil {
		_, err = q.Wait()
	}
	if err == nil {
		k.left = nil
	}
	return err
}

// interMaker returns a call that makes an Intercomm of another one, meets in it and frees it.
func interMaker(name string, create func(k *killRound, s killSides, i int) (*mpi.Intercomm, error)) killCall {
	return inter(name, false, func(k *killRound, s killSides) func(int) error {
		on := k.on
		return func(i int) error {
			k.on = on
			x, err := create(k, s, i)
			if err != nil || x == nil {
				return err
			}
			k.on = nil // the ranks of an error are those of the new one
			if err := x.Barrier(); err != nil {
				_ = x.Free()
				return err
			}
			return x.Free()
		}
	})
}

// killPorts returns the call by which both sides meet at a port.
func killPorts() killCall {
	return killCall{name: "Accept and Connect", gives: true, begin: func(k *killRound) (func(int) error, error) {
		s, err := k.split()
		if err != nil {
			return nil, err
		}
		name := make([]byte, 100)
		if k.me == 0 {
			opened, err := mpi.WorldOf(k.c).OpenPort()
			if err != nil {
				return nil, err
			}
			copy(name, opened)
		}
		if err := mpi.Bcast(k.c, name, 0); err != nil {
			return nil, err
		}
		meet := mpi.Accept
		if s.side == 1 {
			meet = mpi.Connect
		}
		k.on = nil // the ranks of an error are those of one of several communicators
		on := s.local.With(k.untilRevoked())
		return func(int) error {
			x, err := meet(on, string(bytes.TrimRight(name, "\x00")), 0)
			switch {
			case errors.Is(err, context.Canceled):
				return fmt.Errorf("%w: %w", mpi.ErrRevoked, err)
			case err != nil:
				return err
			}
			return x.With(context.Background()).Free()
		}, nil
	}}
}

// untilRevoked returns a context that ends when the communicator of the round is revoked, or has a dead rank: a side may wait at a port for one that comes no more.
func (k *killRound) untilRevoked() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	c := k.c
	go func() {
		defer cancel()
		for !c.Revoked() && len(c.Failed()) == 0 {
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

// killIntercomms returns the calls on an Intercomm, and those that make one.
func killIntercomms() []killCall {
	all := append(slices.Concat(killInterMoves(), killInterParts()),
		interMaker("Intercomm.Dup", func(_ *killRound, s killSides, _ int) (*mpi.Intercomm, error) { return s.x.Dup() }),
		interMaker("Intercomm.Split", func(k *killRound, s killSides, i int) (*mpi.Intercomm, error) { return s.x.Split((k.me+i)%2, -k.me) }),
		interMaker("Intercomm.Create", func(_ *killRound, s killSides, i int) (*mpi.Intercomm, error) {
			g, err := s.local.Group().Incl(i % s.local.Size())
			if err != nil {
				return nil, err
			}
			return s.x.Create(g)
		}),
		inter("Intercomm.Agree", false, func(k *killRound, s killSides) func(int) error {
			return func(i int) error { return k.agreed(s.x.Agree(^(1 << k.me) &^ (uint64(i) << 32))) }
		}),
		inter("Intercomm.Merge", false, func(k *killRound, s killSides) func(int) error {
			return func(int) error {
				m, err := s.x.Merge(s.side == 0)
				if err != nil {
					return err
				}
				if want := (k.me + s.n) % k.n; s.side == 0 && m.Rank() != want || m.Size() != k.n {
					return fmt.Errorf("%w: merged rank %d of %d, want %d of %d", errWrongData, m.Rank(), m.Size(), want, k.n)
				}
				return k.verified(m, m.Free())
			}
		}),
		killPorts(),
		killCall{name: "NewIntercomm", begin: func(k *killRound) (func(int) error, error) {
			s, err := k.split()
			k.on = nil // the ranks of an error are those of one of several communicators
			return func(int) error {
				x, err := k.connect(s)
				if err != nil {
					return err
				}
				return x.Free()
			}, err
		}},
	)
	for i := range all {
		name := all[i].name
		all[i].uniform = name == "Intercomm.Agree"
		all[i].gives = slices.Contains([]string{"Intercomm.Merge", "Intercomm.Dup", "Intercomm.Split", "Intercomm.Create", "Accept and Connect", "NewIntercomm"}, name)
	}
	return all
}
