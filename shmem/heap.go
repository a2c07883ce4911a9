package shmem

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/alloc"
	"github.com/goshmem/goshmem/symheap/layout"
)

// heap is the Go side of a world's symmetric heap: what a handle points to.
type heap struct {
	slots atomic.Uint32 // of blocks; 0 once the world is finalized
	// blocks is this PE's table, a *[layout.MaxBlocks]alloc.Entry that is never
	// nil; only Gen is read here. Finalize replaces it by an atomic store.
	// Waits, which Finalize ends, read it atomically; data operations must not
	// be under way then and read it plainly, which is a cycle shorter.
	blocks unsafe.Pointer
	job    *job.Job
	me     int
	npes   int
	mu     sync.Mutex // guards arena and asked
	arena  *alloc.Arena
	asked  map[uint32]uint64 // bytes that were asked for, by the slot of the live block
}

func newHeap(j *job.Job) *heap {
	h := &heap{job: j, me: j.PE, npes: j.NPEs, arena: j.Arena, asked: map[uint32]uint64{}}
	h.slots.Store(layout.MaxBlocks)
	h.blocks = unsafe.Pointer(&j.Map.Control(j.PE).Blocks)
	return h
}

// graveyard takes the place of the blocks of a finalized world: no generation
// in it is live, so that every handle fails the check it makes anyway.
var graveyard [layout.MaxBlocks]alloc.Entry

// end makes all handles of a finalized world fail.
func (h *heap) end() {
	h.slots.Store(0)
	atomic.StorePointer(&h.blocks, unsafe.Pointer(&graveyard))
}

// live says whether the tag {generation, slot} names a live object. It is on
// every data path, so it does without tests for nil and bounds: every slot
// number of 16 bits has an entry.
func (h *heap) live(tag uint64) bool {
	return entry(h.blocks, tag).Gen == uint32(tag>>32)
}

// liveNow is live for calls that Finalize may meet.
func (h *heap) liveNow(tag uint64) bool {
	return entry(atomic.LoadPointer(&h.blocks), tag).Gen == uint32(tag>>32)
}

// entry returns the entry of a tag's slot.
func entry(blocks unsafe.Pointer, tag uint64) *alloc.Entry {
	return (*alloc.Entry)(unsafe.Add(blocks, tag%layout.MaxBlocks*uint64(unsafe.Sizeof(alloc.Entry{}))))
}

func tagOf(b alloc.Block) uint64 { return uint64(b.Gen)<<32 | uint64(b.Slot) }

// empty is the tag of an object without elements, which occupies no block: an
// even generation is never live.
const empty = ^uint64(1 << 32)

// ref is a handle without its type, for checks and their messages.
type ref struct {
	h    *heap
	off  uint64
	n    int
	tag  uint64
	size uint64 // of an element, where alignment matters; otherwise 0
}

// check is the slow path of every test that an operation on pe's copy of r,
// need elements long, makes of its arguments: it returns the error that says
// what is wrong. Nil only for an operation on no elements.
func (c *Ctx) check(op string, r ref, need, pe int) error {
	switch {
	case c == nil || c.h == nil:
		return usage(op, ErrArgument, "context is nil, want w.Ctx()")
	case c.h.slots.Load() == 0:
		return usage(op, ErrFinalized, "called after Finalize")
	}
	if err := c.h.checkRef(op, r, need); err != nil {
		return err
	}
	if pe < 0 || pe >= c.npes {
		return usage(op, ErrPERange, "PE %d of a team of %d, want 0 to %d", pe, c.npes, c.npes-1)
	}
	if r.size != 0 && r.off%r.size != 0 {
		return usage(op, ErrMisaligned, "element at offset %d of the segment, want a multiple of its size %d", r.off, r.size)
	}
	return nil
}

// checkRef is the part of check that concerns the handle alone.
func (h *heap) checkRef(op string, r ref, need int) error {
	switch {
	case h.slots.Load() == 0:
		return usage(op, ErrFinalized, "called after Finalize")
	case r.h == nil:
		return usage(op, ErrForeignHandle, "handle is the zero value, want one that Alloc returned")
	case r.h != h:
		return usage(op, ErrForeignHandle, "handle of another world (one finalized before?), want one allocated from this world")
	case r.n < 0:
		return usage(op, ErrBounds, "handle was made by At or Slice with index %d out of the object's bounds, want 0 to %d", int64(r.off), -1-r.n)
	case r.tag != empty && !h.liveNow(r.tag):
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
		why, _ = types.LoadOrStore(t, unsuitable(t))
	}
	if why == "" {
		return nil
	}
	return usage(op, ErrElementType, "element type %v %v, want a type of numbers, arrays and structs of them", t, why)
}

func unsuitable(t reflect.Type) string {
	if t.Size() == 0 {
		return "has no size"
	}
	if where := pointerIn(t); where != "" {
		return "holds a pointer (" + where + ")"
	}
	return ""
}

// pointerIn returns where in t a pointer is, or nothing.
func pointerIn(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() == 0 {
			return ""
		}
		return pointerIn(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if where := pointerIn(f.Type); where != "" {
				return fmt.Sprintf("field %s: %s", f.Name, where)
			}
		}
		return ""
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func,
		reflect.Interface, reflect.Slice, reflect.String:
		return t.String()
	default:
		return ""
	}
}

func sizeOf[T any]() uint64 {
	var z T
	return uint64(unsafe.Sizeof(z))
}
