package server

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// pairsOfZero returns fences of rank 0 with one other rank each.
func pairsOfZero(n int) []codec.Request {
	out := make([]codec.Request, n)
	for i := range out {
		out[i] = fenceOf(0, codec.Rank(i+1))
	}
	return out
}

func TestSetsOfFencesAreBounded(t *testing.T) {
	w := started(t, maxFenceSets+2)
	for _, r := range pairsOfZero(maxFenceSets) {
		w.request(0, r)
	}
	w.expect()
	w.request(0, fenceOf(0, maxFenceSets+1))
	w.expect("refused fence: too many under way", fmt.Sprintf("reply 0#%d ERR_OUT_OF_RESOURCE", 101+maxFenceSets))
}

// The memory of fences across nodes is bounded, too, and is freed with the job.
func TestSequencesAreBounded(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.addJob(secondJob(1))
	w.request(0, fenceOf(0, 2))
	id := fenceID("job-1:0,2", 1)
	w.step(event{kind: evFenceDone, fence: id})
	for i := range maxSequences { // fill the table with other sets
		w.core.fences.sequences[FenceSet{Op: opFence, Procs: fmt.Sprint("job-2:", i)}] = &sequence{last: 1, spaces: []*nspace{w.core.spaces["job-2"]}}
	}
	w.log = nil
	w.request(0, fenceOf(0, 2)) // the known set still works
	w.request(0, fenceOf(0, 3))
	w.expect("fence job-1:0,2#2 0 bytes", "refused fence: too many under way", "reply 0#103 ERR_OUT_OF_RESOURCE")
	w.step(event{kind: evRemoveJob, proc: second(0)})
	w.request(0, fenceOf(0, 3))
	if n := len(w.log); n == 0 || !strings.HasPrefix(w.log[n-1], "fence job-1:0,3#1") {
		t.Errorf("%v, want the fence to be handed in", w.log)
	}
}

// All processes of a spawned job may connect at once without evicting each other.
func TestSilentConnectionsGrowWithJobs(t *testing.T) {
	s, addr := startLimited(t, 1, func(l *limits) { l.unknown = 1 }, nil)
	if err := s.AddJob(secondJob(4), first(0)); err != nil {
		t.Fatal(err)
	}
	var all []net.Conn
	for range 8 {
		all = append(all, dialRaw(t, addr))
	}
	for rank, nc := range all[:4] {
		introduceRaw(t, nc, second(codec.Rank(rank)))
	}
	s.RemoveJob("job-2")
	s.RemoveJob("job-2")
	if s.reg.limit != 1 {
		t.Errorf("%d silent connections are allowed after the job, want 1 again", s.reg.limit)
	}
}
