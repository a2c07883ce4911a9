package mpi

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/reach"
	"github.com/goshmem/goshmem/symheap/layout"
)

// engine moves the messages of a process, inside of calls of this package and of all waits of the
// process (wait.Waiter.Serve), on the goroutine that calls.
//
// It is built in layers. Each layer embeds the one below by value, so that a call from one to another
// costs nothing, and calls no method of a layer above:
//
//	engine     progress, receipt of cells, deaths, ends
//	matcher    messages and receives that wait for each other
//	transfers  messages on the way to the receive that they have met
//	copier     long messages that are copied between processes
//	outbound   lanes to other processes
//	process    job, lock, completion of requests
type engine struct {
	matcher
	requests      requestPool
	ended         []*group      // revoked, and perhaps not freed
	world         *group        // of all ranks; nil until it is made
	cellsReceived uint64        // from all lanes, except those that direct receives have read
	directs       uint          // direct receives so far
	posts         uint          // receives that began while others waited
	idle          time.Duration // sleeps of the driver that nothing has ended, since wakeDeserted
	lookedAround  atomic.Int64  // when lookAround last called wakeDeserted

	generals map[*request]struct{} // requests of Go that go on
}

func newEngine(j *job.Job) *engine {
	p := persistentFor(j)
	p.table.endLoans(func(layout.PE) bool { return true }) // since Finalize nobody uses a share
	most := pieceLimit(p.shape)
	e := &engine{}
	e.persistent, e.job, e.me, e.own = p, j, j.PE, j.Map.Control(j.Local)
	e.eager, e.fragment = min(eagerMost, most), min(fragmentMost, most)
	e.groups, e.future = map[uint32]*group{}, map[uint32]*queue{}
	e.access = make([]peerMemory, len(p.out))
	e.requests.lock, e.advance = &e.mu, e.advanceSchedules
	p.endHolds()
	reach.Publish(e.own)
	return e
}

// newGroup makes a communicator of a team, with all its members. If it spans nodes, upper is the team, and t its part here.
//
// The communicator's number is the same at all members. It is greater than any that a member has known
// with the team's id. So late messages of an earlier communicator differ from early ones of this one,
// and two communicators with the same members at one time have different ids.
func (e *engine) newGroup(ctx context.Context, t *coll.Team, upper *spanning.Team) (*group, error) {
	g := e.groupOf(t, upper)
	e.mu.Lock()
	latest := e.numbers.latest(t.ID())
	e.mu.Unlock()
	all, err := g.gatherWords(ctx, "Init", callNumber, coll.Words{uint64(latest)})
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		latest = max(latest, uint32(w[0]))
	}
	if latest/layout.MaxTeams+1 >= numbersMost {
		return nil, errNumbers("Comm.Split")
	}
	g.number = nextNumber(latest, t.ID())
	return g, e.enterOpen(g)
}

// enterOpen adds a communicator that was made, unless the engine is closed.
func (e *engine) enterOpen(g *group) error {
	e.mu.Lock()
	defer e.unlock()
	if e.closed.Load() { // another goroutine has called Finalize meanwhile
		return ErrFinalized
	}
	e.enter(g)
	return nil
}

// groupOf returns the communicator of a team, without its number.
func (e *engine) groupOf(t *coll.Team, upper *spanning.Team) *group {
	g := &group{e: e, t: t, upper: upper, me: t.Me(), n: t.Size(), checks: e.job.CheckCollectives, pes: t.PEs()}
	g.always = &revocable{context.Background(), g}
	if upper != nil {
		g.me, g.n, g.pes, g.checks = int(e.me), upper.Size(), upper.PEs(), false // steps between nodes compare what they do
		g.mourning = &mourning{context.Background(), g}
	}
	g.ranks = rankTable(e, g.pes)
	return g
}

// enter adds a communicator that was made. The caller has the engine's lock.
func (e *engine) enter(g *group) {
	g.collectives.g = g
	g.hidden = &group{e: e, t: g.t, upper: g.upper, me: g.me, n: g.n, pes: g.pes, ranks: g.ranks, number: g.number | hiddenComm}
	g.agreeing = &group{e: e, me: g.me, n: g.n, pes: g.pes, ranks: g.ranks, number: g.number | agreeingComm}
	g.agreeing.agreement = &agreement{g: g.agreeing, of: g}
	g.partitioned = &group{e: e, t: g.t, upper: g.upper, me: g.me, n: g.n, pes: g.pes, ranks: g.ranks, number: g.number | partitionedComm}
	g.partitioned.partitions = &partitions{}
	e.addGroup(g)
	for rank, pe := range g.pes {
		if e.isDead(pe) {
			g.collectives.dead = append(g.collectives.dead, rank)
		}
	}
	e.noteEarly(g)
	noteRevokedEarly(e, g)
	noteBlocksEarly(e, g)
	e.progress()
	g.ackedEpoch.Store(0)
	g.unackedDeath.Store(len(g.failedSince(0)) > 0)
}

// hasWork reports whether progress may find anything to do. It takes no lock.
func (e *engine) hasWork() bool {
	for _, l := range *e.active.Load() {
		if l.hasCell() {
			return true
		}
	}
	if e.blockedCount.Load() != 0 || e.copying.Load() != 0 || e.job.Failures.Epoch() != e.deathEpoch.Load() {
		return true
	}
	for i := range e.callers {
		if atomic.LoadUint64(&e.own.Callers[i]) != atomic.LoadUint64(&e.callers[i]) {
			return true
		}
	}
	return e.foreign.hasCallers()
}

// serve makes progress for a wait of another package.
func (e *engine) serve() bool {
	if !e.hasWork() {
		return false
	}
	e.mu.Lock()
	defer e.unlock()
	return e.progress()
}

// cellsMost is how many cells of a lane progress reads at most. So a sender that never pauses holds up
// neither other senders nor the deadline of a wait.
const cellsMost = 64

// progress does what there is to do, and reports whether there was anything. It acts on the deaths
// that were published before it read the lanes: what the dead have sent is received first.
func (e *engine) progress() (did bool) { return e.progressLimited(cellsMost, nil) }

// progressFor is progress for a communicator in which receives wait. It reads no more cells of a lane than
// there are receives. A message without a receive would be kept, which costs more than to leave it in
// the lane until its receive comes. The limit is half of cellsMost, because request.progress may read as
// many cells again.
func (e *engine) progressFor(receives int) (did bool) {
	return e.progressLimited(min(max(receives, 1), cellsMost/2), nil)
}

// progressLimited is progress that reads at most limit cells of a lane, and none of the lane skip,
// which the caller reads itself.
func (e *engine) progressLimited(limit int, skip *inLane) (did bool) {
	epoch := e.job.Failures.Epoch()
	for i := range e.callers {
		if now := atomic.LoadUint64(&e.own.Callers[i]); now != e.callers[i] {
			e.addCallers(i, now)
		}
	}
	if e.foreign.jobs.Load() != nil {
		addForeignCallers(e)
	}
	for _, l := range *e.active.Load() {
		if l != skip {
			did = e.receiveCells(l, limit) || did
		}
	}
	if epoch != e.deathEpoch.Load() && (e.far == nil || e.far.hasReadDead(epoch, &e.foreign)) {
		e.processDeaths(epoch)
		did = true
	}
	if len(e.blocked) > 0 {
		did = e.writeBlocked() || did
	}
	if len(e.pulls)+len(e.pushes) > 0 {
		did = e.copyNextParts() || did
	}
	return did
}

// progressBeside is progress beside direct receives, which leave all else alone. It looks at everything
// after each directMost of them, and where there is more to do than to read lanes. It leaves the lane
// of the direct receives as it is: messages from there go straight to their buffers.
func (e *engine) progressBeside(direct *inLane) {
	if e.directs++; e.directs%directMost == 0 || len(e.blocked)+len(e.pulls)+len(e.pushes) > 0 {
		e.progressLimited(cellsMost, direct)
	}
}

// addCallers makes the lanes of the PEs that are new in a word of callers.
func (e *engine) addCallers(word int, now uint64) {
	active := slices.Clone(*e.active.Load())
	for bit := range 64 {
		local := layout.Local(64*word + bit)
		if now>>bit&1 == 0 || int(local) >= e.job.Place.Near {
			continue
		}
		pe := e.job.Place.PE(local)
		if e.in[pe] != nil {
			continue
		}
		l := &inLane{bell: &e.job.Map.Control(local).Bell, shape: e.shape, pe: pe}
		l.head, l.first, l.room = e.own.Lane(e.shape, local)
		e.in[pe] = l
		active = append(active, l)
	}
	e.active.Store(&active)
	atomic.StoreUint64(&e.callers[word], now)
}
