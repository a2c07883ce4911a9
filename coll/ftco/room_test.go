package ftco

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRingHoldsTheWindow keeps as many operations as can be active at a time. They begin in any
// order and end at random. None is lost, and the memory is bounded.
func TestRingHoldsTheWindow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var ops ring
		settled, made := uint64(0), map[*op]bool{}
		for round := range 20 {
			if settled += r.Uint64N(window); r.IntN(4) == 0 {
				ops.clear()
				settled = 0
			}
			live := map[uint64]*op{}
			for _, i := range r.Perm(min(round+2, window) - 1) {
				seq := settled + 1 + uint64(i)
				o := ops.place(seq, settled)
				if o.seq != seq {
					*o = op{seq: seq}
				}
				live[seq], made[o] = o, true
			}
			for seq := settled + 1; seq <= settled+2*window; seq++ {
				if o := ops.find(seq); o != nil && live[seq] == nil {
					t.Fatalf("settled %d: operation %d was not begun, but is found as %d", settled, seq, o.seq)
				}
			}
			for seq, o := range live {
				if got := ops.find(seq); got != o || o.seq != seq {
					t.Fatalf("settled %d: operation %d is %p, want %p, which is %d", settled, seq, got, o, o.seq)
				}
			}
		}
		if len(ops) > 2*window || len(made) > 2*window {
			t.Errorf("a ring of %d with %d operations made, want at most %d", len(ops), len(made), 2*window)
		}
	}
}

// TestNodeSet compares a nodeSet with a list, in groups that keep lists and in groups that use
// bits.
func TestNodeSet(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 31, 64, 65, 1000, 5000} {
		var s nodeSet
		for range 2 {
			var want []Node
			for _, p := range r.Perm(n)[:min(n, 200)] {
				before := s.clone()
				if p := Node(p); !s.add(p, n) || s.add(p, n) || !s.has(p) || before.has(p) {
					t.Fatalf("n %d: add(%d) returned the wrong result, set %v", n, p, want)
				}
				want = append(want, Node(p))
			}
			slices.Sort(want)
			var got []Node
			if s.each(func(p Node) { got = append(got, p) }); !slices.Equal(got, want) {
				t.Fatalf("n %d: the set has %v, want %v", n, got, want)
			}
			for p := range Node(n) {
				if _, ok := slices.BinarySearch(want, p); s.has(p) != ok {
					t.Fatalf("n %d: has(%d) returned %v, want %v", n, p, !ok, ok)
				}
			}
			s.clear()
		}
	}
}

// TestGroupAndReset: machines made together equal those made one by one, also after a few
// operations, a death and a reset.
func TestGroupAndReset(t *testing.T) {
	t.Parallel()
	const n = 20
	group, err := NewGroup(Config{N: n, Radix: 3})
	if err != nil {
		t.Fatal(err)
	}
	calls := []Call{{Kind: Bcast, Root: 4}, {Kind: Bcast, Root: 5}, {Kind: Allreduce, Uniform: true}, {Kind: Reduce, Root: 19}}
	for range 3 {
		together, alone := &fleet{}, newFleet(t, n, 3)
		for p := range group {
			together.machines = append(together.machines, &group[p])
		}
		for _, call := range calls {
			if a, b := together.run(call), alone.run(call); a != b || together.delivered != n {
				t.Errorf("%+v: got %d messages and %d returns, want %d and %d as of machines made one by one", call, a, together.delivered, b, n)
			}
			compare(t, together, alone)
		}
		for p := range group {
			ev := Event{Kind: PeerFailed, From: Node(p+1) % n, Inc: 1}
			together.step(Node(p), ev)
			alone.step(Node(p), ev)
		}
		compare(t, together, alone)
		for p := range group {
			group[p].Reset()
		}
		compare(t, together, newFleet(t, n, 3))
	}
}

func compare(t *testing.T, a, b *fleet) {
	t.Helper()
	for p := range a.machines {
		if x, y := a.machines[p].AppendState(nil), b.machines[p].AppendState(nil); !bytes.Equal(x, y) {
			t.Fatalf("member %d: state %x, want %x", p, x, y)
		}
	}
}

// TestRoomIsBounded mixes calls and roots, which need different amounts of memory. After a while
// nothing more is allocated, however long it goes on.
func TestRoomIsBounded(t *testing.T) {
	const n = 30
	f := newFleet(t, n, 4)
	next := Node(0)
	some := func() {
		for i := range Node(3 * syncEvery) {
			next = (next + 7) % n
			f.run(Call{Kind: Bcast, Root: next})
			f.run(Call{Kind: []Kind{Reduce, Bcast, Bcast}[i%3], Root: next, Uniform: i%5 == 0})
		}
	}
	for range 4 * n {
		some()
	}
	if a := testing.AllocsPerRun(2*n, some); a != 0 {
		t.Errorf("%v allocations in %d operations after %d, want none", a, 6*syncEvery, 4*n*6*syncEvery)
	}
	for p, m := range f.machines {
		if len(m.ops.ring) > 2*window {
			t.Errorf("member %d keeps %d operations, want at most %d", p, len(m.ops.ring), 2*window)
		}
	}
}
