package fence

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// pairOfCores has the first fence of a job's set, and others with it, end between two nodes.
type pairOfCores struct {
	t    *testing.T
	a, b *Fences
}

func newPair(t *testing.T) *pairOfCores {
	t.Helper()
	any2 := Layout{Nodes: 2, NodeOf: func(p codec.Proc) (int, bool) { return int(p.Rank), true }}
	p := &pairOfCores{t: t}
	for me, f := range []**Fences{&p.a, &p.b} {
		any2.Me = me
		var err error
		if *f, err = NewFences(any2); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// partOf is a node's part of the first fence of all processes of some jobs.
func partOf(procs string, names ...string) *server.FencePart {
	part := &server.FencePart{FenceCall: server.FenceCall{ID: server.FenceID{FenceSet: server.FenceSet{Op: "fence", Procs: procs}, Seq: 1}}}
	for _, name := range names {
		part.Procs = append(part.Procs, codec.Proc{Nspace: name}, codec.Proc{Nspace: name, Rank: 1})
	}
	return part
}

// meet has both nodes hand in their parts of a fence, which ends.
func (p *pairOfCores) meet(part *server.FencePart) {
	p.t.Helper()
	toB, toA := p.a.HandIn(part, nil), p.b.HandIn(part, nil)
	done := 0
	for len(toA)+len(toB) > 0 {
		var fromA, fromB []Output
		_, fromB = pass(0, toB, p.b)
		rest, more := pass(1, toA, p.a)
		fromA = more
		for _, o := range append(rest, fromA...) {
			if o.Kind == Done {
				done++
			}
			if o.Kind == Fault {
				p.t.Error(o.Err)
			}
		}
		toA, toB = fromB, fromA
	}
	if done == 0 {
		p.t.Fatalf("fence %v has not ended on node 0", part.ID)
	}
}

// live has a job come, meet its parent and itself, and go.
func (p *pairOfCores) live(name string) {
	p.t.Helper()
	for _, f := range []*Fences{p.a, p.b} {
		f.JobAdded(name)
	}
	p.meet(partOf(name+":*", name))
	p.meet(partOf(name+":*;parent:*", name, "parent"))
	for _, f := range []*Fences{p.a, p.b} {
		f.JobOver(name)
	}
}

// A node keeps the sets of few jobs that are over, and those of jobs that live.
func TestSetsGoWithTheirJobs(t *testing.T) {
	p := newPair(t)
	for _, f := range []*Fences{p.a, p.b} {
		f.JobAdded("parent")
	}
	p.meet(partOf("parent:*", "parent"))
	for i := range 5 * keptGenerations {
		p.live(fmt.Sprint("job-", i))
	}
	for node, f := range []*Fences{p.a, p.b} {
		if got, most := len(f.sets), 1+2*keptGenerations; got > most || len(f.jobs.over) > keptGenerations || len(f.jobs.added) != 1 {
			t.Errorf("node %d keeps %d sets, %d jobs that are over, %d that live; want at most %d, %d, and one",
				node, got, len(f.jobs.over), len(f.jobs.added), most, keptGenerations)
		}
		if f.sets[server.FenceSet{Op: "fence", Procs: "parent:*"}] == nil {
			t.Errorf("node %d has dropped the set of a job that lives", node)
		}
	}
}

// Jobs that end together with others are no generation for them: they may have been there before.
func TestGenerationsOfJobs(t *testing.T) {
	p := newPair(t)
	for i := range 3 * keptGenerations {
		p.a.JobAdded(fmt.Sprint("job-", i))
	}
	for i := range 3 * keptGenerations {
		p.a.JobOver(fmt.Sprint("job-", i))
		p.a.JobOver(fmt.Sprint("job-", i)) // twice: the second is none
	}
	if p.a.jobs.generation != 1 || len(p.a.jobs.over) != 3*keptGenerations {
		t.Errorf("generation %d, %d jobs are over; want 1 and %d", p.a.jobs.generation, len(p.a.jobs.over), 3*keptGenerations)
	}
}

// A set whose fence has not ended stays until it has.
func TestOpenFenceKeepsItsSet(t *testing.T) {
	p := newPair(t)
	p.a.JobAdded("slow")
	part := partOf("parent:*;slow:*", "parent", "slow")
	out := p.a.HandIn(part, nil)
	p.a.unplaced[server.FenceID{FenceSet: server.FenceSet{Procs: "slow:0"}, Seq: 1}] = codec.StatusErrNotFound
	p.a.JobOver("slow")
	next := 0
	pass16 := func() {
		for range keptGenerations + 1 {
			next++
			p.a.JobAdded(fmt.Sprint(next))
			p.a.JobOver(fmt.Sprint(next))
		}
	}
	pass16()
	pass16()
	if len(p.a.sets) != 1 || len(p.a.unplaced) != 0 {
		t.Fatalf("%d sets and %d fences without a place, want the one with an open fence and none", len(p.a.sets), len(p.a.unplaced))
	}
	_, toA := pass(0, out, p.b)
	toA = p.b.HandIn(part, toA)
	for len(toA) > 0 {
		_, toB := pass(1, toA, p.a)
		_, toA = pass(0, toB, p.b)
	}
	pass16()
	if len(p.a.sets) != 0 {
		t.Errorf("%d sets are left after the end of the fence, want none", len(p.a.sets))
	}
}
