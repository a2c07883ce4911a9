package mpi

import (
	"math"
	"sync/atomic"
	"syscall"

	"github.com/goshmem/goshmem/internal/reach"
	"github.com/goshmem/goshmem/symheap/layout"
)

// SmallLanes makes the lanes of this process as small as those of a node with the largest number
// of PEs. All ranks call it before their first Init.
func SmallLanes() {
	shapeOfLanes = func(int) layout.LaneShape { return layout.ShapeOfLanes(layout.MaxLocal) }
}

// WhenInit has Init call f before it reaches the parents of this process. In a spawned job on several nodes that is before the processes of the job have met.
// It is called before Init.
func WhenInit(f func()) {
	shapeOfLanes = func(near int) layout.LaneShape {
		f()
		return layout.ShapeOfLanes(near)
	}
}

// Alarm makes receives from any source see a death, although all deaths are acknowledged.
func Alarm(c *Comm) { c.g.unackedDeath.Store(true) }

// LanesOnly makes this process behave like one that cannot access the memory of others. It is
// called before Init.
func LanesOnly() { reach.Refuse = func() error { return syscall.EPERM } }

// DirectMost is the number of receives without a request after which everything is polled.
const DirectMost = directMost

// Pending returns how many cells of a rank's lane were not read yet. The lane must have been used
// before.
func Pending(c *Comm, rank int) (n int) {
	e := c.g.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.in[c.g.pe(rank)]; l != nil {
		for cells := l.cells; l.shape.Cells > n && uint32(atomic.LoadUint64(&l.first.At(int(cells)&(l.shape.Cells-1)).Mark)) == uint32(cells+1); cells++ {
			n++
		}
	}
	return n
}

// Kept returns how many messages were taken from their lanes before their receives came.
func Kept(c *Comm) int {
	c.g.e.mu.Lock()
	defer c.g.e.mu.Unlock()
	_, kept := c.g.q.Waiting()
	return kept
}

// Receiving reports whether a part of a long message has come, and others have not.
func Receiving(c *Comm) bool {
	e := c.g.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.pulls {
		if get := r.share.get; get != nil {
			return get.asked > 0
		}
		if _, _, front, _ := r.share.load(); front > 0 {
			return true
		}
	}
	for i := range e.table.entries {
		if r := e.table.entries[i].r; r != nil && r.recv && r.moved > 0 {
			return true
		}
	}
	return false
}

// SharesInUse returns how many shares are lent to a rank.
func SharesInUse(c *Comm, rank int) (used int) {
	e := c.g.e
	e.mu.Lock()
	defer e.unlock()
	e.progress()
	for i := range e.table.entries {
		if e.table.entries[i].lentTo == int32(c.g.pe(rank))+1 {
			used++
		}
	}
	return used
}

// HasLeft reports whether a rank has left the communicator. It makes no progress, unless the rank is on another node: such a rank tells
// by a message.
func HasLeft(c *Comm, rank int) bool {
	e := c.g.e
	if _, near := e.job.Place.Local(c.g.pe(rank)); !near {
		e.drainLanes()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.g.hasLeft(rank)
}

// LookForLeft ends a request whose peer has left, as waits do from time to time.
func LookForLeft(r Request) { r.r.g.e.endIfPeerLeft(r.r) }

// Waited reports whether a goroutine waits for the request or tests it.
func Waited(r Request) bool { return atomic.LoadUint64(&r.r.use)&useWaited != 0 }

// LastNumbers moves the numbers of requests to just before they wrap around.
func LastNumbers(c *Comm) {
	e := c.g.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.table.entries {
		e.table.entries[i].gen = math.MaxUint32
	}
}

// Carried returns how many messages this process is copying to itself without the lock.
func Carried(c *Comm) int {
	e := c.g.e
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.selfCopies)
}

// CellsMost is the largest number of cells that one poll takes from a lane.
const CellsMost = cellsMost

// accesses counts this process's accesses to the memory of others since RefuseFrom.
var accesses int

// RefuseFrom lets this process's accesses to the memory of others fail from the k-th one on, counted from 0. A negative k
// lets none fail.
func RefuseFrom(k int) {
	accesses = 0
	reach.Refuse = func() error {
		if accesses++; k >= 0 && accesses > k {
			return syscall.EPERM
		}
		return nil
	}
}

// Accesses returns how many accesses there were since RefuseFrom.
func Accesses() int { return accesses }

// Sleeping returns how many goroutines sleep until requests of a communicator are complete.
func Sleeping(c *Comm) int {
	c.g.e.mu.Lock()
	defer c.g.e.mu.Unlock()
	return len(c.g.sleeping)
}

// Probing returns how many goroutines sleep in probes.
func Probing(c *Comm) int {
	c.g.e.mu.Lock()
	defer c.g.e.mu.Unlock()
	return len(c.g.e.probes)
}

// LastComm makes this process believe that it has used all numbers of communicators.
func LastComm(c *Comm) {
	c.g.e.mu.Lock()
	defer c.g.e.mu.Unlock()
	c.g.e.numbers.proposed = numbersMost
}

// Held reports whether this process keeps, or has told a rank that it keeps, much of what that rank has sent.
func Held(c *Comm, rank int) bool {
	e := c.g.e
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.hoardOf(c.g.pe(rank))
	return h.held || h.kept != 0
}

// Partitions returns how many partitioned operations a communicator has, and how many of its receives and messages wait for each other.
func Partitions(c *Comm) (operations, receives, messages int) {
	c.g.e.mu.Lock()
	defer c.g.e.unlock()
	p := c.g.partitioned
	receives, messages = p.q.Waiting()
	return len(p.partitions.all), receives, messages
}

// LastPartTags makes a communicator believe that all tags but n were taken for partitioned sends to a rank.
func LastPartTags(c *Comm, rank, n int) {
	c.g.e.mu.Lock()
	defer c.g.e.unlock()
	p := c.g.partitioned.partitions
	p.takeTags(rank, 0)
	p.tags[rank].next = partTagsMost - n
}

// WorldOf returns the World of a communicator, for ports.
func WorldOf(c *Comm) *World { return &World{e: c.g.e} }

// Meeting returns how many roots of Accept or Connect wait in this process.
func Meeting(c *Comm) int {
	c.g.e.mu.Lock()
	defer c.g.e.mu.Unlock()
	return len(c.g.e.meetings)
}
