package shmem

import (
	"math/bits"

	"github.com/goshmem/goshmem/rma"
)

// Stride says where strided operations find their elements: in N blocks of Block elements each. Successive blocks
// begin Dst elements apart in the destination, and Src elements apart in the source.
type Stride struct{ Dst, Src, Block, N int }

// IPut copies s.N elements of src, every s.Src-th from the first on, to every s.Dst-th element of dst on PE pe. It
// returns when src may be reused. It puts each element as P does. s.Block is 0 or 1: IBPut copies longer blocks.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: a load and a store for each element, where the PE is on the same node; with strides of 1 as Put.
//   - Errors: as Put, with ErrBounds also for elements outside src; ErrArgument for a stride less than 1, a negative
//     s.N or a longer block.
//   - Concurrent calls: allowed.
//   - Source: shmem_iput.
func IPut[T any](c *Ctx, dst Sym[T], src []T, s Stride, pe int) error {
	if !c.passAndMark(dst.tag, pe) || uint(s.Block) > 1 || !s.fits(1, dst.n, len(src)) {
		return slowPutStrided(c, dst, src, s, pe, &routineIPut)
	}
	t := c.target(pe)
	rma.Scatter(t.At(dst.off), src, s.Dst, s.Src, 1, s.N)
	t.Ring()
	return nil
}

// IGet copies s.N elements of src on PE pe, every s.Src-th from the first on, to every s.Dst-th element of dst. The
// other elements of dst stay as they are. s.Block is 0 or 1: IBGet copies longer blocks.
//
//   - Completion: on return.
//   - Cost: as IPut.
//   - Errors: as IPut, with ErrBounds also for elements outside dst.
//   - Concurrent calls: allowed.
//   - Source: shmem_iget.
func IGet[T any](c *Ctx, dst []T, src Sym[T], s Stride, pe int) error {
	if !c.passAndMark(src.tag, pe) || uint(s.Block) > 1 || !s.fits(1, len(dst), src.n) {
		return slowGetStrided(c, dst, src, s, pe, &routineIGet)
	}
	rma.Gather(dst, c.target(pe).At(src.off), s.Dst, s.Src, 1, s.N)
	return nil
}

// IBPut copies s.N blocks of s.Block elements of src, which begin every s.Src elements, to blocks of dst on PE pe,
// which begin every s.Dst elements. It returns when src may be reused.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: a copy for each block, where the PE is on the same node; with strides of s.Block as Put.
//   - Errors: as Put, with ErrBounds also for blocks that end outside src; ErrArgument for a block without elements,
//     a stride less than a block, or a negative s.N.
//   - Concurrent calls: allowed.
//   - Source: shmem_ibput.
func IBPut[T any](c *Ctx, dst Sym[T], src []T, s Stride, pe int) error {
	if !c.passAndMark(dst.tag, pe) || s.Block < 1 || !s.fits(s.Block, dst.n, len(src)) {
		return slowPutStrided(c, dst, src, s, pe, &routineIBPut)
	}
	t := c.target(pe)
	rma.Scatter(t.At(dst.off), src, s.Dst, s.Src, s.Block, s.N)
	t.Ring()
	return nil
}

// IBGet copies s.N blocks of s.Block elements of src on PE pe, which begin every s.Src elements, to blocks of dst,
// which begin every s.Dst elements. The elements of dst between the blocks stay as they are.
//
//   - Completion: on return.
//   - Cost: as IBPut.
//   - Errors: as IBPut, with ErrBounds also for blocks that end outside dst.
//   - Concurrent calls: allowed.
//   - Source: shmem_ibget.
func IBGet[T any](c *Ctx, dst []T, src Sym[T], s Stride, pe int) error {
	if !c.passAndMark(src.tag, pe) || s.Block < 1 || !s.fits(s.Block, len(dst), src.n) {
		return slowGetStrided(c, dst, src, s, pe, &routineIBGet)
	}
	rma.Gather(dst, c.target(pe).At(src.off), s.Dst, s.Src, s.Block, s.N)
	return nil
}

// fits reports whether blocks of block elements do not overlap, and lie within dst elements of the destination and
// src elements of the source.
func (s Stride) fits(block, dst, src int) bool {
	return s.Dst >= block && s.Src >= block && blocksFit(s.N, s.Dst, block, dst) && blocksFit(s.N, s.Src, block, src)
}

// blocksFit reports whether n blocks, which begin step elements apart, end within room elements.
func blocksFit(n, step, block, room int) bool {
	if n <= 0 {
		return n == 0
	}
	high, between := bits.Mul64(uint64(n-1), uint64(step))
	return block <= room && high == 0 && between <= uint64(room-block)
}

// check returns what is wrong with the stride of an operation on single elements or on blocks, or nil. dst and src
// are the numbers of elements there are.
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
	if !blocksFit(s.N, s.Dst, block, dst) {
		return usage(op, ErrBounds, far, s.N, block, s.Dst, "destination", dst)
	}
	if !blocksFit(s.N, s.Src, block, src) {
		return usage(op, ErrBounds, far, s.N, block, s.Src, "source", src)
	}
	return nil
}
