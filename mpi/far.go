package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/spanjob"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Messages between nodes
//
// Between nodes, cells go by the agents: package far takes them, and the agent of the receiver's node writes them into the inbox of the receiver.
// The inbox is a lane among the others, so progress finds its cells where it finds all. Its cells name their senders.
//
//   - A short message is one cell, with its data.
//   - A longer one is announced. Its receiver asks for it (kindClear), and the sender sends it in parts.
//
// Order: what a PE sends to another one goes by one stream of records, which keeps its order, into one lane.
//
// Room: the sender's lane to a far PE is full if the agent has no block for it. Then packets wait as in a full lane of this node.
//
// Deaths: the agent of this node takes nothing of a dead PE any more when the failure page tells of the death. What it has taken before is
// in the inbox, or waits for room there, up to the cell layout.Inbox.Queued. So a death takes effect here when these cells are read.

// farSide is the part of the engine that is for PEs of other nodes. It outlives Finalize.
type farSide struct {
	port  *far.Port
	inbox *layout.Inbox
	lane  *inLane            // of the inbox
	teams *spanning.Process  // that span nodes
	gone  map[layout.PE]bool // names in the inbox of processes that have finalized, of jobs that this one has not reached

	sends uint64 // messages to other nodes that do not fit a cell

	epoch uint64 // of the failure page, for which last is valid
	last  uint64 // number of the last cell that the dead of that epoch can have sent
}

// farLane is the shape of lanes to other nodes: without cells, so that nothing is written into them, and with as much room as a part of a message
// may want.
var farLane = layout.LaneShape{Data: fragmentMost}

// joinFar makes the far side, if the job has several nodes. A process that joins its job once more has another port.
func (p *persistent) joinFar(j *job.Job) {
	switch f := p.far; {
	case j.Far == nil:
		return
	case f == nil:
		f = &farSide{inbox: &j.Map.Wire(j.Local).Inbox}
		f.lane = &inLane{
			head: &f.inbox.Head, shape: layout.LaneShape{Size: layout.InboxSize, Cells: layout.InboxCells, Data: layout.InboxData}, pe: manyPEs,
		}
		f.lane.first, f.lane.room = f.inbox.Cells()
		p.far = f
	case f.port == j.Far:
		return
	}
	p.far.port, p.far.lane.port = j.Far, j.Far
	for pe := range layout.PE(j.NPEs) {
		if _, near := j.Place.Local(pe); !near {
			p.in[pe], p.out[pe] = p.far.lane, nil
		}
	}
	p.nameGuests(j)
	if j.IsGuest() { // it has no teams of several nodes
		return
	}
	teams := spanjob.NewProcess(j, layout.UpperFirstRanks)
	if p.far.teams == nil {
		p.far.teams = teams
	} else {
		p.far.teams.Config = teams.Config
	}
}

// openInbox has the agent put messages into the inbox from now on, and this process read them. It has reached the jobs from which messages may have come.
func (e *engine) openInbox() {
	e.far.open(true)
	e.mu.Lock()
	defer e.unlock()
	if active := *e.active.Load(); !slices.Contains(active, e.far.lane) {
		active = append(slices.Clone(active), e.far.lane)
		e.active.Store(&active)
	}
}

// open has the agent put messages into the inbox from now on, or drop them.
func (f *farSide) open(is bool) {
	word := uint32(0)
	if is {
		word = 1
	}
	atomic.StoreUint32(&f.inbox.Open, word)
}

// laneTo returns a lane to a far PE.
func (f *farSide) laneTo(pe layout.PE) *outLane {
	return &outLane{head: new(layout.Lane), shape: farLane, pe: pe, far: f.port}
}

// writeFar is write for a lane to another node.
func (l *outLane) writeFar(p *packet, last bool) bool {
	m := far.Message{Kind: p.kind, Match: p.match, Size: p.size, Data: p.data, N: p.n}
	if p.kind != kindEager {
		m.Body = (*[layout.CellBody]byte)(unsafe.Pointer(&p.body))
	}
	return far.TrySend(l.far, l.pe, &m, last)
}

// The conversion fails to compile if a parcel is no body of a cell.
const _ = uint(layout.CellBody-unsafe.Sizeof(parcel{})) + uint(unsafe.Sizeof(parcel{})-layout.CellBody)

// hasReadDead reports whether everything is read that the dead up to an epoch have sent, of this job and of others.
func (f *farSide) hasReadDead(epoch uint64, others *foreigners) bool {
	if f.epoch != epoch {
		for _, x := range others.all() {
			x.seen = x.Failures.Epoch()
		}
		f.epoch, f.last = epoch, atomic.LoadUint64(&f.inbox.Queued)
	}
	return f.lane.cells >= f.last
}

// startFarTransfer begins to move a message that a PE of another node has announced. n bytes of it fit the buffer.
func (t *transfers) startFarTransfer(r *request, m *message, n int) {
	r.pe = m.pe
	switch {
	case n == 0:
		t.releaseSender(m)
		t.complete(r, nil)
	case t.isDead(m.pe):
		t.failByDeath(r)
	case m.offset != 0 && !r.exclusive:
		r.peerNumber = m.sender
		r.useShare().get = &farGet{offset: m.offset}
		t.pulls = append(t.pulls, r)
		t.copying.Add(1)
	default:
		t.sendPacket(t.laneTo(m.pe), &packet{kind: kindClear, body: parcel{to: m.sender, from: t.table.assignNumber(r), size: uint64(n)}})
	}
}

// farGet is a receive that reads its message from the heap of a PE of another node, by gets of parts. A receive whose buffer is exclusive does
// not: the gets that are under way cannot be taken back.
type farGet struct {
	offset uint64         // of the message, in the segment of its sender
	asked  int            // bytes for which there are gets
	parts  []*far.Pending // those that are under way
	err    error          // of the first one that has failed
}

const (
	getMost  = 256 << 10 // bytes of a get
	getsMost = 4         // gets of a message that are under way
)

// getParts makes progress with such a receive. It reports whether it is over, and whether there was progress.
func (c *copier) getParts(r *request) (over, moved bool) {
	g := r.share.get
	g.parts = slices.DeleteFunc(g.parts, func(p *far.Pending) bool {
		done, err := p.Poll()
		if g.err == nil {
			g.err = err
		}
		moved = moved || done
		return done
	})
	for r.share.cause == nil && g.err == nil && g.asked < r.size && len(g.parts) < getsMost {
		p, n := far.TryGet(c.far.port, r.pe, g.offset+uint64(g.asked), unsafe.Add(r.buf, g.asked), min(r.size-g.asked, getMost))
		if n == 0 {
			break
		}
		g.parts, g.asked, moved = append(g.parts, p), g.asked+n, true
	}
	switch {
	case len(g.parts) > 0 || r.share.cause == nil && g.err == nil && g.asked < r.size:
		return false, moved
	case r.share.cause != nil:
		c.endPull(r, r.share.cause)
	case isFarDeath(g.err):
		return false, moved // processDeaths ends it
	case g.err != nil:
		c.endPull(r, fmt.Errorf("mpi.%s: message from the heap of rank %d: %w", r.op, r.g.rank(r.pe), g.err))
	default:
		c.endPull(r, nil)
	}
	return true, moved
}

// isFarDeath reports whether a get has failed as its PE has died. The failure page may not say so yet.
func isFarDeath(err error) bool {
	_, is := errors.AsType[*far.DeadError](err)
	return is
}

// announceLeft tells the ranks of other nodes that this one leaves the communicator without having met them. Ranks of this node see that
// themselves.
func (g *group) announceLeft() {
	e := g.e
	if e.far == nil || g.t == nil { // shutDown tells the ranks of communicators without a team
		return
	}
	e.mu.Lock()
	defer e.unlock()
	p := packet{kind: kindNotice, match: matchOf(g.number, noticeLeft), size: sizeOf(g.me, 0)}
	for _, pe := range g.pes {
		if !e.isNear(pe) && !e.isDead(pe) {
			_ = e.laneTo(pe).writeFar(&p, true) // without a single free block the rank learns of it by this PE's end, if at all
		}
	}
}

// noteLeft notes that a rank of another node has left a communicator. This process may not have made it yet.
func noteLeft(e *engine, comm uint32, rank int) {
	switch g := e.groups[comm]; {
	case g != nil:
		g.setLeft(rank)
	case e.isComing(comm):
		e.early = append(e.early, earlyLeft{comm, rank})
	}
}

// setLeft notes that a rank has left. The caller has the engine's lock.
func (g *group) setLeft(rank int) {
	if rank >= g.n {
		return
	}
	if g.left == nil {
		g.left = make([]bool, g.n)
	}
	g.left[rank] = true
	if g.hidden != nil {
		wakeSleepers(g)
		g.e.wakeProbes(nil, envelope{})
	}
}

// earlyLeft is a rank that has left a communicator before this process has made it.
type earlyLeft struct {
	comm uint32
	rank int
}

// noteEarly notes which ranks have left a communicator that was made just now.
func (e *engine) noteEarly(g *group) {
	e.early = slices.DeleteFunc(e.early, func(x earlyLeft) bool {
		if x.comm == g.number {
			g.setLeft(x.rank)
		}
		return !e.isComing(x.comm)
	})
}

// farSettled is a wait until other nodes have taken everything that this PE has sent.
type farSettled struct{ e *engine }

// Poll makes progress.
func (f farSettled) Poll() wait.Look {
	moved := f.e.serve()
	switch {
	case far.Taken(f.e.far.port):
		return wait.Over
	case moved:
		return wait.Moved
	default:
		return wait.Nothing
	}
}

// inboxDrained is a wait until everything is read that the agent had for this PE when it began.
type inboxDrained struct {
	e    *engine
	last uint64
}

// Poll makes progress.
func (f inboxDrained) Poll() wait.Look {
	moved := f.e.serve()
	switch {
	case atomic.LoadUint64(&f.e.far.lane.cells) >= f.last:
		return wait.Over
	case moved:
		return wait.Moved
	default:
		return wait.Nothing
	}
}

// joinNodes makes the team of all ranks, if they are on several nodes, of that of this node. It meets them, so that a node knows the team
// and takes messages before another one uses it.
func (e *engine) joinNodes(ctx context.Context, part *coll.Team) (*spanning.Team, error) {
	f := e.far
	if f == nil {
		return nil, nil //nolint:nilnil // the part is the team
	}
	if e.job.Place.Nodes == 1 { // a spawned job, which has messages with other ones
		e.openInbox()
		return nil, nil //nolint:nilnil // likewise
	}
	t, err := spanning.New(f.teams, part, allPEs(e.job.NPEs))
	f.teams.Renew()
	if err == nil {
		e.openInbox()
		if err = e.job.Fence(ctx); err != nil {
			f.open(false)
			t.Leave()
			t.Release()
		}
	}
	return t, err
}

// closeInbox has the agent drop messages from now on.
func (e *engine) closeInbox() {
	if e.far != nil {
		e.far.open(false)
	}
}

// settleFar returns when other nodes have taken everything that this PE has sent. It returns early if ctx ends.
func (e *engine) settleFar(ctx context.Context) {
	if e.far != nil {
		_ = e.job.Waiter.WaitPoll(farSettled{e}, ctx)
	}
}

// settleFarBriefly is settleFar for flushTimeout at most.
func settleFarBriefly(e *engine) {
	bounded, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	e.settleFar(bounded)
}

// drainInbox reads everything that the agent has for this PE.
func (e *engine) drainInbox(ctx context.Context) {
	if e.far != nil {
		_ = e.job.Waiter.WaitPoll(inboxDrained{e, atomic.LoadUint64(&e.far.inbox.Queued)}, ctx)
	}
}
