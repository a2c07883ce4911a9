package shmem

import (
	"math/bits"

	"github.com/goshmem/goshmem/rma"
)

// Stride is where strided operations find their elements: N blocks of Block elements
// each, which begin Dst elements apart in the destination and Src in the source.
type Stride struct{ Dst, Src, Block, N int }

// IPut copies s.N elements of src, every s.Src-th from the first on, to every s.Dst-th
// element of dst on PE pe. It returns when src may be reused. Each element is put as
// P does it. s.Block is 0 or 1: IBPut copies longer blocks.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: a load and a store each, where the PE is on the same node; with strides of 1
//     as Put.
//   - Errors: as Put, where ErrBounds is for elements outside of src as well; ErrArgument
//     for a stride less than 1, a negative s.N or a longer block.
//   - Concurrent calls: allowed.
//   - Source: shmem_iput.
func IPut[T any](c *Ctx, dst Sym[T], src []T, s Stride, pe int) error {
	if !c.ok(dst.tag, pe) || uint(s.Block) > 1 || !s.within(1, dst.n, len(src)) {
		return slowPutStrided(c, dst, src, s, pe, &routineIPut)
	}
	t := c.target(pe)
	rma.Scatter(t.At(dst.off), src, s.Dst, s.Src, 1, s.N)
	t.Ring()
	return nil
}

// IGet copies s.N elements of src on PE pe, every s.Src-th from the first on, to every
// s.Dst-th element of dst. The other elements of dst stay as they are. s.Block is 0 or
// 1: IBGet copies longer blocks.
//
//   - Completion: on return.
//   - Cost: as IPut.
//   - Errors: as IPut, where ErrBounds is for elements outside of dst as well.
//   - Concurrent calls: allowed.
//   - Source: shmem_iget.
func IGet[T any](c *Ctx, dst []T, src Sym[T], s Stride, pe int) error {
	if !c.ok(src.tag, pe) || uint(s.Block) > 1 || !s.within(1, len(dst), src.n) {
		return slowGetStrided(c, dst, src, s, pe, &routineIGet)
	}
	rma.Gather(dst, c.target(pe).At(src.off), s.Dst, s.Src, 1, s.N)
	return nil
}

// IBPut copies s.N blocks of s.Block elements of src, which begin every s.Src elements,
// to blocks of dst on PE pe, which begin every s.Dst elements. It returns when src may
// be reused.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: a copy for each block, where the PE is on the same node; with strides of
//     s.Block as Put.
//   - Errors: as Put, where ErrBounds is for blocks that reach out of src as well;
//     ErrArgument for a block without elements, a stride less than a block, or a negative
//     s.N.
//   - Concurrent calls: allowed.
//   - Source: shmem_ibput.
func IBPut[T any](c *Ctx, dst Sym[T], src []T, s Stride, pe int) error {
	if !c.ok(dst.tag, pe) || s.Block < 1 || !s.within(s.Block, dst.n, len(src)) {
		return slowPutStrided(c, dst, src, s, pe, &routineIBPut)
	}
	t := c.target(pe)
	rma.Scatter(t.At(dst.off), src, s.Dst, s.Src, s.Block, s.N)
	t.Ring()
	return nil
}

// IBGet copies s.N blocks of s.Block elements of src on PE pe, which begin every s.Src
// elements, to blocks of dst, which begin every s.Dst elements. What is between them
// in dst stays as it is.
//
//   - Completion: on return.
//   - Cost: as IBPut.
//   - Errors: as IBPut, where ErrBounds is for blocks that reach out of dst as well.
//   - Concurrent calls: allowed.
//   - Source: shmem_ibget.
func IBGet[T any](c *Ctx, dst []T, src Sym[T], s Stride, pe int) error {
	if !c.ok(src.tag, pe) || s.Block < 1 || !s.within(s.Block, len(dst), src.n) {
		return slowGetStrided(c, dst, src, s, pe, &routineIBGet)
	}
	rma.Gather(dst, c.target(pe).At(src.off), s.Dst, s.Src, s.Block, s.N)
	return nil
}

// within says whether blocks of that many elements do not overlap, and lie within as
// many elements of the destination and of the source as there are.
func (s Stride) within(block, dst, src int) bool {
	return s.Dst >= block && s.Src >= block && reaches(s.N, s.Dst, block, dst) && reaches(s.N, s.Src, block, src)
}

// reaches says whether n blocks that begin a step apart end within room elements.
func reaches(n, step, block, room int) bool {
	if n <= 0 {
		return n == 0
	}
	high, between := bits.Mul64(uint64(n-1), uint64(step))
	return block <= room && high == 0 && between <= uint64(room-block)
}

// check returns what is wrong with the stride of an operation on elements (single) or
// on blocks, if anything is.
func (s Stride) check(op string, single bool, dst, src int) error {
	block := s.Block
	if single {
		block = 1
	}
	switch {
	case single && uint(s.Block) > 1:
		return usage(op, ErrArgument, "blocks of %d elements, want 0 or 1", s.Block)
	case block < 1:
		return usage(op, ErrArgument, "blocks of %d elements, want at least 1", block)
	case s.Dst < block:
		return usage(op, ErrArgument, "stride %d of the destination, want at least %d", s.Dst, block)
	case s.Src < block:
		return usage(op, ErrArgument, "stride %d of the source, want at least %d", s.Src, block)
	case s.N < 0:
		return usage(op, ErrArgument, "%d blocks, want 0 or more", s.N)
	}
	const far = "%d blocks of %d elements that begin every %d of the %s, want them within its %d"
	if !reaches(s.N, s.Dst, block, dst) {
		return usage(op, ErrBounds, far, s.N, block, s.Dst, "destination", dst)
	}
	if !reaches(s.N, s.Src, block, src) {
		return usage(op, ErrBounds, far, s.N, block, s.Src, "source", src)
	}
	return nil
}
