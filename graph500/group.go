package graph500

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/shmem"
)

// gatherWidth is the number of words that each PE contributes to a sum, a maximum or a gather.
const gatherWidth = 8

// group is a PE's view of the job: its number, and small collectives on preallocated symmetric words. A PE that
// leaves a collective sees what all PEs stored before they entered it.
type group struct {
	w        *shmem.World
	me, pes  int
	src, dst shmem.Sym[uint64]
	all      shmem.Sym[uint64]
	held     []func() error // free what allocHeld has allocated
}

// newGroup makes the group. Collective.
func newGroup(w *shmem.World) (*group, error) {
	g := &group{w: w, me: w.MyPE(), pes: w.NPEs()}
	if g.pes > maxPEs {
		return nil, fmt.Errorf("number of PEs: %d, want at most %d", g.pes, maxPEs)
	}
	var err error
	if g.src, _, err = allocHeld[uint64](g, "reduction words", gatherWidth); err != nil {
		return nil, err
	}
	if g.dst, _, err = allocHeld[uint64](g, "reduction words", gatherWidth); err != nil {
		return nil, err
	}
	g.all, _, err = allocHeld[uint64](g, "gather words", gatherWidth*g.pes)
	return g, err
}

// release frees all that allocHeld has allocated. Collective.
func (g *group) release() error {
	for _, free := range slices.Backward(g.held) {
		if err := free(); err != nil {
			return err
		}
	}
	g.held = nil
	return nil
}

// barrier waits for all PEs. Collective.
func (g *group) barrier(phase string) error {
	if err := g.w.Barrier(); err != nil {
		return fmt.Errorf("%s: barrier: %w", phase, err)
	}
	return nil
}

// contribute writes the caller's words and zeros behind them.
func (g *group) contribute(values []uint64) {
	src := g.src.Local()
	clear(src)
	copy(src, values)
}

// sum replaces values (at most gatherWidth) by their sums over all PEs.
func (g *group) sum(phase string, values ...*uint64) error {
	return g.reduce(phase, shmem.Sum, values)
}

// maximum replaces values (at most gatherWidth) by their maxima over all PEs.
func (g *group) maximum(phase string, values ...*uint64) error {
	return g.reduce(phase, shmem.Max, values)
}

// reduce replaces values by their reductions over all PEs.
func (g *group) reduce(phase string, op shmem.Op[uint64], values []*uint64) error {
	src := g.src.Local()
	clear(src)
	for i, v := range values {
		src[i] = *v
	}
	if err := shmem.Reduce(g.w.Team(), g.dst, g.src, op); err != nil {
		return fmt.Errorf("%s: reduction: %w", phase, err)
	}
	dst := g.dst.Local()
	for i, v := range values {
		*v = dst[i]
	}
	return nil
}

// gather returns the words of all PEs, gatherWidth each, valid until the next gather.
func (g *group) gather(phase string, values ...uint64) ([]uint64, error) {
	g.contribute(values)
	if err := shmem.FCollect(g.w.Team(), g.all, g.src); err != nil {
		return nil, fmt.Errorf("%s: gather: %w", phase, err)
	}
	return g.all.Local(), nil
}

// peerViews returns the slices of x on all PEs, to be read and written in place. Kernels 1 and 2 work on them
// without a call for each edge, so all PEs must be on this node.
func peerViews[T any](g *group, x shmem.Sym[T]) ([][]T, error) {
	views := make([][]T, g.pes)
	for pe := range views {
		view, ok := x.Peer(pe)
		if !ok {
			return nil, fmt.Errorf("memory of PE %d: not reachable by load and store, want all PEs on one node; "+
				"hint: start the job on one node", pe)
		}
		views[pe] = view
	}
	return views, nil
}

// allocSymmetric allocates n elements on every PE, and returns the handle and the slices of all PEs. Collective.
func allocSymmetric[T any](g *group, what string, n int) (shmem.Sym[T], [][]T, error) {
	x, err := shmem.Alloc[T](g.w, max(n, 1))
	if err != nil {
		return x, nil, fmt.Errorf("allocating %s: %w", what, err)
	}
	views, err := peerViews(g, x)
	return x, views, err
}

// allocHeld is allocSymmetric for memory that is kept until group.release. Collective.
func allocHeld[T any](g *group, what string, n int) (shmem.Sym[T], [][]T, error) {
	x, views, err := allocSymmetric[T](g, what, n)
	if err == nil {
		g.held = append(g.held, func() error { return release(g, what, x) })
	}
	return x, views, err
}

// release frees one symmetric object. Collective.
func release[T any](g *group, what string, x shmem.Sym[T]) error {
	if err := shmem.Free(g.w, x); err != nil {
		return fmt.Errorf("freeing %s: %w", what, err)
	}
	return nil
}
