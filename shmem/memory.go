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

// Align asks for an object whose address on every PE is a multiple of bytes, a power of two up to 2 MiB. Without it,
// objects begin on cache lines. Realloc does not keep the alignment of Align.
//
//   - Source: shmem_align.
func Align(bytes uint64) AllocOption { return func(o *allocOptions) { o.align = bytes } }

// Hint says what an object will be used for.
type Hint uint32

// The hints. They change nothing yet: all memory of a segment is alike.
//
//   - Source: SHMEM_MALLOC_ATOMICS_REMOTE, SHMEM_MALLOC_SIGNAL_REMOTE.
const (
	HintAtomicsRemote Hint = 1 << iota // other PEs make atomic operations on it
	HintSignalRemote                   // other PEs send signals to it

	allHints = HintAtomicsRemote | HintSignalRemote
)

// Hints says what the object will be used for: a combination of the hints, or 0 for none.
//
//   - Errors: of the allocation, ErrArgument for a bit that is no hint.
//   - Source: shmem_malloc_with_hints.
func Hints(h Hint) AllocOption { return func(o *allocOptions) { o.hints = h } }

// Codes of the calls that allocate or make teams. PEs compare them to find out whether all made the same call.
const (
	callAlloc = iota + 1
	callCalloc
	callRealloc
	callFree
	callSplitStrided
	callSplit2D
	callSync
	callDestroy
	callBroadcast
	callReduce
	callFCollect
	callCollect
	callAlltoall
	callAlltoallS
	callInScan
	callExScan
	callReduceValue
	callBroadcastValue

	callBits = 8
	callMask = 1<<callBits - 1

	refused = 1 << callBits // flag of an allocation call: this PE's arguments are bad
)

var callNames = [...]string{
	callAlloc: "Alloc", callCalloc: "Calloc", callRealloc: "Realloc", callFree: "Free",
	callSplitStrided: "Team.SplitStrided", callSplit2D: "Team.Split2D",
	callSync: "a barrier", callDestroy: "Team.Destroy", callBroadcast: "Broadcast", callReduce: "Reduce",
	callFCollect: "FCollect", callCollect: "Collect", callAlltoall: "Alltoall", callAlltoallS: "AlltoallS",
	callInScan: "SumInScan", callExScan: "SumExScan", callReduceValue: "ReduceValue", callBroadcastValue: "BroadcastValue",
}

// Alloc allocates a symmetric object of n elements on every PE and returns when all PEs have called it. The contents
// are undefined. With n of 0 it returns a handle without elements at once.
//
//   - Shape: n elements of T on each PE, at the same offset everywhere.
//   - Cost: a barrier, and a search through the free parts of the heap.
//   - Errors: ErrExhausted, ErrElementType, ErrArgument; ErrMismatch, also if another PE's arguments are bad;
//     *PEError with ErrPEDied when a PE has died. If one PE gets an error, all do, and nothing is allocated.
//   - Collective: over all PEs, with the same arguments.
//   - Source: shmem_malloc.
func Alloc[T any](w *World, n int, o ...AllocOption) (Sym[T], error) {
	return allocate[T](w, callAlloc, n, o)
}

// Calloc is Alloc with all elements zero on every PE before any PE's call returns.
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
	if err := w.team.syncWhole("Calloc"); err != nil { // no PE may put before all have cleared
		return Sym[T]{}, w.session.h.freeAfterFailure(err, x.tag)
	}
	return x, nil
}

// freeAfterFailure frees the block of a call whose last barrier failed with err, and returns err. If a death was the
// cause, the call failed on all PEs that live, so their heaps stay alike. Otherwise the team is broken, and no PE
// allocates any more.
func (h *heap) freeAfterFailure(err error, tag uint64) error {
	if e := h.freeBlock(tag); e != nil {
		return errors.Join(err, e)
	}
	return err
}

// allocate is Alloc. Calloc calls it as well, and then clears the object.
func allocate[T any](w *World, call, n int, o []AllocOption) (x Sym[T], err error) {
	op := callNames[call]
	opts := allocOptions{align: 1}
	size, err := w.checkSize(op, n, sizeOf[T](), checkType[T](op))
	if err == nil {
		err = opts.apply(op, o)
	}
	switch {
	case err != nil && n == 0:
		return x, err
	case err != nil:
		return x, w.joinRefused(call, err)
	case size == 0:
		return Sym[T]{tag: w.session.h.emptyTag()}, nil
	}
	if err := w.matchArguments(call, coll.Words{size, opts.align, uint64(opts.hints)}); err != nil {
		return x, err
	}
	if bits.OnesCount64(opts.align) != 1 || opts.align > layout.Align {
		return x, usage(op, ErrArgument, "Align(%d), want a power of two up to %d", opts.align, layout.Align)
	}
	if opts.hints&^allHints != 0 {
		return x, usage(op, ErrArgument, "Hints(%#x), want a combination of HintAtomicsRemote and HintSignalRemote", uint32(opts.hints))
	}
	b, err := w.session.h.allocBlock(size, opts.align)
	if err != nil {
		return x, w.session.h.publicError(op, err)
	}
	return newHandle[T](w.session.h, b, n), nil
}

// apply applies the options of a call.
func (opts *allocOptions) apply(op string, o []AllocOption) error {
	for i, f := range o {
		if f == nil {
			return usage(op, ErrArgument, "option %d is nil, want Align or Hints", i)
		}
		f(opts)
	}
	return nil
}

// newHandle returns the handle of a block of n elements.
func newHandle[T any](h *heap, b alloc.Block, n int) Sym[T] {
	return Sym[T]{off: layout.HeapOffset + b.Off, n: n, tag: h.tagOf(b)}
}

// checkSize checks the arguments of an allocation and returns its size in bytes.
func (w *World) checkSize(op string, n int, elem uint64, typeErr error) (uint64, error) {
	if err := w.checkUsable(op); err != nil {
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

// matchArguments is the barrier of an allocation call. It compares what the PEs called. If one made another call, or
// passed other arguments, all PEs get an error, so their heaps stay alike.
func (w *World) matchArguments(call int, args coll.Words) error {
	op := callNames[call&callMask]
	if err := w.ctx.Quiet(); err != nil {
		return conclude(w.team, op, err)
	}
	args[3] = uint64(call)
	if w.session.h.checks {
		if err := w.team.compare(op, 0, 0, "%s", describeCall(args)); err != nil {
			return err
		}
	}
	differs, first, other, err := w.team.same(args)
	if err != nil {
		return w.team.publicError(op, err)
	}
	if differs >= 0 {
		return usage(op, ErrMismatch, "PE 0 called %s, PE %d called %s: want the same call on all PEs",
			describeCall(first), differs, describeCall(other))
	}
	return nil
}

// joinRefused takes part in an allocation call although this PE's arguments are bad, and returns err, which says why
// they are. Otherwise the PEs with good arguments would wait for this one, or meet it in its next collective.
func (w *World) joinRefused(call int, err error) error {
	if op := callNames[call]; w.checkUsable(op) == nil {
		if w.session.h.checks && w.team.upper == nil { // a team that spans nodes compares nothing before the meeting
			return w.team.reportRefusal(op, err)
		}
		_ = w.matchArguments(call|refused, coll.Words{}) // err, this PE's own mistake, matters more
	}
	return err
}

// describeCall returns the text of a call from the words that PEs compare.
func describeCall(w coll.Words) string {
	name := "another collective"
	call := w[3] & callMask
	if call > 0 && int(call) < len(callNames) {
		name = callNames[call]
	}
	switch {
	case call == 0:
		return name
	case call <= callFree && w[3]&refused != 0:
		return name + " with bad arguments (see the error on that PE)"
	}
	if call >= callSync {
		return name
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

// allocBlock allocates a block and publishes its tag.
func (h *heap) allocBlock(size, align uint64) (alloc.Block, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, err := h.arena.Alloc(size, align)
	if err == nil {
		h.publishTag(b, size)
	}
	return b, err
}

// resizeBlock gives a block another size, in place, or as a new block beside the old one, which then stays until it
// is freed.
func (h *heap) resizeBlock(tag, size uint64) (b alloc.Block, moved bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, moved, err = h.arena.Resize(slotOf(tag), generationOf(tag), size, 1)
	if err == nil {
		h.publishTag(b, size)
	}
	return b, moved, err
}

// freeBlock frees a block and invalidates its tag.
func (h *heap) freeBlock(tag uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.arena.Free(slotOf(tag), generationOf(tag))
	if err == nil {
		h.invalidateTag(slotOf(tag))
		delete(h.requested, slotOf(tag))
	}
	return err
}

// publicError turns an error of the allocator into one of this package: what was asked for, what is free, and what to
// set.
func (h *heap) publicError(op string, err error) error {
	if errors.Is(err, alloc.ErrTableFull) {
		return usage(op, ErrExhausted,
			"the symmetric heap has as many objects and gaps between them as it can hold, %d; hint: allocate fewer and larger objects, and use parts of them", layout.MaxBlocks)
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
		hint = fmt.Sprintf("ask for less; no heap can be that large: %v", err)
	}
	return usage(op, ErrExhausted,
		"%d bytes asked, %d of the symmetric heap's %d bytes are free, the largest piece has %d; hint: %s",
		full.Asked, full.Free, full.Size, full.Largest, hint)
}

// checkWhole checks that r, of size bytes, is the handle of a whole live object.
func (h *heap) checkWhole(op string, r ref, size uint64) error {
	if err := h.checkRef(op, r, 0); err != nil || r.tag == h.emptyTag() {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.requested[slotOf(r.tag)]
	begin := h.job.Map.Control(h.job.Local).Blocks[slotOf(r.tag)].Off + layout.HeapOffset
	if r.off != begin || size != asked {
		return usage(op, ErrArgument,
			"handle of a part of an object (%d of its %d bytes, from byte %d), want the handle that Alloc returned", size, asked, r.off-begin)
	}
	return nil
}

// bytes returns the size of what a handle names.
func (x Sym[T]) bytes() uint64 { return uint64(max(x.n, 0)) * sizeOf[T]() }

// Realloc changes the number of elements of an object, which may move, and returns its new handle. The old handle
// fails from then on. Elements up to the smaller number keep their values. With n of 0 it is Free, and with a zero
// handle it is Alloc.
//
//   - Errors: those of Alloc and Free; with an error, the object is unchanged.
//   - Collective: over all PEs, with the same arguments.
//   - Source: shmem_realloc.
func Realloc[T any](w *World, x Sym[T], n int) (Sym[T], error) {
	const op = "Realloc"
	size, err := w.checkSize(op, n, sizeOf[T](), checkType[T](op))
	if err == nil && x == (Sym[T]{}) {
		return Alloc[T](w, n)
	}
	if err == nil {
		err = w.session.h.checkWhole(op, x.ref(), x.bytes())
	}
	if err != nil {
		return x, w.joinRefused(callRealloc, err)
	}
	h := w.session.h
	switch {
	case x.tag == h.emptyTag():
		return Alloc[T](w, n)
	case n == 0:
		if err := Free(w, x); err != nil {
			return x, err
		}
		return Sym[T]{tag: h.emptyTag()}, nil
	}
	if err := w.matchArguments(callRealloc, coll.Words{size, x.off}); err != nil {
		return x, err
	}
	b, moved, err := h.resizeBlock(x.tag, size)
	if err != nil {
		return x, h.publicError(op, err)
	}
	y := newHandle[T](h, b, n)
	if !moved {
		return y, nil
	}
	copy(y.Local(), x.Local())
	if err := w.team.syncWhole(op); err != nil { // no PE may put before all have copied
		return x, h.freeAfterFailure(err, y.tag)
	}
	return y, h.freeBlock(x.tag)
}

// Free frees an object after a barrier. All its handles fail from then on. With a zero handle, and with a handle
// without elements, it does nothing and returns at once.
//
//   - Errors: ErrFreed, ErrForeignHandle, ErrMismatch, ErrArgument for a handle of a part; *PEError with ErrPEDied
//     when a PE has died. If one PE gets an error, all do, and the object lives on. ErrUnwinding, on this PE alone,
//     while its goroutine panics: see World.Finalize.
//   - Collective: over all PEs, with the same object.
//   - Source: shmem_free.
func Free[T any](w *World, x Sym[T]) error {
	const op = "Free"
	if _, err := w.checkSize(op, 0, 1, nil); err != nil {
		return err
	}
	if x == (Sym[T]{}) {
		return nil
	}
	if err := refuseUnwinding(op); err != nil {
		return err
	}
	h := w.session.h
	if err := h.checkWhole(op, x.ref(), x.bytes()); err != nil {
		return w.joinRefused(callFree, err)
	}
	if x.tag == h.emptyTag() {
		return nil
	}
	if err := w.matchArguments(callFree, coll.Words{x.off}); err != nil {
		return err
	}
	if err := h.freeBlock(x.tag); err != nil {
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

// Heap returns the state of the symmetric heap, which is the same on all PEs. For a nil World it returns zeros.
//
//   - Source: none; users have long asked for it.
func (w *World) Heap() HeapStats {
	if w == nil || w.session == nil {
		return HeapStats{}
	}
	w.session.h.mu.Lock()
	defer w.session.h.mu.Unlock()
	s := w.session.h.arena.Stats()
	return HeapStats{Size: s.Size, Free: s.Free, LargestFree: s.LargestFree, HighWater: s.HighWater}
}
