package mpi

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// process is the lowest layer of the engine: the process's place in its job, the engine's lock,
// the known deaths, and the completion of requests. The lock guards all fields of all layers
// except the atomic ones and those that never change.
type process struct {
	*persistent
	job    *job.Job
	me     layout.PE       // PE of this process
	own    *layout.Control // control region of this process
	closed atomic.Bool     // Finalize has ended the engine: nothing is written into lanes any more

	// mu is the engine's lock. No goroutine waits for another process while it holds mu.
	mu         wait.Lock
	finished   []*request    // messages of schedules, and requests in TryBlocks, that have ended, for advance
	advance    func()        // goes on with their schedules and releases the lock: engine.advance
	access     []peerMemory  // by PE
	deathEpoch atomic.Uint64 // epoch of the failure page up to which processDeaths has acted
	dead       []bool        // by PE, as of deathEpoch; nil: no PE has died

	foreignDeaths atomic.Pointer[[]failure.Failure] // see foreignFailures; nil: none
}

// persistent is the part of an engine that outlives Finalize, because the lanes do. A cell in a
// lane may date from before the last Finalize; persistent numbers tell that it names nothing of now.
type persistent struct {
	shape   layout.LaneShape
	out     []*outLane                // lanes to the PEs, by PE; nil: not used yet
	in      []*inLane                 // lanes from the PEs, by PE; nil: its PE has not called yet
	callers []uint64                  // bit set of the PEs in in, by index on the node, as in layout.Control
	active  atomic.Pointer[[]*inLane] // the lanes in in, without the nils
	numbers commNumbers               // numbers of communicators
	table   requestTable              // requests that other processes know by number
	far     *farSide                  // messages from and to other nodes; nil: the job has one node
	foreign foreigners                // other jobs

	hadWorld bool // there was a World without a team
}

// persistentOf has the persistent part of each job of this process. Guarded by initMu.
var persistentOf = map[*symheap.Map]*persistent{}

// shapeOfLanes is a variable for tests.
var shapeOfLanes = layout.ShapeOfLanes

// persistentFor returns the persistent part for a job, and makes it at the job's first Init.
func persistentFor(j *job.Job) *persistent {
	p := persistentOf[j.Map]
	if p == nil {
		p = &persistent{
			shape: shapeOfLanes(j.Place.Near), out: make([]*outLane, j.NPEs), in: make([]*inLane, j.NPEs),
			callers: make([]uint64, (j.Place.Near+63)/64),
		}
		p.active.Store(new([]*inLane))
		persistentOf[j.Map] = p
	}
	p.joinFar(j)
	return p
}

// unlock releases the engine's lock. Before, it goes on with the schedules that can go on.
func (p *process) unlock() {
	if len(p.finished) > 0 {
		p.advance()
		return
	}
	p.mu.Unlock()
}

// complete ends a request with an error or nil, and wakes its waiter if that sleeps. The engine does not touch r any
// more: from the store of r.done on, r belongs to its waiter.
func (p *process) complete(r *request, err error) {
	if err != nil {
		r.status = emptyStatus // acceptMessage has set the status of a message that did not come
		if errors.Is(err, ErrCanceled) {
			err = fmt.Errorf("mpi.%s: %w", r.op, err)
		}
		r.err = err
	}
	if r.rare && (r.parent != nil || r.detached || r.inBlock != nil) {
		p.finished = append(p.finished, r)
	}
	sleeper := r.sleeper
	r.sleeper = nil
	rma.StoreRelease(&r.done, 1)
	if sleeper != nil {
		sleeper.Wake()
	}
}

// failByDeath completes a request whose peer has died.
func (p *process) failByDeath(r *request) { p.complete(r, r.g.deadError(r.op, r.g.rank(r.pe))) }

// isDead reports whether a PE is known to be dead as of deathEpoch.
func (p *process) isDead(pe layout.PE) bool { return p.dead != nil && p.dead[pe] }

// segmentOffset returns the offset of n bytes in the heap of this process's segment, or 0 if they
// lie elsewhere.
func (p *process) segmentOffset(at unsafe.Pointer, n int) uint64 {
	off := uint64(uintptr(at) - uintptr(unsafe.Pointer(p.own)))
	if size := layout.HeapOffset + p.job.Map.HeapSize(); off < layout.HeapOffset || off >= size || size-off < uint64(n) {
		return 0
	}
	return off
}

// control returns the control region of a near PE, or of a PE of another job.
func (p *process) control(pe layout.PE) *layout.Control {
	if p.isForeign(pe) {
		f := p.foreign.of(pe)
		local, _ := f.local(pe)
		return f.Map.Control(local)
	}
	return p.job.Map.Control(p.job.Place.NearLocal(pe))
}

// segmentAddress returns the address of an offset in a near PE's segment.
func (p *process) segmentAddress(pe layout.PE, off uint64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(p.control(pe)), int(off))
}

// offerShare lets the receiver of an announced message copy it. A request with a number beyond the
// shares has none.
func (p *process) offerShare(r *request) {
	i := uint32(r.number)
	if i >= layout.Shares {
		return
	}
	p.table.lend(r, r.pe)
	s := r.useShare()
	s.words, s.name = &p.own.Shares[i], shareName(r.number)
	rma.StoreRelease(&s.words.Copied, 0)
	rma.StoreRelease(&s.words.Turn, s.name+layout.ShareOpen)
}
