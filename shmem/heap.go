package shmem

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/alloc"
	"github.com/goshmem/goshmem/symheap/layout"
)

// heap is the Go side of a world's symmetric heap.
type heap struct {
	slots  atomic.Uint32  // of blocks; 0 once the world is finalized
	checks bool           // the PEs of a team compare what they call: see check.go
	tags   unsafe.Pointer // a *tagTable, for data operations: as truth until a PE has died
	truth  unsafe.Pointer // a *tagTable
	world  uint64         // number of the world, where tags have it
	job    *job.Job
	mark   *uint64 // set to 1 by calls that do not wait, for the watch for hangs: a plain store costs less than Waiter.Beat
	me     layout.PE
	npes   int
	ctx    *Ctx          // the default context
	wary   atomic.Bool   // no tag is in tags any more
	acked  atomic.Uint64 // failures up to this epoch do not end waits
	teams  teams
	mu     sync.Mutex // guards arena, asked, top and what is written to tags and truth
	arena  *alloc.Arena
	asked  map[uint32]uint64 // bytes that were asked for, by the slot of the live block
	top    uint32            // slots from here on were never used
	turns  turns             // of calls that return some of several elements
}

// A tag names a block of one world of this process:
//
//	bits 0..15   slot of the block
//	bit  16      hollow: the handle has no elements, or was made with a bad index
//	bits 17..31  number of the world, from 1 on
//	bits 32..63  generation of the block, odd while it is live
//
// The table below has the tag of each live block. So one comparison tells every
// mistake that can be made with a handle: the object was freed, is of another
// world, its world is finalized, there is none, or it has no elements. It is on
// every data path, where this costs half the instructions of what it replaced: a
// look at the heap that a handle pointed to and one at the block's generation.
const (
	slotMask   = layout.MaxBlocks - 1
	hollow     = layout.MaxBlocks
	worldShift = 17
	maxWorlds  = 1<<15 - 1 // then numbers are used again, as generations are
	worldMask  = maxWorlds << worldShift
)

// There are two tables, so that a PE that has died costs the data path nothing.
// From the first death on that this process knows of, all entries of the one that
// operations look at fail; each operation goes through check then, which looks at
// the true table and whether its PE is alive.

// tagTable has the tag of each live block at the index of its slot, and something
// that is no tag of that slot elsewhere. Pages that no block needs stay untouched.
type tagTable [layout.MaxBlocks]uint64

// mapped is the heap of the world that is not finalized, for handles that are
// used without a context.
var mapped atomic.Pointer[heap]

// worlds counts the worlds of this process.
var worlds atomic.Uint64

func newHeap(j *job.Job) *heap {
	h := &heap{job: j, checks: j.CheckCollectives, mark: &j.Map.Control(j.Local).Progress.Calls, me: j.PE, npes: j.NPEs, arena: j.Arena, asked: map[uint32]uint64{}}
	h.turns.seed = rand.Uint64()
	h.world = (1 + (worlds.Add(1)-1)%maxWorlds) << worldShift
	h.tags, h.truth = unsafe.Pointer(new(tagTable)), unsafe.Pointer(new(tagTable))
	h.bury(0) // 0 is what the tag of a zero handle has there
	h.slots.Store(layout.MaxBlocks)
	return h
}

// end makes all handles of a finalized world fail.
func (h *heap) end() {
	h.slots.Store(0)
	mapped.CompareAndSwap(h, nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	for slot := range h.top {
		h.bury(slot)
	}
}

// entry returns the place of a tag in a table. It does without tests for nil
// and bounds: every slot number of 16 bits has a place.
func entry(tags unsafe.Pointer, tag uint64) *uint64 {
	return (*uint64)(unsafe.Add(tags, tag&slotMask*8))
}

// live says whether the tag names a live object and nobody has died, for data
// operations, which must not be under way when a block is freed or the world
// finalized. It reads the table plainly: the processor compares with memory in one
// instruction. A look that a death comes just too late for is as good as an earlier one.
func live(tags unsafe.Pointer, tag uint64) bool { return peek(entry(tags, tag)) == tag }

// liveNow says whether the tag names a live object, for calls that Finalize may
// meet: waits, which it ends.
func (h *heap) liveNow(tag uint64) bool { return atomic.LoadUint64(entry(h.truth, tag)) == tag }

// tagOf returns the tag of a live block.
func (h *heap) tagOf(b alloc.Block) uint64 { return uint64(b.Gen)<<32 | h.world | uint64(b.Slot) }

// enter makes the tag of a block good that has become live, or has changed, and
// keeps how many bytes were asked for.
func (h *heap) enter(b alloc.Block, size uint64) {
	tag := h.tagOf(b)
	h.asked[b.Slot] = size
	h.top = max(h.top, b.Slot+1)
	atomic.StoreUint64(entry(h.truth, tag), tag)
	if !h.wary.Load() {
		atomic.StoreUint64(entry(h.tags, tag), tag)
	}
}

// bury makes every tag of a slot fail.
func (h *heap) bury(slot uint32) {
	atomic.StoreUint64(entry(h.truth, uint64(slot)), ^uint64(slot))
	h.shut(slot)
}

// shut makes every tag of a slot fail for data operations.
func (h *heap) shut(slot uint32) { atomic.StoreUint64(entry(h.tags, uint64(slot)), ^uint64(slot)) }

// empty is the tag of an object without elements, which occupies no block.
func (h *heap) empty() uint64 { return h.world | hollow }

// slotOf and generation are what the allocator knows of a tag.
func slotOf(tag uint64) uint32     { return uint32(tag & slotMask) }
func generation(tag uint64) uint32 { return uint32(tag >> 32) }

// ref is a handle without its type, for checks and their messages.
type ref struct {
	off  uint64
	n    int
	tag  uint64
	size uint64 // of an element, where alignment matters; otherwise 0
}

// check is the slow path of every test that an operation on pe's copy of r,
// need elements long, makes of its arguments: it returns the error that says
// what is wrong. Nil for an operation on no elements, and for one that is good
// although some PE has died: it has to go on.
func (c *Ctx) check(op string, r ref, need, pe int) error {
	switch {
	case c != nil && c.h == nil && c.of != nil:
		return usage(op, ErrDestroyed, "context was destroyed before this call, want a live one")
	case c == nil || c.h == nil:
		return usage(op, ErrArgument, "context is nil, want w.Ctx()")
	case c.h.slots.Load() == 0:
		return usage(op, ErrFinalized, "called after Finalize")
	}
	if err := c.h.checkRef(op, r, need); err != nil {
		return err
	}
	if err := c.checkPE(op, pe); err != nil {
		return err
	}
	if r.size != 0 && r.off%r.size != 0 {
		return usage(op, ErrMisaligned, "element at offset %d of the segment, want a multiple of its size %d", r.off, r.size)
	}
	if number := c.of.team.g.pes[pe]; c.h.dead(number) {
		return c.h.died(op, []layout.PE{number})
	}
	return nil
}

// checkRef is the part of check that concerns the handle alone.
func (h *heap) checkRef(op string, r ref, need int) error {
	switch {
	case h.slots.Load() == 0:
		return usage(op, ErrFinalized, "called after Finalize")
	case r.tag&worldMask == 0:
		return usage(op, ErrForeignHandle, "handle is the zero value, want one that Alloc returned")
	case r.tag&worldMask != h.world:
		return usage(op, ErrForeignHandle, "handle of another world (one finalized before?), want one allocated from this world")
	case r.n == badField:
		return usage(op, ErrArgument, "handle was made by a Field that names no field of its struct, want one of FieldOf, whose function returns the address of a field of its argument")
	case r.n < 0:
		return usage(op, ErrBounds, "handle was made by At(i) or Slice(i, j) with index %d of %[2]d elements, want 0 <= i < %[2]d or 0 <= i <= j <= %[2]d", int64(r.off), -1-r.n)
	case r.tag != h.empty() && !h.liveNow(r.tag&^hollow):
		return usage(op, ErrFreed, "object was freed or resized before this call, want a live one")
	case need > r.n:
		return usage(op, ErrBounds, "%d elements, want at most the object's %d", need, r.n)
	}
	return nil
}

// types caches what is wrong with element types.
var types sync.Map // reflect.Type -> string, empty for a good one

// checkType reports whether T may be an element: pointer-free, because the
// garbage collector does not look into the heap and addresses mean nothing in
// another PE, and of some size.
func checkType[T any](op string) error {
	t := reflect.TypeFor[T]()
	why, ok := types.Load(t)
	if !ok {
		why, _ = types.LoadOrStore(t, symheap.Unsuitable(t))
	}
	if why == "" {
		return nil
	}
	return usage(op, ErrElementType, "element type %v %v, want a type of numbers, arrays and structs of them", t, why)
}

func sizeOf[T any]() uint64 {
	var z T
	return uint64(unsafe.Sizeof(z))
}

// segment returns where the segment of a near PE begins. Every PE is near, as Init refuses jobs of several
// nodes.
func (h *heap) segment(pe layout.PE) unsafe.Pointer {
	return h.job.Map.Segment(h.job.Place.NearLocal(pe))
}
