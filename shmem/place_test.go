package shmem

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// secondNode is the place of PEs 3 to 5 of 6, on the second of two nodes.
var secondNode = job.Place{Nodes: 2, First: 3, Near: 3, NPEs: 6}

// The fast half addresses a team whose PEs are near and in arithmetic progression from the first
// member's segment.
func TestNearProgression(t *testing.T) {
	for _, c := range []struct {
		pes   []layout.PE
		first layout.Local
		step  int
		is    bool
	}{
		{[]layout.PE{3, 4, 5}, 0, 1, true},
		{[]layout.PE{5, 4, 3}, 2, -1, true},
		{[]layout.PE{3, 5}, 0, 2, true},
		{[]layout.PE{4}, 1, 0, true},
		{[]layout.PE{3, 5, 4}, 0, 0, false},
		{[]layout.PE{2, 3, 4}, 0, 0, false},
		{[]layout.PE{4, 5, 6}, 0, 0, false},
		{[]layout.PE{1, 3, 5}, 0, 0, false},
		{[]layout.PE{0, 1, 2}, 0, 0, false},
		{[]layout.PE{2}, 0, 0, false},
	} {
		if first, step, is := nearProgression(secondNode, c.pes); first != c.first || step != c.step || is != c.is {
			t.Errorf("PEs %v: index %d, step %d, %v, want %d, %d, %v", c.pes, first, step, is, c.first, c.step, c.is)
		}
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

// Peer returns no address for a far PE or for a number that is no PE of the job.
func TestFarPeer(t *testing.T) {
	h := &heap{job: &job.Job{Place: secondNode}}
	for _, pe := range []layout.PE{-1, 0, 2, 6} {
		if s, is := peerSlice(h, Sym[int64]{n: 1, tag: 1}, pe); is || s != nil {
			t.Errorf("PE %d is reachable at %v, want no address", pe, s)
		}
	}
}
