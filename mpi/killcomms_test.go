package mpi_test

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/mpi"
)

// grid makes the communicator of a ring of all ranks.
func (k *killRound) grid() (*mpi.Neighbors, error) {
	g, err := k.c.Cart([]int{k.n}, []bool{true}, false)
	if err != nil {
		return nil, err
	}
	k.keep(g.Comm())
	k.on = g.Comm()
	return g.Neighbors()
}

// killNeighbors returns the collectives of neighbors, in a ring.
func killNeighbors() (all []killCall) {
	type exchange struct {
		wait  func(n *mpi.Neighbors, dst, src []uint64, v mpi.Counts) error
		start func(n *mpi.Neighbors, dst, src []uint64, v mpi.Counts) (mpi.Request, error)
		keep  func(n *mpi.Neighbors, dst, src []uint64, v mpi.Counts) (mpi.Persistent, error)
	}
	for _, x := range []struct {
		name  string
		parts int // of the data that a rank gives
		exchange
	}{
		{"NeighborAllgather", 1, exchange{
			func(n *mpi.Neighbors, dst, src []uint64, _ mpi.Counts) error {
				return mpi.NeighborAllgather(n, dst, src)
			},
			func(n *mpi.Neighbors, dst, src []uint64, _ mpi.Counts) (mpi.Request, error) {
				return mpi.IneighborAllgather(n, dst, src)
			},
			func(n *mpi.Neighbors, dst, src []uint64, _ mpi.Counts) (mpi.Persistent, error) {
				return mpi.NeighborAllgatherInit(n, dst, src)
			},
		}},
		{"NeighborAllgatherv", 1, exchange{mpi.NeighborAllgatherv[uint64], mpi.IneighborAllgatherv[uint64], mpi.NeighborAllgathervInit[uint64]}},
		{"NeighborAlltoall", 2, exchange{
			func(n *mpi.Neighbors, dst, src []uint64, _ mpi.Counts) error {
				return mpi.NeighborAlltoall(n, dst, src)
			},
			func(n *mpi.Neighbors, dst, src []uint64, _ mpi.Counts) (mpi.Request, error) {
				return mpi.IneighborAlltoall(n, dst, src)
			},
			func(n *mpi.Neighbors, dst, src []uint64, _ mpi.Counts) (mpi.Persistent, error) {
				return mpi.NeighborAlltoallInit(n, dst, src)
			},
		}},
		{"NeighborAlltoallv", 2, exchange{
			func(n *mpi.Neighbors, dst, src []uint64, v mpi.Counts) error {
				return mpi.NeighborAlltoallv(n, dst, src, v, v)
			},
			func(n *mpi.Neighbors, dst, src []uint64, v mpi.Counts) (mpi.Request, error) {
				return mpi.IneighborAlltoallv(n, dst, src, v, v)
			},
			func(n *mpi.Neighbors, dst, src []uint64, v mpi.Counts) (mpi.Persistent, error) {
				return mpi.NeighborAlltoallvInit(n, dst, src, v, v)
			},
		}},
	} {
		all = append(all, inForms(x.name, func(k *killRound) (killCollective, error) {
			n, err := k.grid()
			if err != nil {
				return killCollective{}, err
			}
			src, dst := make([]uint64, x.parts*k.words), make([]uint64, 2*k.words)
			v := mpi.Counts{Counts: []int{k.words, k.words}}
			return killCollective{
				func(i int) { put(src, k.me, i, 0) },
				func(i int) error {
					for j, rank := range n.Sources() {
						off := 0
						if x.parts == 2 {
							off = (1 - j) * k.words // the part that the source has for this direction
						}
						if err := wrong(dst[j*k.words:][:k.words], rank, rank+1, i, off); err != nil {
							return err
						}
					}
					return nil
				},
				func() error { return x.wait(n, dst, src, v) },
				func() (mpi.Request, error) { return x.start(n, dst, src, v) },
				func() (mpi.Persistent, error) { return x.keep(n, dst, src, v) },
			}, nil
		})...)
	}
	return all
}

// maker returns a call that makes a communicator and frees it. If all ranks are in it, they meet in it.
func maker(name string, all bool, create func(k *killRound, i int) (*mpi.Comm, error)) killCall {
	x := simpleCall(name, func(k *killRound) func(int) error {
		return func(i int) error {
			c, err := create(k, i)
			if err != nil || c == nil {
				return err
			}
			if all {
				if err := c.Barrier(); err != nil {
					_ = c.Free()
					return k.verified(c, err)
				}
			}
			return k.verified(c, c.Free())
		}
	})
	x.gives = true
	return x
}

// killMakers returns the calls that make communicators, and those that agree.
func killMakers() []killCall {
	all := []killCall{
		maker("Dup", true, func(k *killRound, _ int) (*mpi.Comm, error) { return k.c.Dup() }),
		maker("Idup", true, func(k *killRound, _ int) (*mpi.Comm, error) {
			c, q, err := k.c.Idup()
			if err != nil {
				return nil, err
			}
			_, err = q.Wait()
			return c, err
		}),
		maker("Split", true, func(k *killRound, _ int) (*mpi.Comm, error) { return k.c.Split(0, 0) }),
		maker("Split in two", false, func(k *killRound, i int) (*mpi.Comm, error) { return k.c.Split((k.me+i)%2, -k.me) }),
		maker("SplitType", false, func(k *killRound, _ int) (*mpi.Comm, error) { return k.c.SplitType(mpi.Shared, 0) }),
		maker("Create", false, func(k *killRound, i int) (*mpi.Comm, error) {
			g, err := k.c.Group().Excl(i % k.n)
			if err != nil {
				return nil, err
			}
			return k.c.Create(g)
		}),
		maker("CreateGroup", true, func(k *killRound, _ int) (*mpi.Comm, error) { return k.c.CreateGroup(k.c.Group(), killTag) }),
		maker("CreateGroup of some", false, func(k *killRound, i int) (*mpi.Comm, error) {
			if err := k.c.Barrier(); err != nil || i%k.n == k.me {
				return nil, err
			}
			g, err := k.c.Group().Excl(i % k.n)
			if err != nil {
				return nil, err
			}
			return k.c.CreateGroup(g, killTag)
		}),
		maker("Cart", false, func(k *killRound, _ int) (*mpi.Comm, error) {
			g, err := k.c.Cart([]int{k.n - 1}, []bool{true}, false)
			return g.Comm(), err
		}),
		maker("Cart.Sub", false, func(k *killRound, _ int) (*mpi.Comm, error) {
			g, err := k.c.Cart([]int{k.n, 1}, []bool{true, true}, false)
			if err != nil {
				return nil, err
			}
			sub, err := g.Sub(true, false)
			if err != nil {
				_ = g.Free()
				return nil, k.verified(g.Comm(), err)
			}
			return sub.Comm(), k.verified(g.Comm(), g.Free())
		}),
		maker("Graph", true, func(k *killRound, _ int) (*mpi.Comm, error) {
			n, err := k.c.Graph([]int{k.prev}, []int{k.next})
			return n.Comm(), err
		}),
		maker("NewGraph", true, func(k *killRound, _ int) (*mpi.Comm, error) {
			n, err := mpi.NewGraph(k.c, []mpi.Edge{{From: k.prev, To: k.next}})
			return n.Comm(), err
		}),
		maker("Shrink", false, func(k *killRound, _ int) (*mpi.Comm, error) {
			c, err := k.c.Shrink()
			return k.smaller(c, err)
		}),
		maker("Ishrink", false, func(k *killRound, _ int) (*mpi.Comm, error) {
			c, q, err := k.c.Ishrink()
			if err == nil {
				_, err = q.Wait()
			}
			return k.smaller(c, err)
		}),
		simpleCall("Agree", func(k *killRound) func(int) error {
			return func(i int) error { return k.agreed(k.c.Agree(^(1 << k.me) &^ (uint64(i) << 32))) }
		}),
		simpleCall("Iagree", func(k *killRound) func(int) error {
			return func(i int) error {
				flags := ^(uint64(1) << k.me) &^ (uint64(i) << 32)
				q, err := k.track(k.c.Iagree(&flags))
				if err == nil {
					_, err = q.Wait()
				}
				if err == nil {
					k.left = nil
				}
				return k.agreed(flags, err)
			}
		}),
	}
	for i := range all {
		all[i].uniform = slices.Contains([]string{"Shrink", "Ishrink", "Agree", "Iagree"}, all[i].name)
		all[i].strict = all[i].uniform || slices.Contains([]string{"Dup", "Idup", "Split", "Split in two", "SplitType", "Cart", "Graph", "NewGraph"}, all[i].name)
	}
	return all
}

// agreed returns the error of an agreement in which all ranks have cleared the bit of their rank.
func (k *killRound) agreed(flags uint64, err error) error {
	if all := uint64(1)<<k.n - 1; err == nil && flags&all != 0 {
		return fmt.Errorf("%w: agreement on %#x without an error, want no bit of %#x", errWrongData, flags, all)
	}
	return err
}

// smaller returns errShrunk if a Shrink has left a rank out.
func (k *killRound) smaller(c *mpi.Comm, err error) (*mpi.Comm, error) {
	if err != nil || c.Size() == k.n {
		return c, err
	}
	k.verify("free", c, c.Free())
	return nil, errShrunk
}
