package shmem

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// secondNode is the place of PEs 3 to 5 of 6, on the second of two nodes.
var secondNode = job.Place{Nodes: 2, First: 3, Near: 3, NPEs: 6}

// The fast half reaches the members of a team that are near, if the team is arithmetic: an interval of PEs meets an
// arithmetic sequence.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		pes  []layout.PE
		want window
	}{
		{[]layout.PE{3, 4, 5}, window{0, 3, 0, 1}},
		{[]layout.PE{5, 4, 3}, window{0, 3, 2, -1}},
		{[]layout.PE{3, 5}, window{0, 2, 0, 2}},
		{[]layout.PE{4}, window{0, 1, 1, 1}},
		{[]layout.PE{0, 1, 2, 3, 4, 5}, window{3, 3, 0, 1}},
		{[]layout.PE{5, 4, 3, 2, 1, 0}, window{0, 3, 2, -1}},
		{[]layout.PE{2, 3, 4}, window{1, 2, 0, 1}},
		{[]layout.PE{4, 5, 6}, window{0, 2, 1, 1}},
		{[]layout.PE{1, 3, 5}, window{1, 2, 0, 2}},
		{[]layout.PE{7, 4, 1}, window{1, 1, 1, -3}},
		{[]layout.PE{0, 2, 4}, window{2, 1, 1, 2}},
		{[]layout.PE{3, 5, 4}, window{}}, // in a list
		{[]layout.PE{0, 1, 2}, window{}},
		{[]layout.PE{6, 7}, window{}},
		{[]layout.PE{8, 7, 6}, window{}},
		{[]layout.PE{0, 7}, window{}},
		{[]layout.PE{2}, window{}},
		{[]layout.PE{}, window{}},
	} {
		n := numbersOf(c.pes)
		if got := n.windowOf(secondNode); got != c.want {
			t.Errorf("PEs %v: %+v, want %+v", c.pes, got, c.want)
		}
	}
}

// Where the PEs of a node have gaps, the window is the longest run of near members whose segments are an arithmetic sequence. A
// team of near PEs has all its members in it, as far as they are one.
func TestWindowWithGaps(t *testing.T) {
	cyclic, odd := job.Scattered(2, 8, []layout.PE{0, 2, 4, 6}), job.Scattered(3, 9, []layout.PE{1, 2, 5, 8})
	for _, c := range []struct {
		place job.Place
		pes   []layout.PE
		want  window
	}{
		{cyclic, []layout.PE{0, 1, 2, 3, 4, 5, 6, 7}, window{0, 1, 0, 1}},
		{cyclic, []layout.PE{0, 2, 4, 6}, window{0, 4, 0, 1}},
		{cyclic, []layout.PE{6, 4, 2, 0}, window{0, 4, 3, -1}},
		{cyclic, []layout.PE{4, 0}, window{0, 2, 2, -2}},
		{cyclic, []layout.PE{1, 3, 4, 6, 5}, window{2, 2, 2, 1}},
		{cyclic, []layout.PE{1, 3}, window{}},
		{cyclic, nil, window{}},
		{odd, []layout.PE{0, 1, 2, 3, 4, 5, 6, 7, 8}, window{1, 2, 0, 1}},
		{odd, []layout.PE{1, 2, 5, 8}, window{0, 4, 0, 1}}, // in a list
		{odd, []layout.PE{8, 1, 2, 5}, window{1, 3, 0, 1}},
		{odd, []layout.PE{3, 8, 5, 1, 2}, window{1, 2, 3, -1}},
		{odd, []layout.PE{7, 5}, window{1, 1, 2, 1}},
	} {
		n := numbersOf(c.pes)
		if got := n.windowOf(c.place); got != c.want {
			t.Errorf("PEs %v of %v: %+v, want %+v", c.pes, c.place, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 { // members in any order, on a node with any PEs
		near := append([]layout.PE{layout.PE(rng.IntN(2))}, layout.PE(3+rng.IntN(2)))
		for pe := layout.PE(5); pe < 12; pe++ {
			if rng.IntN(2) == 0 {
				near = append(near, pe)
			}
		}
		place := job.Scattered(2, 12, near)
		var pes []layout.PE
		for _, pe := range rng.Perm(12)[:rng.IntN(13)] {
			pes = append(pes, layout.PE(pe))
		}
		if rng.IntN(2) == 0 {
			slices.Sort(pes)
		}
		n := numbersOf(pes)
		w := n.windowOf(place)
		some := false
		for i, pe := range pes {
			local, near := place.Local(pe)
			some = some || near
			if i >= w.first && i < w.first+w.near && (!near || int(local) != int(w.base)+(i-w.first)*w.step) {
				t.Fatalf("member %d of %v is near: %t, with index %d; the window is %+v", i, pes, near, local, w)
			}
		}
		if some != (w.near > 0) {
			t.Fatalf("PEs %v of %v: %+v", pes, place, w)
		}
	}
}

// The numbers of a team are those of its members, whether they are arithmetic or a list. A window has exactly the near
// members of an arithmetic team.
func TestNumbers(t *testing.T) {
	check := func(t *testing.T, n *numbers, pes []layout.PE) {
		t.Helper()
		if got := n.all(); !slices.Equal(got, pes) {
			t.Fatalf("members %v, want %v", got, pes)
		}
		for pe := layout.PE(-2); pe < 40; pe++ {
			if got, want := n.of(pe), slices.Index(pes, pe); got != want {
				t.Fatalf("PE %d of %v has number %d, want %d", pe, pes, got, want)
			}
		}
		w := n.windowOf(secondNode)
		for i, pe := range pes {
			local, near := secondNode.Local(pe)
			inside := i >= w.first && i < w.first+w.near
			if inside != near || inside && int(local) != int(w.base)+(i-w.first)*w.step {
				t.Fatalf("member %d of %v is near: %v; the window is %+v", i, pes, near, w)
			}
		}
	}
	for first := range 8 {
		for _, stride := range []int{-3, -2, -1, 1, 2, 3} {
			for size := range 8 {
				var pes []layout.PE
				for i := range size {
					pes = append(pes, layout.PE(10+first+i*stride-8))
				}
				n := numbersOf(pes)
				check(t, &n, pes)
				if size < 4 {
					continue
				}
				odd := n.part(1, 2, 2)
				check(t, &odd, []layout.PE{pes[1], pes[3]})
				one := n.part(3, 0, 1)
				check(t, &one, pes[3:4])
				back := n.part(size-1, -1, size)
				check(t, &back, reversed(pes))
			}
		}
	}
	list := numbersOf([]layout.PE{3, 5, 4, 0})
	if got := list.all(); !slices.Equal(got, []layout.PE{3, 5, 4, 0}) || list.of(4) != 2 || list.of(0) != 3 || list.of(1) != -1 {
		t.Errorf("list %v, PE 4 is number %d", got, list.of(4))
	}
	part := list.part(0, 1, 2)
	if got := part.all(); !slices.Equal(got, []layout.PE{3, 5}) || part.list != nil {
		t.Errorf("the first two of a list: %v (a list: %v), want PEs 3 and 5 without one", got, part.list != nil)
	}
}

// The team of a node has only the PEs of that node.
func TestSharedMembers(t *testing.T) {
	j := &job.Job{Place: secondNode, PE: 4, NPEs: 6, Local: 1}
	c := nearConfig(j, coll.ShmemShared, ModeTolerant)
	want := []coll.Member{{Local: 0, PE: 3}, {Local: 1, PE: 4}, {Local: 2, PE: 5}}
	if !slices.Equal(c.Members, want) || c.Members[c.Me].PE != j.PE || c.ID != coll.ShmemShared || !c.Tolerant {
		t.Errorf("got %+v, want members %+v and PE %d at index %d", c, want, j.PE, c.Me)
	}
	if inc := c.Incarnation(0); inc != 1 { // of a far PE, which has no segment here
		t.Errorf("PE 0 has incarnation %d, want 1", inc)
	}
}

// A team of all PEs is not possible if some are far. Init says so before it touches a segment.
func TestFarWorldRefused(t *testing.T) {
	if w, err := newWorld(&job.Job{Place: secondNode, PE: 4, NPEs: 6, Local: 1}, ModeStrict); err == nil {
		t.Errorf("a world with far PEs was made: %+v", w)
	}
}

// reversed returns the PEs in the opposite order.
func reversed(pes []layout.PE) []layout.PE {
	pes = slices.Clone(pes)
	slices.Reverse(pes)
	return pes
}

// Peer returns no address for a far PE or for a number that is no PE of the job.
func TestFarPeer(t *testing.T) {
	h := &heap{job: &job.Job{Place: secondNode}}
	for _, pe := range []layout.PE{-1, 0, 2, 6} {
		if s, is := peerSlice(h, Sym[int64]{n: 1, tag: 1}, pe); is || s != nil {
			t.Errorf("PE %d is reachable at %v, want no address", pe, s)
		}
	}
}
