package sched_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi/sched"
)

// rank is a rank of a simulated job.
type rank struct {
	run     sched.Run
	areas   [3][]byte
	running []int // steps that have begun, other than receives
	out     map[int]*message
	recvs   []int // receives that have begun, in their order
}

// span returns the memory of a span.
func (r *rank) span(s sched.Span) []byte { return r.areas[s.Area][s.At : s.At+s.N] }

// message is a message that was sent.
type message struct{ data []byte }

// channel is what tells the messages from one rank to another apart.
type channel struct {
	from, to int
	label    uint16
}

// elem is the size of an element: an operand of concat.
const elem = 8

// concat is an operator that is not commutative: it is the product of affine functions a*x+b in arithmetic modulo 2^32, which is
// associative. An element is a and b.
func concat(acc, in []byte) {
	word := func(p []byte) uint32 { return uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24 }
	put := func(p []byte, v uint32) { p[0], p[1], p[2], p[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24) }
	for i := 0; i+elem <= len(acc); i += elem {
		a, b, c, d := word(acc[i:]), word(acc[i+4:]), word(in[i:]), word(in[i+4:])
		put(acc[i:], a*c)
		put(acc[i+4:], b*c+d)
	}
}

// execute runs the plans of all ranks in a random order. It fails the test if they do not end, or leave messages.
//
// A message is copied when its send begins, or when its send is done. Both must give the same, as a plan changes nothing while it is sent.
func execute(t *testing.T, rnd *rand.Rand, plans []*sched.Plan, ranks []*rank) {
	t.Helper()
	sent := map[channel][]*message{}
	for i, r := range ranks {
		r.areas[sched.Tmp] = make([]byte, plans[i].Tmp)
		for j := range r.areas[sched.Tmp] {
			r.areas[sched.Tmp][j] = byte(rnd.Uint32())
		}
		r.run.Start(plans[i])
	}
	for {
		moved, over := false, true
		for _, i := range rnd.Perm(len(ranks)) {
			r := ranks[i]
			moved = r.begin(rnd, i, sent) || moved
			moved = r.end(t, rnd, i, sent) || moved
			over = over && r.run.Over()
		}
		if over {
			break
		}
		if !moved {
			t.Fatal("the ranks wait for each other")
		}
	}
	for c, all := range sent {
		if len(all) > 0 {
			t.Fatalf("%d messages from rank %d to %d with label %d were not received", len(all), c.from, c.to, c.label)
		}
	}
}

// begin begins steps of a rank.
func (r *rank) begin(rnd *rand.Rand, me int, sent map[channel][]*message) (moved bool) {
	for rnd.IntN(3) > 0 {
		step, ok := r.run.Next()
		if !ok {
			return moved
		}
		moved = true
		switch s := r.run.Step(step); s.Kind {
		case sched.Recv:
			r.recvs = append(r.recvs, step)
		case sched.Send:
			c := channel{me, s.Peer, s.Label}
			m := &message{r.span(s.At)}
			if rnd.IntN(2) == 0 {
				m.data = slices.Clone(m.data)
			}
			sent[c] = append(sent[c], m)
			if r.out == nil {
				r.out = map[int]*message{}
			}
			r.out[step] = m
			r.running = append(r.running, step)
		default:
			r.running = append(r.running, step)
		}
	}
	return true
}

// end ends a random step of a rank.
func (r *rank) end(t *testing.T, rnd *rand.Rand, me int, sent map[channel][]*message) (moved bool) {
	t.Helper()
	if len(r.running) > 0 {
		i := rnd.IntN(len(r.running))
		step := r.running[i]
		r.running = slices.Delete(r.running, i, i+1)
		switch s := r.run.Step(step); s.Kind {
		case sched.Copy:
			copy(r.span(s.At), r.span(s.From))
		case sched.Fold:
			concat(r.span(s.At), r.span(s.From))
		case sched.Send: // from now on its memory may change
			r.out[step].data = slices.Clone(r.out[step].data)
		case sched.Recv:
		}
		r.run.Done(step)
		return true
	}
	blocked := map[channel]bool{}
	for i, step := range r.recvs {
		s := r.run.Step(step)
		c := channel{s.Peer, me, s.Label}
		if blocked[c] || len(sent[c]) == 0 {
			blocked[c] = true // an earlier receive has the next message
			continue
		}
		data := sent[c][0].data
		if len(data) != s.At.N {
			t.Fatalf("rank %d receives %d bytes from rank %d with label %d, want %d", me, len(data), s.Peer, s.Label, s.At.N)
		}
		copy(r.span(s.At), data)
		sent[c] = sent[c][1:]
		r.recvs = slices.Delete(r.recvs, i, i+1)
		r.run.Done(step)
		return true
	}
	return false
}

// call is a collective of a test.
type call struct {
	plan     func(me int) *sched.Plan
	src, dst func(me int) int      // bytes
	inPlace  func(me int) (at int) // Src is Dst from this byte on; nil: it is memory of its own
	want     func(me int, src [][]byte) []byte
}

// check runs a collective many times, in different orders.
func (c *call) check(t *testing.T, n int) {
	t.Helper()
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var ranks []*rank
		var plans []*sched.Plan
		var sources [][]byte
		for me := range n {
			r := &rank{}
			r.areas[sched.Dst] = make([]byte, c.dst(me))
			r.areas[sched.Src] = make([]byte, c.src(me))
			if c.inPlace != nil {
				at := c.inPlace(me)
				r.areas[sched.Src] = r.areas[sched.Dst][at : at+c.src(me)]
			}
			for i := range r.areas[sched.Src] {
				r.areas[sched.Src][i] = byte(rnd.Uint32())
			}
			ranks, plans, sources = append(ranks, r), append(plans, c.plan(me)), append(sources, slices.Clone(r.areas[sched.Src]))
		}
		execute(t, rnd, plans, ranks)
		for me, r := range ranks {
			if want := c.want(me, sources); want != nil && !bytes.Equal(r.areas[sched.Dst][:len(want)], want) {
				t.Fatalf("seed %d: rank %d has % x, want % x", seed, me, r.areas[sched.Dst][:min(40, len(want))], want[:min(40, len(want))])
			}
			if c.inPlace == nil && !bytes.Equal(r.areas[sched.Src], sources[me]) {
				t.Fatalf("seed %d: the source of rank %d has changed", seed, me)
			}
		}
	}
}

var rankCounts = []int{1, 2, 3, 4, 5, 7, 8, 11, 16}

// forSizes runs a check with each number of ranks and each of some sizes.
func forSizes(t *testing.T, sizes []int, body func(t *testing.T, n, size int)) {
	for _, n := range rankCounts {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%d ranks, %d bytes", n, size), func(t *testing.T) { body(t, n, size) })
		}
	}
}

func always(size int) func(int) int { return func(int) int { return size } }

// fold returns what the operator makes of some sources.
func fold(all [][]byte) []byte {
	acc := slices.Clone(all[0])
	for _, in := range all[1:] {
		concat(acc, in)
	}
	return acc
}

// No rank leaves a barrier before all have entered it.
func TestBarrier(t *testing.T) {
	for _, n := range rankCounts {
		for late := range n {
			rnd := rand.New(rand.NewPCG(uint64(n), uint64(late)))
			sent := map[channel][]*message{}
			var ranks []*rank
			for me := range n {
				ranks = append(ranks, &rank{})
				ranks[me].run.Start(sched.Barrier(n, me))
			}
			for range 50 * n {
				for me, r := range ranks {
					if me != late {
						r.begin(rnd, me, sent)
						r.end(t, rnd, me, sent)
					}
				}
			}
			for me, r := range ranks {
				if n > 1 && r.run.Over() {
					t.Fatalf("%d ranks: rank %d has left, rank %d has not come", n, me, late)
				}
			}
		}
		c := &call{plan: func(me int) *sched.Plan { return sched.Barrier(n, me) }, src: always(0), dst: always(0), want: func(int, [][]byte) []byte { return nil }}
		c.check(t, n)
	}
}

func TestBcast(t *testing.T) {
	forSizes(t, []int{0, 1, 40, 131_100}, func(t *testing.T, n, size int) {
		for _, root := range []int{0, n / 2, n - 1} {
			c := &call{
				plan: func(me int) *sched.Plan { return sched.Bcast(n, me, root, size) }, src: always(size), dst: always(size), inPlace: always(0),
				want: func(_ int, src [][]byte) []byte { return src[root] },
			}
			c.check(t, n)
		}
	})
}

func TestReductions(t *testing.T) {
	forSizes(t, []int{0, elem, 5 * elem, 40_000}, func(t *testing.T, n, size int) {
		for _, inPlace := range []func(int) int{nil, always(0)} {
			for _, root := range []int{0, n / 2, n - 1} {
				c := &call{
					plan: func(me int) *sched.Plan { return sched.Reduce(n, me, root, size, elem) }, src: always(size), dst: always(size), inPlace: inPlace,
					want: func(me int, src [][]byte) []byte {
						if me != root {
							return nil
						}
						return fold(src)
					},
				}
				c.check(t, n)
			}
			c := &call{
				plan: func(me int) *sched.Plan { return sched.Allreduce(n, me, size, elem) }, src: always(size), dst: always(size), inPlace: inPlace,
				want: func(_ int, src [][]byte) []byte { return fold(src) },
			}
			c.check(t, n)
			for _, exclusive := range []bool{false, true} {
				c := &call{
					plan: func(me int) *sched.Plan { return sched.Scan(n, me, size, exclusive) }, src: always(size), dst: always(size), inPlace: inPlace,
					want: func(me int, src [][]byte) []byte {
						switch {
						case !exclusive:
							return fold(src[:me+1])
						case me > 0:
							return fold(src[:me])
						}
						return nil
					},
				}
				c.check(t, n)
			}
		}
	})
}

// parts returns parts of different lengths, some of them empty, with gaps between them, and how many bytes they take.
func parts(n, unit, shift int) (all []sched.Part, size int) {
	for i := range n {
		p := sched.Part{At: size, N: (i + shift) % 3 * unit}
		all, size = append(all, p), size+p.N+(i%2)*unit
	}
	return all, size
}

func TestReduceScatter(t *testing.T) {
	forSizes(t, []int{elem, 1000 * elem}, func(t *testing.T, n, size int) {
		all, whole := parts(n, size, 1)
		for _, inPlace := range []func(int) int{nil, always(0)} {
			c := &call{
				plan: func(me int) *sched.Plan { return sched.ReduceScatter(n, me, all) }, src: always(whole), dst: always(whole), inPlace: inPlace,
				want: func(me int, src [][]byte) []byte { return fold(src)[all[me].At:][:all[me].N] },
			}
			c.check(t, n)
		}
	})
}

// join returns the bytes of all ranks' sources in their parts. The rest is 0.
func join(all []sched.Part, whole int, src [][]byte) []byte {
	dst := make([]byte, whole)
	for i, p := range all {
		copy(dst[p.At:], src[i][:p.N])
	}
	return dst
}

func TestGathersAndScatters(t *testing.T) {
	forSizes(t, []int{0, 1, 300, 600}, func(t *testing.T, n, size int) {
		irregular, most := parts(n, size, 2)
		for _, x := range []struct {
			parts []sched.Part
			whole int
		}{{sched.Regular(n, size), n * size}, {irregular, most}} {
			root := n / 2
			mine := func(me int) int { return x.parts[me].N }
			c := &call{
				plan: func(me int) *sched.Plan { return sched.Gather(n, me, root, x.parts[me].N, x.parts) }, src: mine, dst: always(x.whole),
				want: func(me int, src [][]byte) []byte {
					if me != root {
						return nil
					}
					return join(x.parts, x.whole, src)
				},
			}
			c.check(t, n)
			c.plan = func(me int) *sched.Plan { return sched.Allgather(n, me, x.parts) }
			c.want = func(_ int, src [][]byte) []byte { return join(x.parts, x.whole, src) }
			c.check(t, n)
			c.inPlace = func(me int) int { return x.parts[me].At }
			c.check(t, n)
			c = &call{
				plan: func(me int) *sched.Plan { return sched.Scatter(n, me, root, x.parts[me].N, x.parts) }, src: always(x.whole), dst: mine,
				want: func(me int, src [][]byte) []byte { return src[root][x.parts[me].At:][:x.parts[me].N] },
			}
			c.check(t, n)
		}
	})
}

func TestAlltoall(t *testing.T) {
	forSizes(t, []int{0, 3, 300}, func(t *testing.T, n, size int) {
		give := make([][]sched.Part, n) // give[from][to]
		most := make([]int, n)
		for from := range n {
			give[from], most[from] = parts(n, size, from)
		}
		get := make([][]sched.Part, n)
		space := make([]int, n)
		for to := range n {
			for from := range n {
				get[to] = append(get[to], sched.Part{At: space[to], N: give[from][to].N})
				space[to] += give[from][to].N
			}
		}
		want := func(me int, src [][]byte) (dst []byte) {
			for from := range n {
				p := give[from][me]
				dst = append(dst, src[from][p.At:][:p.N]...)
			}
			return dst
		}
		c := &call{
			plan: func(me int) *sched.Plan { return sched.Alltoall(n, me, give[me], get[me], false) },
			src:  func(me int) int { return most[me] }, dst: func(me int) int { return space[me] }, want: want,
		}
		c.check(t, n)
		same := sched.Regular(n, size)
		for i := range give {
			give[i] = same
		}
		c = &call{
			plan: func(me int) *sched.Plan { return sched.Alltoall(n, me, same, same, true) }, src: always(n * size), dst: always(n * size), inPlace: always(0), want: want,
		}
		c.check(t, n)
	})
}

// Neighbors of a ring, each of them twice.
func TestNeighbors(t *testing.T) {
	forSizes(t, []int{0, 5}, func(t *testing.T, n, size int) {
		links := func(me, hop int) (all []sched.Link) {
			for i := range 4 {
				rank := (me + hop + n) % n
				if i%2 == 1 {
					rank = (me - hop + n) % n
				}
				all = append(all, sched.Link{Rank: rank, Part: sched.Part{At: i * size, N: size}})
			}
			return all
		}
		c := &call{
			plan: func(me int) *sched.Plan { return sched.Neighbors(links(me, 1), links(me, -1)) }, src: always(4 * size), dst: always(4 * size),
			want: func(me int, src [][]byte) (dst []byte) {
				if n < 3 { // both neighbors are one rank, whose messages come in order
					return src[(me+1)%n]
				}
				for i := range 4 {
					from := (me - 1 + n) % n
					if i%2 == 1 {
						from = (me + 1) % n
					}
					dst = append(dst, src[from][i*size:][:size]...)
				}
				return dst
			},
		}
		c.check(t, n)
	})
}
