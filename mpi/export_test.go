package mpi

import "github.com/goshmem/goshmem/symheap/layout"

// SmallLanes makes the lanes of this process as small as those of a node with the most
// PEs. All ranks call it before their first Init.
func SmallLanes() {
	shapeOfLanes = func(int) layout.LaneShape { return layout.ShapeOfLanes(layout.MaxLocal) }
}

// Alarm tells receives from any source of a death, although all are acknowledged.
func Alarm(c *Comm) { c.g.alarm.Store(true) }

// LanesOnly makes this process behave as one that gets at no other's memory. It is called before Init.
func LanesOnly() { singleCopies = false }

// SharesInUse returns how many of the lane's to a rank are.
func SharesInUse(c *Comm, rank int) (used int) {
	e := c.g.e
	e.mu.Lock()
	defer e.unlock()
	e.progress()
	for _, number := range e.lane(c.g.pe(rank)).shared {
		if number != 0 {
			used++
		}
	}
	return used
}
