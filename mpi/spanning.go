package mpi

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Collectives of communicators that span nodes
//
// They are steps of a team that spans nodes (package spanning), in which data travel: each rank gives a piece, and all get the pieces of all.
// So all ranks get the same error, and none waits for a rank that has died, left or given up. Longer data take as many steps as
// they have pieces.

// Kinds of calls, which the ranks compare in each step, in the last word.
const (
	callSync uint64 = 1 + iota
	callNumber
	callSplit
	callBcast
	callReduce
	callTeamOf
)

// callBits is the number of bits of the last word that the kind takes. The size of an element is above.
const callBits = 8

// deathGrace is how long a step between nodes goes on after the death of a rank is known. In that time all ranks that are in the step
// get its result, with the same list of the dead. The others may be anywhere, and are not waited for.
const deathGrace = 100 * time.Millisecond

// errDeathKnown ends the wait for a step that the ranks which live may never enter.
var errDeathKnown = errors.New("a rank has died")

// mourning is the context of collectives between nodes. It also ends some time after the death of a rank is known.
type mourning struct {
	context.Context //nolint:containedctx // of the collective

	g *group
}

// bounded returns the context for a collective of the communicator.
func (g *group) bounded(ctx context.Context) context.Context {
	if ctx == nil {
		return g.mourning
	}
	return &mourning{ctx, g}
}

// Err returns why the collective ends, or nil.
func (m *mourning) Err() error {
	if m.g.revoked.Load() {
		return ErrRevoked
	}
	if err := m.Context.Err(); err != nil || m.g.deadRanks() == nil {
		return err
	}
	if known := m.g.deathKnown.Load(); known == nil {
		m.g.deathKnown.CompareAndSwap(nil, new(time.Now()))
	} else if time.Since(*known) >= deathGrace {
		return errDeathKnown
	}
	return nil
}

// deadRanks returns the ranks that are known to have died, ascending.
func (g *group) deadRanks() (dead []int) {
	if g.e.job.Failures.Epoch() == 0 {
		return nil
	}
	for rank, pe := range g.pes {
		if g.e.job.IsDead(pe) {
			dead = append(dead, rank)
		}
	}
	return dead
}

// sync is a barrier.
func (g *group) sync(ctx context.Context) error {
	if g.t == nil {
		return syncInMessages(ctx, g)
	}
	if g.upper == nil {
		return g.t.Sync(revocableOf(ctx, g))
	}
	d, err := g.upper.Same(g.bounded(ctx), coll.Words{3: callSync})
	if err != nil {
		return err
	}
	return differs(&d)
}

// differs returns an error that names two ranks which have not called the same, if there are some.
func differs(d *spanning.Difference) error {
	if d.Differs < 0 {
		return nil
	}
	return &spanning.DifferError{First: d.First, Differs: d.Differs}
}

// gatherWords gives two words of each rank to all.
func (g *group) gatherWords(ctx context.Context, op string, call uint64, mine coll.Words) ([]coll.Words, error) {
	if g.t == nil {
		all := make([]coll.Words, g.n)
		return all, gatherAll(ctx, g, op, &mine, all)
	}
	if g.upper == nil {
		return g.t.Gather(revocableOf(ctx, g), mine)
	}
	all := make([]coll.Words, g.n)
	bytes := func(w *coll.Words) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(w)), 2*unsafe.Sizeof(w[0])) }
	d, err := g.upper.Gather(g.bounded(ctx), coll.Words{3: call}, g.n, bytes(&mine), func(rank int, data []byte) { copy(bytes(&all[rank]), data) })
	if err == nil {
		err = differs(&d)
	}
	return all, err
}

// leave says that this rank enters no further collective.
func (g *group) leave() {
	if g.t == nil {
		return // shutDown has told the others
	}
	if g.upper == nil {
		g.t.Leave()
		return
	}
	g.upper.Leave()
	g.upper.Release()
}

// hasLeft reports whether a rank has left the communicator, as far as it is known. The caller has the engine's lock.
func (g *group) hasLeft(rank int) bool {
	if g.t == nil {
		if g.left != nil && g.left[rank] {
			return true
		}
		return hasFinalized(g.e, g.pes[rank]) // what it tells other communicators may be lost
	}
	if g.upper == nil {
		return g.t.HasLeft(rank)
	}
	if g.left != nil && g.left[rank] {
		return true
	}
	i, near := g.e.job.Place.Local(g.pes[rank])
	return near && g.t.HasLeft(int(i)) // the part of all ranks of a node is in the order of their indices there
}

// isDeserted reports whether the ranks are known not to meet any more.
func (g *group) isDeserted() bool {
	if g.upper == nil && g.t != nil {
		return g.t.Deserted()
	}
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	for rank := range g.n {
		if g.e.job.IsDead(g.pes[rank]) || rank != g.me && g.hasLeft(rank) {
			return true
		}
	}
	return g.t != nil && g.t.Deserted()
}

// gatherPieces passes what the ranks give to take, piece by piece: all of them give as many bytes, or the root alone if there is one.
func (g *group) gatherPieces(ctx context.Context, w coll.Words, root int, mine []byte, take func(rank, at int, piece []byte)) error {
	givers, size := g.n, len(mine)
	if root >= 0 {
		givers = 1
	}
	most := spanning.MostGathered(givers)
	for at := 0; at == 0 || at < size; at += most {
		var piece []byte
		if root < 0 || root == g.me {
			piece = mine[at:min(at+most, size)]
		}
		d, err := g.upper.Gather(g.bounded(ctx), w, givers, piece, func(rank int, data []byte) { take(rank, at, data) })
		if err == nil {
			err = differs(&d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bcastSpanning is Bcast.
func (g *group) bcastSpanning(ctx context.Context, buf []byte, root int) error {
	w := coll.Words{uint64(len(buf)), uint64(root), 0, callBcast}
	return g.gatherPieces(ctx, w, root, buf, func(rank, at int, piece []byte) {
		if rank == root && root != g.me {
			copy(buf[at:], piece)
		}
	})
}

// mostFolded bounds the memory that a reduction takes for the elements of all ranks.
const mostFolded = 4 << 20

// reduceSpanning is Reduce, and Allreduce if root is -1: each rank that gets the result folds the elements of all ranks, in their order.
func reduceSpanning[T any](ctx context.Context, g *group, dst, src []T, op Op[T], root int) error {
	size := int(unsafe.Sizeof(*new(T)))
	w := coll.Words{uint64(len(src)), uint64(root + 1), 0, callReduce | uint64(size)<<callBits}
	block := max(1, min(len(src), mostFolded/size/g.n))
	all := make([]T, block*g.n)
	for lo := 0; lo == 0 || lo < len(src); lo += block {
		n := min(block, len(src)-lo)
		err := g.gatherPieces(ctx, w, -1, bytesOf(src[lo:lo+n]), func(rank, at int, piece []byte) {
			copy(bytesOf(all[rank*block:][:n])[at:], piece)
		})
		if err != nil {
			return err
		}
		if root >= 0 && root != g.me {
			continue
		}
		for rank := 1; rank < g.n && n > 0; rank++ {
			op(all[:n], all[rank*block:][:n])
		}
		copy(dst[lo:lo+n], all)
	}
	return nil
}

// bytesOf returns the memory of elements.
func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}

// spansNodes reports whether a color of a Split has ranks on several nodes. All ranks find the same.
func spansNodes(g *group, all []coll.Words) bool {
	if g.t == nil {
		return true // its ranks share no team
	}
	if g.upper == nil {
		return false
	}
	first := map[int]int{} // node of a rank of each color
	for rank := range all {
		color, node := int(all[rank][0]), g.nodeOf(rank)
		if color == Undefined {
			continue
		}
		if other, known := first[color]; known && other != node {
			return true
		}
		first[color] = node
	}
	return false
}

// nodeOf returns the node of a rank.
func (g *group) nodeOf(rank int) int {
	node, _ := g.e.job.FarHome(g.pes[rank])
	return node
}

// split makes the team of some ranks, which are on this node if the communicator spans nodes.
func (g *group) split(ctx context.Context, members []int) (*coll.Team, error) {
	if g.upper == nil {
		return coll.Split(revocableOf(ctx, g), g.t, members, false)
	}
	made, err := g.upper.Split(g.bounded(ctx), callSplit, members, false)
	return made.Near, err
}

// allPEs returns the PEs of a job.
func allPEs(n int) []layout.PE {
	pes := make([]layout.PE, n)
	for i := range pes {
		pes[i] = layout.PE(i)
	}
	return pes
}
