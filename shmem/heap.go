package shmem

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/alloc"
	"github.com/goshmem/goshmem/symheap/layout"
)

// heap is this process's side of a world's symmetric heap: the allocator, the tags of live objects, and the job.
type heap struct {
	slots      atomic.Uint32  // number of slots for blocks; 0 once the world is finalized: see finalized
	checks     bool           // the PEs of a team compare their collective calls: see check.go
	tags       unsafe.Pointer // a *tagTable, which the fast test of operations reads; equal to liveTags until a death is known
	liveTags   unsafe.Pointer // a *tagTable, which always has the tags of the live objects
	world      uint64         // number of the world, shifted to its place in a tag
	job        *job.Job
	far        *far.Port // operations on PEs of other nodes; nil if all PEs are near
	mark       *uint64   // set to 1 by calls that do not wait, which shows the hang watchdog progress: cheaper than Waiter.Beat
	me         layout.PE
	npes       int
	ctx        *Ctx          // the default context
	fastClosed atomic.Bool   // a PE has died: tags is empty, and every operation takes the slow path
	acked      atomic.Uint64 // deaths up to this epoch are acknowledged and do not end waits
	teams      teams
	contexts   contexts
	mu         sync.Mutex // guards arena, requested, usedSlots, and writes to tags and liveTags
	arena      *alloc.Arena
	requested  map[uint32]uint64 // bytes that the program asked for, by the slot of the live block
	usedSlots  uint32            // slots below this one have been used
	turns      turns             // where calls that return some of several elements begin to look

	spare atomic.Pointer[[]byte] // memory that the latest collective between nodes has used
}

// A tag names a block of one world of this process:
//
//	bits 0..15   slot of the block
//	bit  16      hollow: the handle has no elements, or was made with a bad index
//	bits 17..31  number of the world, from 1 on
//	bits 32..63  generation of the block, odd while it is live
//
// A tagTable holds the tag of each live block. So one comparison of a handle's tag with its entry finds every way in
// which a handle can be bad: the object was freed, it belongs to another world, its world is finalized, the handle is
// the zero value, or it has no elements. The comparison is on every data path. It takes half the instructions of its
// predecessor, which read the heap through a pointer in the handle and then the block's generation.
const (
	slotMask   = layout.MaxBlocks - 1
	hollow     = layout.MaxBlocks
	worldShift = 17
	maxWorlds  = 1<<15 - 1 // after that, numbers repeat, as generations do
	worldMask  = maxWorlds << worldShift
)

// A heap has two tables, so that the possibility of deaths costs the data path nothing. The fast test reads tags. At
// the first death that this process learns of, closeFastPath makes all entries of tags fail. Every operation then
// goes through Ctx.check, which reads liveTags and looks whether the target is alive.

// tagTable holds, at the index of its slot, the tag of each live block. The other entries hold a value that is no tag
// of their slot. Pages of the table that no block needs are never touched.
type tagTable [layout.MaxBlocks]uint64

// currentHeap is the heap of the world that is not finalized, for handles that are used without a context.
var currentHeap atomic.Pointer[heap]

// worlds counts the worlds that this process has begun.
var worlds atomic.Uint64

// newHeap returns the heap of a new world of job j.
func newHeap(j *job.Job) *heap {
	h := &heap{job: j, far: j.Far, checks: j.CheckCollectives, mark: &j.Map.Control(j.Local).Progress.Calls, me: j.PE, npes: j.NPEs, arena: j.Arena, requested: map[uint32]uint64{}}
	h.turns.seed = rand.Uint64()
	h.world = (1 + (worlds.Add(1)-1)%maxWorlds) << worldShift
	h.tags, h.liveTags = unsafe.Pointer(new(tagTable)), unsafe.Pointer(new(tagTable))
	h.invalidateTag(0) // slot 0 must not hold 0, the tag of the zero handle
	h.slots.Store(layout.MaxBlocks)
	return h
}

// finalized reports whether the world is finalized.
func (h *heap) finalized() bool { return h.slots.Load() == 0 }

// invalidateTags makes all handles of a world fail, which is being finalized.
func (h *heap) invalidateTags() {
	h.slots.Store(0)
	currentHeap.CompareAndSwap(h, nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	for slot := range h.usedSlots {
		h.invalidateTag(slot)
	}
}

// entryOf returns the address of a tag's entry in a table. It needs no test for nil and no bounds check: every 16-bit
// slot number has an entry.
func entryOf(tags unsafe.Pointer, tag uint64) *uint64 {
	return (*uint64)(unsafe.Add(tags, tag&slotMask*8))
}

// tagIsLive reports whether the tag names a live object and this process knows of no death. It is for data
// operations, which must not be under way when a block is freed or the world is finalized.
//
// It reads the table plainly, so that the processor compares with memory in one instruction. The load may miss a
// death that is noted at the same time. The operation then ran before the death was known, as it might have done
// anyway.
func tagIsLive(tags unsafe.Pointer, tag uint64) bool { return peekTag(entryOf(tags, tag)) == tag }

// isLive reports whether the tag names a live object. It is for calls that may run at the same time as Finalize, such
// as waits, which Finalize ends.
func (h *heap) isLive(tag uint64) bool { return atomic.LoadUint64(entryOf(h.liveTags, tag)) == tag }

// tagOf returns the tag of a live block.
func (h *heap) tagOf(b alloc.Block) uint64 { return uint64(b.Gen)<<32 | h.world | uint64(b.Slot) }

// publishTag makes handles of block b pass the tests. b is new or has another size now, for which the program asked
// size bytes. The caller holds mu.
func (h *heap) publishTag(b alloc.Block, size uint64) {
	tag := h.tagOf(b)
	h.requested[b.Slot] = size
	h.usedSlots = max(h.usedSlots, b.Slot+1)
	atomic.StoreUint64(entryOf(h.liveTags, tag), tag)
	if !h.fastClosed.Load() {
		atomic.StoreUint64(entryOf(h.tags, tag), tag)
	}
}

// invalidateTag makes all tags of a slot fail every test. The caller holds mu, except newHeap.
func (h *heap) invalidateTag(slot uint32) {
	atomic.StoreUint64(entryOf(h.liveTags, uint64(slot)), ^uint64(slot))
	h.removeFastTag(slot)
}

// removeFastTag makes all tags of a slot fail the fast test, so that operations on the object take the slow path.
func (h *heap) removeFastTag(slot uint32) {
	atomic.StoreUint64(entryOf(h.tags, uint64(slot)), ^uint64(slot))
}

// emptyTag returns the tag of an object without elements, which occupies no block.
func (h *heap) emptyTag() uint64 { return h.world | hollow }

// slotOf and generationOf return the slot and the generation of a tag's block, by which the allocator finds it.
func slotOf(tag uint64) uint32       { return uint32(tag & slotMask) }
func generationOf(tag uint64) uint32 { return uint32(tag >> 32) }

// ref is a handle without its element type, for checks and their messages.
type ref struct {
	off  uint64
	n    int
	tag  uint64
	size uint64 // bytes of an element if it must be aligned, otherwise 0
}

// check is the full check of an operation that fails the fast test. The operation accesses need elements of r on PE
// pe. check returns an error that says which argument is bad.
//
// It returns nil for operations that fail the fast test and are good: by a handle without elements, on a PE outside of
// the context's window, and on a living PE after another PE has died. The caller then performs them.
func (c *Ctx) check(op string, r ref, need, pe int) error {
	switch {
	case c != nil && c.h == nil && c.shared != nil:
		return usage(op, ErrDestroyed, "context was destroyed before this call, want a live one")
	case c == nil || c.h == nil:
		return usage(op, ErrArgument, "context is nil, want w.Ctx()")
	case c.h.finalized():
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
	if number := c.shared.team.group.pe(pe); c.h.isDead(number) {
		return c.h.errorOfDead(op, []layout.PE{number})
	}
	return nil
}

// checkRef is the part of check that concerns the handle alone.
func (h *heap) checkRef(op string, r ref, need int) error {
	switch {
	case h.finalized():
		return usage(op, ErrFinalized, "called after Finalize")
	case r.tag&worldMask == 0:
		return usage(op, ErrForeignHandle, "handle is the zero value, want one that Alloc returned")
	case r.tag&worldMask != h.world:
		return usage(op, ErrForeignHandle, "handle of another world (one finalized before?), want one allocated from this world")
	case r.n == badField:
		return usage(op, ErrArgument, "handle was made by a Field that names no field of its struct, want one of FieldOf, whose function returns the address of a field of its argument")
	case r.n < 0:
		return usage(op, ErrBounds, "handle was made by At(i) or Slice(i, j) with index %d of %[2]d elements, want 0 <= i < %[2]d or 0 <= i <= j <= %[2]d", int64(r.off), -1-r.n)
	case r.tag != h.emptyTag() && !h.isLive(r.tag&^hollow):
		return usage(op, ErrFreed, "object was freed or resized before this call, want a live one")
	case need > r.n:
		return usage(op, ErrBounds, "%d elements, want at most the object's %d", need, r.n)
	}
	return nil
}

// typeVerdicts caches the results of checkType: reflect.Type -> string, which says what is wrong with the type, or is
// empty.
var typeVerdicts sync.Map // reflect.Type -> string, empty for a good one

// checkType returns an error unless T may be an element. T must hold no pointers, because the garbage collector does
// not scan the heap and an address means nothing in another PE, and must have a size.
func checkType[T any](op string) error {
	t := reflect.TypeFor[T]()
	why, ok := typeVerdicts.Load(t)
	if !ok {
		why, _ = typeVerdicts.LoadOrStore(t, symheap.Unsuitable(t))
	}
	if why == "" {
		return nil
	}
	return usage(op, ErrElementType, "element type %v %v, want a type of numbers, arrays and structs of them", t, why)
}

// sizeOf returns the size of an element in bytes.
func sizeOf[T any]() uint64 {
	var z T
	return uint64(unsafe.Sizeof(z))
}
