package sched_test

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/mpi/sched"
)

// sizesOfGroups are the sizes of the two groups of an intercommunicator.
var sizesOfGroups = [][2]int{{1, 1}, {1, 4}, {4, 1}, {2, 3}, {3, 3}, {5, 2}, {2, 40}}

// forGroups runs a check with groups of each of some sizes. see returns how a rank sees the groups, by its number in both.
func forGroups(t *testing.T, sizes []int, body func(t *testing.T, groups [2]int, size int, see func(me int) (s sched.Sides, side int))) {
	for _, groups := range sizesOfGroups {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%d and %d ranks, %d bytes", groups[0], groups[1], size), func(t *testing.T) {
				body(t, groups, size, func(me int) (sched.Sides, int) {
					if me < groups[0] {
						return sched.Sides{Me: me, Local: groups[0], Remote: groups[1], First: true}, 0
					}
					return sched.Sides{Me: me - groups[0], Local: groups[1], Remote: groups[0]}, 1
				})
			})
		}
	}
}

// othersOf returns the sources of the other group's ranks.
func othersOf(src [][]byte, groups [2]int, side int) [][]byte {
	if side == 0 {
		return src[groups[0]:]
	}
	return src[:groups[0]]
}

// Each rank gives the ranks of the other group parts of different lengths.
func TestInterExchange(t *testing.T) {
	forGroups(t, []int{0, 3, 300}, func(t *testing.T, groups [2]int, size int, see func(int) (sched.Sides, int)) {
		between := func(from, to int) int { return (from + 2*to) % 3 * size } // ranks of different groups
		c := &call{
			plan: func(me int) *sched.Plan {
				s, _ := see(me)
				var give, get []sched.Part
				out, in := 0, 0
				for rank := range s.Remote {
					give = append(give, sched.Part{At: out, N: between(s.Me, rank)})
					get = append(get, sched.Part{At: in, N: between(rank, s.Me)})
					out, in = out+give[rank].N, in+get[rank].N
				}
				return s.Exchange(give, get)
			},
			src: always(100 * size), dst: always(100 * size),
			want: func(me int, src [][]byte) (dst []byte) {
				s, side := see(me)
				for rank, from := range othersOf(src, groups, side) {
					at := 0
					for to := range s.Me {
						at += between(rank, to)
					}
					dst = append(dst, from[at:][:between(rank, s.Me)]...)
				}
				return dst
			},
		}
		c.check(t, groups[0]+groups[1])
	})
}

// One rank gives to all ranks of the other group, or gets from all of them, or folds what they give.
func TestInterRoots(t *testing.T) {
	forGroups(t, []int{0, elem, 40 * elem}, func(t *testing.T, groups [2]int, size int, see func(int) (sched.Sides, int)) {
		n := groups[0] + groups[1]
		for root := range n {
			atRoot, home := see(root)
			regular := sched.Regular(atRoot.Remote, size)
			rooted := func(root, leaf func(s sched.Sides) *sched.Plan, want func(s sched.Sides, isRoot bool, src [][]byte) []byte) {
				c := &call{
					plan: func(me int) *sched.Plan {
						switch s, side := see(me); {
						case s == atRoot:
							return root(s)
						case side == home:
							return s.Nothing()
						default:
							return leaf(s)
						}
					},
					src: always(n * size), dst: always(n * size),
					want: func(me int, src [][]byte) []byte {
						s, side := see(me)
						if s != atRoot && side == home {
							return nil
						}
						return want(s, s == atRoot, src)
					},
				}
				c.check(t, n)
			}
			whose := root
			rooted(func(s sched.Sides) *sched.Plan { return s.Exchange(regular, nil) }, func(s sched.Sides) *sched.Plan { return s.Get(atRoot.Me, size) },
				func(s sched.Sides, isRoot bool, src [][]byte) []byte {
					if isRoot {
						return nil
					}
					return src[whose][s.Me*size:][:size]
				})
			rooted(func(s sched.Sides) *sched.Plan { return s.Exchange(nil, regular) }, func(s sched.Sides) *sched.Plan { return s.Give(atRoot.Me, size) },
				func(_ sched.Sides, isRoot bool, src [][]byte) (dst []byte) {
					for _, from := range othersOf(src, groups, home) {
						if isRoot {
							dst = append(dst, from[:size]...)
						}
					}
					return dst
				})
			rooted(func(s sched.Sides) *sched.Plan { return s.Reduce(size) }, func(s sched.Sides) *sched.Plan { return s.Give(atRoot.Me, size) },
				func(_ sched.Sides, isRoot bool, src [][]byte) []byte {
					if !isRoot {
						return nil
					}
					return fold(othersOf(src, groups, home))[:size]
				})
		}
	})
}

// Each group gets the reduction of the other one: all of it at each rank, or parts of it.
func TestInterReductions(t *testing.T) {
	forGroups(t, []int{0, elem, 6 * elem, 1000 * elem}, func(t *testing.T, groups [2]int, size int, see func(int) (sched.Sides, int)) {
		n := groups[0] + groups[1]
		for _, inPlace := range []func(int) int{nil, always(0)} {
			c := &call{
				plan: func(me int) *sched.Plan {
					s, _ := see(me)
					return s.Allreduce(size)
				}, src: always(size), dst: always(size), inPlace: inPlace,
				want: func(me int, src [][]byte) []byte {
					_, side := see(me)
					return fold(othersOf(src, groups, side))
				},
			}
			c.check(t, n)
		}
		for _, skewed := range []bool{false, true} {
			partsOf := func(local int) (all []sched.Part) {
				for rank := range local { // equal shares, or 1/2, 1/4, ... and the rest for the first one
					lo, hi := size/elem*rank/local*elem, size/elem*(rank+1)/local*elem
					if skewed {
						if lo = 0; rank > 0 {
							lo = size / elem >> (local - rank) * elem
						}
						hi = size / elem >> (local - rank - 1) * elem
					}
					all = append(all, sched.Part{At: lo, N: hi - lo})
				}
				return all
			}
			c := &call{
				plan: func(me int) *sched.Plan {
					s, _ := see(me)
					return s.ReduceScatter(size, elem, partsOf(s.Local))
				},
				src: always(size), dst: always(size),
				want: func(me int, src [][]byte) []byte {
					s, side := see(me)
					p := partsOf(s.Local)[s.Me]
					return fold(othersOf(src, groups, side))[p.At:][:p.N]
				},
			}
			c.check(t, n)
		}
	})
}
