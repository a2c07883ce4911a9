package mpi

import (
	"errors"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// secondNode returns the jobs of PEs 3 to 5 of 6, which are on the second of two nodes, and their
// failure page.
func secondNode(t *testing.T) (jobs []*job.Job, page *failure.Page) {
	t.Helper()
	place := job.Place{Nodes: 2, First: 3, Near: 3, NPEs: 6}
	var files []*os.File
	page, err := failure.Create([16]byte{}, place.NPEs)
	for _, pe := range place.Locals() {
		f, ferr := symheap.Create(symheap.Identity{PE: uint32(pe), NPEs: uint32(place.NPEs), Incarnation: 1}, 1<<20)
		files, err = append(files, f), errors.Join(err, ferr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = page.Close() })
	size, err := files[0].Stat()
	if err != nil {
		t.Fatal(err)
	}
	for me, pe := range place.Locals() {
		j := &job.Job{Place: place, PE: pe, NPEs: place.NPEs, Local: me}
		if j.Map, err = symheap.NewMap([16]byte{}, place.Near, uint64(size.Size())); err != nil {
			t.Fatal(err)
		}
		for i, other := range place.Locals() {
			err = errors.Join(err, j.Map.Attach(i, other, int(files[i].Fd())))
		}
		if j.Failures, err = failure.Attach(int(page.File().Fd()), [16]byte{}, place.NPEs); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { delete(persistentOf, j.Map) })
		jobs = append(jobs, j)
	}
	for _, f := range files {
		_ = f.Close()
	}
	return jobs, page
}

// Lanes and call bits in a segment go by the sender's index on the node. PEs have their numbers in
// the job.
func TestLanesOfSecondNode(t *testing.T) {
	jobs, _ := secondNode(t)
	sender, receiver := newEngine(jobs[1]), newEngine(jobs[2])
	if l := sender.laneTo(5); l.pe != 5 || sender.laneTo(5) != l {
		t.Errorf("the lane to PE 5 leads to PE %d, or there are two such lanes", l.pe)
	}
	if bits := receiver.own.Callers[0]; bits != 1<<1 {
		t.Errorf("PE 5 has the call bits %b, want that of index 1", bits)
	}
	receiver.progress()
	for pe, l := range receiver.in {
		if (l != nil) != (pe == 4) {
			t.Errorf("PE %d has a lane to PE 5: %v, want the opposite", pe, l != nil)
		}
	}
	if l := receiver.in[4]; l == nil || l.pe != 4 || l.head != &receiver.own.LaneHeads[1] || l.bell != &jobs[2].Map.Control(1).Bell {
		t.Errorf("got %+v, want the lane of index 1 with its bell", l)
	}
	if at, want := receiver.segmentAddress(4, 64), unsafe.Add(jobs[2].Map.Segment(1), 64); at != want {
		t.Errorf("the memory of PE 4 is at %p, want %p", at, want)
	}
}

// An engine learns of a death on another node, although no segment of that node is mapped.
func TestDeathOnOtherNode(t *testing.T) {
	jobs, page := secondNode(t)
	e := newEngine(jobs[2])
	for _, pe := range []layout.PE{0, 4} {
		page.Publish(int(pe), 1, failure.ByExit(1), 0)
		if !e.hasWork() {
			t.Errorf("the death of PE %d is not work to do", pe)
		}
		e.progress()
		for other := range layout.PE(6) {
			if want := other == 0 || other == pe; e.isDead(other) != want {
				t.Errorf("after the death of PE %d: PE %d is dead: %v, want the opposite", pe, other, !want)
			}
		}
	}
}

// A communicator of all ranks is not possible if some are far. Init says so before it touches a
// segment.
func TestFarWorldRefused(t *testing.T) {
	j := &job.Job{Place: job.Place{Nodes: 2, First: 3, Near: 3, NPEs: 6}, PE: 4, NPEs: 6, Local: 1}
	if w, err := newWorld(t.Context(), j); err == nil {
		t.Errorf("a world with far ranks was made: %+v", w)
	}
}

// A rank of another node may leave a communicator before this process has made it. A rank that has left an earlier one does not count.
func TestLeftEarly(t *testing.T) {
	e := newEngine(secondNodeJob(t))
	e.far = &farSide{}
	noteLeft(e, 65, 1)
	noteLeft(e, 65, 7) // out of range
	noteLeft(e, 129, 0)
	g := &group{e: e, number: 65, n: 6}
	e.addGroup(g)
	e.noteEarly(g)
	noteLeft(e, 65, 4)
	noteLeft(e, 1, 2) // an earlier one
	if want := []bool{false, true, false, false, true, false}; !slices.Equal(g.left, want) || len(e.early) != 1 {
		t.Errorf("ranks that have left: %v, want %v; %d are kept, want that of the next communicator", g.left, want, len(e.early))
	}
}

// secondNodeJob returns the first job of secondNode.
func secondNodeJob(t *testing.T) *job.Job {
	t.Helper()
	jobs, _ := secondNode(t)
	return jobs[0]
}

// useInbox gives the engine of secondNode an inbox, in which are no messages.
func useInbox(e *engine) {
	e.far = &farSide{inbox: new(layout.Inbox)}
	e.far.lane = &inLane{head: &e.far.inbox.Head, shape: layout.LaneShape{Size: layout.InboxSize, Cells: layout.InboxCells, Data: layout.InboxData}, pe: manyPEs}
	e.far.lane.first, e.far.lane.room = e.far.inbox.Cells()
	e.in[0], e.in[1], e.in[2] = e.far.lane, e.far.lane, e.far.lane
}

// A process that has reached no other job takes no notice for one of its own job. It remembers who has finalized until it reaches that job.
func TestNoticesOfStrangers(t *testing.T) {
	e := newEngine(secondNodeJob(t))
	useInbox(e)
	e.openInbox()
	g := &group{e: e, number: 9, n: 6, pes: allPEs(6)}
	e.addGroup(g)
	name := layout.GuestName(0, 7)
	for i, match := range []uint64{matchOf(0, noticeGone), matchOf(g.number, noticeLeft)} {
		c := e.far.lane.first.At(i)
		c.Match, c.Size, c.Mark = match, sizeOf(0, 0), uint64(name)<<layout.InboxPE|kindNotice<<32|uint64(i+1)
	}
	e.drainLanes()
	if e.far.lane.cells != 2 || g.left != nil {
		t.Errorf("%d cells are read, and ranks %v have left, want 2, and none", e.far.lane.cells, g.left)
	}
	f := &foreignJob{Peers: &job.Peers{NPEs: 2, Base: 6}}
	f.recallGone(e.far, 0, name+1)
	f.recallGone(e.far, 1, name)
	if !slices.Equal(f.gone, []bool{false, true}) || len(e.far.gone) != 0 {
		t.Errorf("PEs of the other job that have finalized: %v, want the second one; %v is remembered, want nothing", f.gone, e.far.gone)
	}
}

// A death that is published while an earlier one is acted on waits until what the dead rank has sent is read: its node's agent may have
// more than the inbox has room for.
func TestSecondDeathWaits(t *testing.T) {
	jobs, page := secondNode(t)
	e := newEngine(jobs[2])
	useInbox(e)
	page.Publish(0, 1, failure.ByExit(1), 0)
	epoch := e.job.Failures.Epoch()
	e.far.inbox.Queued = 5
	page.Publish(1, 1, failure.ByExit(1), 0)
	e.processDeaths(epoch)
	e.progress()
	if !e.isDead(0) || e.isDead(1) {
		t.Errorf("PE 0 is dead: %t, PE 1: %t, want true, and false while cells of PE 1 wait", e.isDead(0), e.isDead(1))
	}
	e.far.lane.cells = 5
	e.progress()
	if !e.isDead(1) {
		t.Error("all is read, and PE 1 is not dead")
	}
}
