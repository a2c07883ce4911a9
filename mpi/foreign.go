package mpi

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Processes of other jobs
//
// Processes that Spawn has started are a job of their own, with numbers, segments and a failure page of their own. A process that exchanges messages with them
// maps all of that, and the passages between the two jobs (layout.Passage): lanes like those of its own job. So all layers find the memory of a process of
// another job as that of a near PE: lanes, bells, shares, private memory.
//
//   - Numbers. A process calls the PEs of its own job by their numbers, and those of other jobs by the numbers behind these, in the order in which it has
//     reached the jobs. Such a number means something in this process only: messages never have it, they name ranks of communicators.
//   - Deaths. When a PE dies, the step process also begins a new epoch of the failure pages of the jobs that have passages to its job. So a process looks at
//     one epoch, that of its own page, and at other pages only if that has changed. A death in another job counts from the epoch in which this
//     process has found it.
//   - Other nodes. Messages to PEs of other jobs there go by the agents, as those to PEs of the own job (farforeign.go).
//   - Finalize. A process stores Gone in its passages behind its last message to another job, and sends noticeGone to its PEs on other nodes.
//
// The other jobs that a process has reached stay mapped until it ends.

// foreignJob is another job.
type foreignJob struct {
	*job.Peers

	callers []uint64 // as persistent.callers
	seen    uint64   // epoch of its failure page: everything is read that its dead of other nodes up to then have sent, once hasReadDead says so
	gone    []bool   // by PE: those of other nodes that have finalized; nil: none has
}

// foreigners are the other jobs that this process has reached. They outlive Finalize.
type foreigners struct {
	reaching sync.Mutex                    // held while a job is reached
	jobs     atomic.Pointer[[]*foreignJob] // nil: none. The list does not change; it is replaced under the engine's lock
}

// all returns the other jobs.
func (f *foreigners) all() []*foreignJob {
	if jobs := f.jobs.Load(); jobs != nil {
		return *jobs
	}
	return nil
}

// of returns the job of a PE; nil: it is this process's own.
func (f *foreigners) of(pe layout.PE) *foreignJob {
	for _, x := range f.all() {
		if pe >= x.Base && int(pe-x.Base) < x.NPEs {
			return x
		}
	}
	return nil
}

// numbered returns the job with a number, or nil.
func (f *foreigners) numbered(number int) *foreignJob {
	for _, x := range f.all() {
		if x.Number == number {
			return x
		}
	}
	return nil
}

// isFar reports whether one of these jobs has PEs on other nodes.
func (f *foreigners) isFar() bool {
	return slices.ContainsFunc(f.all(), func(x *foreignJob) bool { return x.Near < x.NPEs })
}

// local returns the index of a PE on this node, and false if it is on another one.
func (f *foreignJob) local(pe layout.PE) (i layout.Local, near bool) { return f.Local(pe - f.Base) }

// hasCallers reports whether a PE of another job has called for the first time. It takes no lock.
func (f *foreigners) hasCallers() bool {
	for _, x := range f.all() {
		for i := range x.callers {
			if atomic.LoadUint64(&x.Mine.Callers[i]) != atomic.LoadUint64(&x.callers[i]) {
				return true
			}
		}
	}
	return false
}

// isForeign reports whether a PE is of another job.
func (p *process) isForeign(pe layout.PE) bool { return int(pe) >= p.job.NPEs }

// reachJob returns another job, and maps it at the first call for it.
func reachJob(ctx context.Context, e *engine, number int) (*foreignJob, error) {
	e.foreign.reaching.Lock()
	defer e.foreign.reaching.Unlock()
	if f := e.foreign.numbered(number); f != nil {
		return f, nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	e.mu.Lock()
	base := layout.PE(len(e.out)) // grows here only
	e.unlock()
	peers, err := e.job.Reach(ctx, number, base)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.unlock()
	n := peers.NPEs
	f := &foreignJob{Peers: peers, callers: make([]uint64, (peers.Near+63)/64), seen: peers.Failures.Epoch()}
	e.out, e.in = append(e.out, make([]*outLane, n)...), append(e.in, make([]*inLane, n)...)
	e.access = append(e.access, make([]peerMemory, n)...)
	if e.dead != nil {
		e.dead = append(e.dead, make([]bool, n)...)
	}
	if e.hoards != nil {
		e.hoards = append(e.hoards, make([]hoard, n)...)
	}
	if peers.Near > 0 {
		most := pieceLimit(peers.Shape)
		e.eager, e.fragment = min(e.eager, most), min(e.fragment, most)
	}
	if peers.Near < n {
		addFarPeers(e, f)
	}
	jobs := append(slices.Clone(e.foreign.all()), f)
	e.foreign.jobs.Store(&jobs)
	processForeignDeaths(e, f, e.job.Failures.Epoch()) // at least 1: jobMemory.beginEpochs of the step
	e.progress()
	return f, nil
}

// laneToForeign returns the lane to a PE of another job.
func (o *outbound) laneToForeign(pe layout.PE) *outLane {
	f, me := o.foreign.of(pe), o.job.Local
	local, _ := f.local(pe)
	theirs := &f.Theirs[local]
	l := &outLane{bell: &f.Map.Control(local).Bell, shape: f.Shape, pe: pe}
	l.head, l.first, l.room = theirs.Lane(f.Shape, me)
	o.out[pe] = l
	atomic.OrUint64(&theirs.Callers[me/64], 1<<(me%64))
	return l
}

// addForeignCallers makes the lanes of the PEs of other jobs that are new callers. The caller has the engine's lock.
func addForeignCallers(e *engine) {
	for _, f := range e.foreign.all() {
		for word := range f.callers {
			now := atomic.LoadUint64(&f.Mine.Callers[word])
			if now == f.callers[word] {
				continue
			}
			active := slices.Clone(*e.active.Load())
			for bit := range 64 {
				local := layout.Local(64*word + bit)
				if now>>bit&1 == 0 || int(local) >= f.Near {
					continue
				}
				pe := f.Base + f.PE(local)
				if e.in[pe] != nil {
					continue
				}
				l := &inLane{bell: &f.Map.Control(local).Bell, shape: f.Shape, pe: pe}
				l.head, l.first, l.room = f.Mine.Lane(f.Shape, local)
				e.in[pe] = l
				active = append(active, l)
			}
			e.active.Store(&active)
			atomic.StoreUint64(&f.callers[word], now)
		}
	}
}

// processForeignDeaths acts on the deaths in another job. They count from an epoch of this process's own page on. The caller has the engine's lock.
func processForeignDeaths(e *engine, f *foreignJob, epoch uint64) {
	for i := range f.NPEs {
		pe := f.Base + layout.PE(i)
		if e.isDead(pe) || !f.isPublished(layout.PE(i)) {
			continue
		}
		addForeignCallers(e)
		if l := e.in[pe]; l != nil && l.pe != manyPEs {
			e.receiveCells(l, l.shape.Cells) // the lane of the dead gets no more cells
			active := slices.DeleteFunc(slices.Clone(*e.active.Load()), func(x *inLane) bool { return x == l })
			e.active.Store(&active)
		}
		if e.dead == nil {
			e.dead = make([]bool, len(e.out))
		}
		death, _ := f.Failures.Failure(i)
		death.PE, death.Epoch = int(pe), epoch
		known := slices.Clone(e.foreignFailures())
		known = append(known, death)
		e.foreignDeaths.Store(&known)
		e.dead[pe] = true
		e.failRequestsWith(pe)
	}
}

// foreignFailures returns the deaths in other jobs that this process knows of, in the order in which it has learned of them.
func (p *process) foreignFailures() []failure.Failure {
	if known := p.foreignDeaths.Load(); known != nil {
		return *known
	}
	return nil
}

// failureOf returns the death of a PE, if it is known.
func (p *process) failureOf(pe layout.PE) (f failure.Failure, known bool) {
	if !p.isForeign(pe) {
		return p.job.Failures.Failure(int(pe))
	}
	all := p.foreignFailures()
	for i := range all {
		if all[i].PE == int(pe) {
			return all[i], true
		}
	}
	return f, false
}

// failuresSince returns the deaths after an epoch, in the order in which this process has learned of them.
func (p *process) failuresSince(epoch uint64) []failure.Failure {
	all, _ := p.job.Failures.Since(epoch)
	for _, f := range p.foreignFailures() {
		if f.Epoch > epoch {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b failure.Failure) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return all
}

// foreignNews is a wait until this process knows of the deaths of ranks of other jobs. Their own page tells their job first, and so a message may be
// faster than the epoch that follows here.
type foreignNews struct {
	g     *group
	ranks []int
}

// foreignPatience bounds that wait. The step process begins the epoch right after the publication.
const foreignPatience = 20 * time.Second

// awaitForeignNews returns when this process knows of the deaths of those of some ranks that are of other jobs. For ranks that have left, it does not wait.
func awaitForeignNews(g *group, ranks []int) {
	ctx, cancel := context.WithTimeout(context.Background(), foreignPatience)
	defer cancel()
	_ = g.e.job.Waiter.WaitPoll(&foreignNews{g, ranks}, ctx) // without the news, the cause is unknown
}

// Poll makes progress.
func (n *foreignNews) Poll() wait.Look {
	e := n.g.e
	moved := e.serve()
	e.mu.Lock()
	defer e.unlock()
	switch {
	case e.closed.Load(), !slices.ContainsFunc(n.ranks, n.isUnknown):
		return wait.Over
	case moved:
		return wait.Moved
	}
	return wait.Nothing
}

// isUnknown reports whether a rank is of another job, and not known to be dead or to have left.
func (n *foreignNews) isUnknown(rank int) bool {
	pe := n.g.pe(rank)
	return n.g.e.isForeign(pe) && !n.g.e.isDead(pe) && !hasLeftAgreement(n.g, rank)
}

// hasFinalized reports whether a process is known to have finalized.
func hasFinalized(e *engine, pe layout.PE) bool {
	switch w := e.world; {
	case e.isForeign(pe):
		f := e.foreign.of(pe)
		if local, near := f.local(pe); near {
			return atomic.LoadUint32(&f.Theirs[local].Gone) != 0
		}
		return f.gone != nil && f.gone[pe-f.Base]
	case w == nil:
		return false
	case w.t == nil: // see worldinmessages.go
		return w.left != nil && w.left[pe]
	default:
		return w.hasLeft(int(pe))
	}
}

// leaveForeign tells the processes of other jobs that this one has sent its last message. Nothing is written into lanes any more.
func leaveForeign(e *engine) {
	for _, f := range e.foreign.all() {
		if f.Mine != nil {
			atomic.StoreUint32(&f.Mine.Gone, 1)
		}
		tellFarGone(e, f)
	}
}

// rankTable returns the ranks of some PEs, by PE.
func rankTable(e *engine, pes []layout.PE) []int32 {
	ranks := make([]int32, max(e.job.NPEs, int(slices.Max(pes))+1))
	for i := range ranks {
		ranks[i] = -1
	}
	for rank, pe := range pes {
		ranks[pe] = int32(rank)
	}
	return ranks
}
