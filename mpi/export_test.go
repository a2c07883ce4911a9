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
