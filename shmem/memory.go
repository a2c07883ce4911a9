package shmem

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/symheap/alloc"
	"github.com/goshmem/goshmem/symheap/layout"
)

// AllocOption changes what Alloc does.
type AllocOption func(*allocOptions)

type allocOptions struct {
	align uint64
	hints Hint
}

// Align asks for an object whose address on every PE is a multiple of bytes, a
// power of two up to 2 MiB. Without it, objects begin on cache lines. Realloc
// keeps no more than that.
//
//   - Source: shmem_align.
func Align(bytes uint64) AllocOption { return func(o *allocOptions) { o.align = bytes } }

// Hint says what an object will be used for.
type Hint uint32

// The hints. They change nothing so far: all memory of a segment is alike.
//
//   - Source: SHMEM_MALLOC_ATOMICS_REMOTE, SHMEM_MALLOC_SIGNAL_REMOTE.
const (
	HintAtomicsRemote Hint = 1 << iota // other PEs' atomic operations
	HintSignalRemote                   // other PEs' signals

	allHints = HintAtomicsRemote | HintSignalRemote
)

// Hints says what the object will be used for: any of the hints, or 0 for none.
//
//   - Errors: of the allocation, ErrArgument for a bit that is no hint.
//   - Source: shmem_malloc_with_hints.
func Hints(h Hint) AllocOption { return func(o *allocOptions) { o.hints = h } }

// The calls that allocate or make teams, for the comparison of what PEs called.
const (
	callAlloc = iota + 1
	callCalloc
	callRealloc
	callFree
	callSplitStrided
	callSplit2D

	callBits = 8
	callMask = 1<<callBits - 1

	refused = 1 << callBits // of an allocation call: its arguments are bad at this PE
)

var callNames = [...]string{
	callAlloc: "Alloc", callCalloc: "Calloc", callRealloc: "Realloc", callFree: "Free",
	callSplitStrided: "Team.SplitStrided", callSplit2D: "Team.Split2D",
}

// Alloc allocates a symmetric object of n elements on every PE and returns when
// all PEs have called it. The contents are undefined. With n of 0 it returns a
// handle of no elements at once.
//
//   - Shape: n elements of T on each PE, at the same offset everywhere.
//   - Cost: a barrier, and a search through the free parts of the heap.
//   - Errors: ErrExhausted, ErrElementType, ErrArgument, ErrMismatch, which a PE also gets
//     when another one's arguments are bad; *PEError with ErrPEDied when a PE has died. If
//     one PE gets an error, all do, and then nothing is allocated.
//   - Collective: over all PEs, with the same arguments.
//   - Source: shmem_malloc.
func Alloc[T any](w *World, n int, o ...AllocOption) (Sym[T], error) {
	return allocate[T](w, callAlloc, n, o)
}

// Calloc is Alloc with all elements zero on every PE, before any PE's call returns.
//
//   - Shape: as Alloc.
//   - Cost: that of Alloc, a barrier, and n stores.
//   - Errors: as Alloc.
//   - Collective: over all PEs, with the same arguments.
//   - Source: shmem_calloc.
func Calloc[T any](w *World, n int, o ...AllocOption) (Sym[T], error) {
	x, err := allocate[T](w, callCalloc, n, o)
	if err != nil || n == 0 {
		return x, err
	}
	clear(x.Local())
	if err := w.team.syncAll("Calloc"); err != nil { // nobody puts before all have cleared
		return Sym[T]{}, w.s.h.undo(err, x.tag)
	}
	return x, nil
}

// undo frees a block that a call has made whose last barrier failed with err, which
// it returns. If that is for a death, the call failed on all PEs that live, so that
// their heaps stay alike; otherwise the team is broken, and nobody allocates any more.
func (h *heap) undo(err error, tag uint64) error {
	if e := h.free(tag); e != nil {
		return errors.Join(err, e)
	}
	return err
}

func allocate[T any](w *World, call, n int, o []AllocOption) (x Sym[T], err error) {
	op := callNames[call]
	opts := allocOptions{align: 1}
	size, err := w.request(op, n, sizeOf[T](), checkType[T](op))
	if err == nil {
		err = opts.apply(op, o)
	}
	switch {
	case err != nil && n == 0:
		return x, err
	case err != nil:
		return x, w.refuse(call, err)
	case size == 0:
		return Sym[T]{tag: w.s.h.empty()}, nil
	}
	if err := w.agree(call, coll.Words{size, opts.align, uint64(opts.hints)}); err != nil {
		return x, err
	}
	if bits.OnesCount64(opts.align) != 1 || opts.align > layout.Align {
		return x, usage(op, ErrArgument, "Align(%d), want a power of two up to %d", opts.align, layout.Align)
	}
	if opts.hints&^allHints != 0 {
		return x, usage(op, ErrArgument, "Hints(%#x), want a combination of HintAtomicsRemote and HintSignalRemote", uint32(opts.hints))
	}
	b, err := w.s.h.alloc(size, opts.align)
	if err != nil {
		return x, w.s.h.explain(op, err)
	}
	return handle[T](w.s.h, b, n), nil
}

// apply puts options into effect.
func (opts *allocOptions) apply(op string, o []AllocOption) error {
	for i, f := range o {
		if f == nil {
			return usage(op, ErrArgument, "option %d is nil, want Align or Hints", i)
		}
		f(opts)
	}
	return nil
}

// handle makes the handle of a block.
func handle[T any](h *heap, b alloc.Block, n int) Sym[T] {
	return Sym[T]{off: layout.HeapOffset + b.Off, n: n, tag: h.tagOf(b)}
}

// request checks the arguments of an allocation and returns its size in bytes.
func (w *World) request(op string, n int, elem uint64, typeErr error) (uint64, error) {
	if err := w.usable(op); err != nil {
		return 0, err
	}
	if typeErr != nil {
		return 0, typeErr
	}
	hi, size := bits.Mul64(uint64(n), elem)
	if n < 0 || hi != 0 || size > 1<<62 {
		return 0, usage(op, ErrArgument, "%d elements of %d bytes, want 0 or more that fit into memory", n, elem)
	}
	return size, nil
}

// agree is the barrier of an allocation call. It reports PEs that made another
// call or the same with other arguments; all PEs get that error, and their
// heaps stay alike.
func (w *World) agree(call int, args coll.Words) error {
	op := callNames[call&callMask]
	if err := w.ctx.Quiet(); err != nil {
		return err
	}
	args[3] = uint64(call)
	if w.s.h.checks {
		if err := w.team.compare(op, 0, 0, "%s", describe(args)); err != nil {
			return err
		}
	}
	differs, first, other, err := w.team.t.Same(w.team.ctx, args)
	if err == nil {
		err = w.team.t.Whole()
	}
	if err != nil {
		return w.team.fail(op, err)
	}
	if differs >= 0 {
		return usage(op, ErrMismatch, "PE 0 called %s, PE %d called %s: want the same call on all PEs",
			describe(first), differs, describe(other))
	}
	return nil
}

// refuse takes part in an allocation call that this PE's arguments do not allow, and
// returns err, which says why. Without it, PEs whose arguments are good would wait for
// this one, or meet it in its next collective.
func (w *World) refuse(call int, err error) error {
	if op := callNames[call]; w.usable(op) == nil {
		if w.s.h.checks {
			return w.team.refuse(op, err)
		}
		_ = w.agree(call|refused, coll.Words{}) // what is wrong here comes first
	}
	return err
}

func describe(w coll.Words) string {
	name := "another collective"
	call := w[3] & callMask
	if call > 0 && int(call) < len(callNames) {
		name = callNames[call]
	}
	switch {
	case call == 0:
		return name
	case call <= callFree && w[3]&refused != 0:
		return name + " with bad arguments, which its own error names"
	}
	switch call {
	case callFree:
		return fmt.Sprintf("%s of the object at offset %d", name, w[0])
	case callRealloc:
		return fmt.Sprintf("%s of the object at offset %d to %d bytes", name, w[1], w[0])
	case callSplitStrided:
		return fmt.Sprintf("%s(%d, %d, %d) with %v", name, int64(w[0]), int64(w[1]), int64(w[2]), configWord(w[3]>>callBits))
	case callSplit2D:
		return fmt.Sprintf("%s(%d) with %v and %v", name, int64(w[0]), configWord(w[1]), configWord(w[2]))
	}
	what := fmt.Sprintf("%s of %d bytes", name, w[0])
	if w[1] > 1 {
		what += fmt.Sprintf(" with Align(%d)", w[1])
	}
	if w[2] != 0 {
		what += fmt.Sprintf(" with Hints(%#x)", w[2])
	}
	return what
}

func (h *heap) alloc(size, align uint64) (alloc.Block, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, err := h.arena.Alloc(size, align)
	if err == nil {
		h.enter(b, size)
	}
	return b, err
}

// resize gives a block another size, in place or as a new block beside it.
func (h *heap) resize(tag, size uint64) (b alloc.Block, moved bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, moved, err = h.arena.Resize(slotOf(tag), generation(tag), size, 1)
	if err == nil {
		h.enter(b, size)
	}
	return b, moved, err
}

func (h *heap) free(tag uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.arena.Free(slotOf(tag), generation(tag))
	if err == nil {
		h.bury(slotOf(tag))
		delete(h.asked, slotOf(tag))
	}
	return err
}

// explain gives an error of the allocator its public form: what was asked, what
// is there, and what to set.
func (h *heap) explain(op string, err error) error {
	if errors.Is(err, alloc.ErrTableFull) {
		return usage(op, ErrExhausted,
			"the symmetric heap has as many objects and gaps between them as it can have, %d; hint: allocate fewer and larger objects, and use parts of them", layout.MaxBlocks)
	}
	var full *alloc.ExhaustedError
	if !errors.As(err, &full) {
		return usage(op, ErrArgument, "%v", err)
	}
	const mib = 1 << 20
	step := max(full.Align, alloc.Granule)
	want := (full.Size + (full.Asked+step-1)/step*step + step - alloc.Granule + mib - 1) / mib * mib
	hint := fmt.Sprintf("%s=%[2]s (or oshrun --heap-size %[2]s) would do", envvar.SymmetricSize, envvar.FormatSize(want))
	if _, err := layout.SegmentSize(want); err != nil {
		hint = fmt.Sprintf("ask for less, no heap can be that large: %v", err)
	}
	return usage(op, ErrExhausted,
		"%d bytes asked, %d of the symmetric heap's %d bytes are free, the largest piece has %d; hint: %s",
		full.Asked, full.Free, full.Size, full.Largest, hint)
}

// whole checks that r, of size bytes, is the handle of a whole live object.
func (h *heap) whole(op string, r ref, size uint64) error {
	if err := h.checkRef(op, r, 0); err != nil || r.tag == h.empty() {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked[slotOf(r.tag)]
	begin := h.job.Map.Control(h.job.Local).Blocks[slotOf(r.tag)].Off + layout.HeapOffset
	if r.off != begin || size != asked {
		return usage(op, ErrArgument,
			"handle of a part of an object (%d of its %d bytes, from byte %d), want the one that Alloc returned", size, asked, r.off-begin)
	}
	return nil
}

// bytes returns the size of what a handle names.
func (x Sym[T]) bytes() uint64 { return uint64(max(x.n, 0)) * sizeOf[T]() }

// Realloc changes the number of elements of an object, which may move, and
// returns its new handle; the old one is dead. Elements up to the smaller
// number keep their values. With n of 0 it is Free, and of a zero handle it is Alloc.
//
//   - Errors: as Alloc, and those of Free; the object is unchanged then.
//   - Collective: over all PEs, with the same arguments.
//   - Source: shmem_realloc.
func Realloc[T any](w *World, x Sym[T], n int) (Sym[T], error) {
	const op = "Realloc"
	size, err := w.request(op, n, sizeOf[T](), checkType[T](op))
	if err == nil && x == (Sym[T]{}) {
		return Alloc[T](w, n)
	}
	if err == nil {
		err = w.s.h.whole(op, x.ref(), x.bytes())
	}
	if err != nil {
		return x, w.refuse(callRealloc, err)
	}
	h := w.s.h
	switch {
	case x.tag == h.empty():
		return Alloc[T](w, n)
	case n == 0:
		if err := Free(w, x); err != nil {
			return x, err
		}
		return Sym[T]{tag: h.empty()}, nil
	}
	if err := w.agree(callRealloc, coll.Words{size, x.off}); err != nil {
		return x, err
	}
	b, moved, err := h.resize(x.tag, size)
	if err != nil {
		return x, h.explain(op, err)
	}
	y := handle[T](h, b, n)
	if !moved {
		return y, nil
	}
	copy(y.Local(), x.Local())
	if err := w.team.syncAll(op); err != nil { // nobody puts before all have copied
		return x, h.undo(err, y.tag)
	}
	return y, h.free(x.tag)
}

// Free gives an object back, after a barrier. All its handles are dead then. Of a zero handle,
// and of an object without elements, it does nothing at once.
//
//   - Errors: ErrFreed, ErrForeignHandle, ErrMismatch, ErrArgument for a handle of
//     a part; *PEError with ErrPEDied when a PE has died. If one PE gets an error, all do,
//     and then the object lives. ErrUnwinding, at this PE alone, on the stack of a goroutine
//     that panics: see World.Finalize.
//   - Collective: over all PEs, with the same object.
//   - Source: shmem_free.
func Free[T any](w *World, x Sym[T]) error {
	const op = "Free"
	if _, err := w.request(op, 0, 1, nil); err != nil {
		return err
	}
	if x == (Sym[T]{}) {
		return nil
	}
	if err := unwinding(op); err != nil {
		return err
	}
	h := w.s.h
	if err := h.whole(op, x.ref(), x.bytes()); err != nil {
		return w.refuse(callFree, err)
	}
	if x.tag == h.empty() {
		return nil
	}
	if err := w.agree(callFree, coll.Words{x.off}); err != nil {
		return err
	}
	if err := h.free(x.tag); err != nil {
		return usage(op, ErrFreed, "%v", err)
	}
	return nil
}

// HeapStats says how full a PE's symmetric heap is.
type HeapStats struct {
	Size        uint64 // bytes in all
	Free        uint64 // bytes not allocated
	LargestFree uint64 // bytes of the largest object that fits
	HighWater   uint64 // most bytes ever allocated
}

// Heap returns the state of the symmetric heap, the same on all PEs, and zeros
// for a nil World.
//
//   - Source: none; users have long asked for it.
func (w *World) Heap() HeapStats {
	if w == nil || w.s == nil {
		return HeapStats{}
	}
	w.s.h.mu.Lock()
	defer w.s.h.mu.Unlock()
	s := w.s.h.arena.Stats()
	return HeapStats{Size: s.Size, Free: s.Free, LargestFree: s.LargestFree, HighWater: s.HighWater}
}
