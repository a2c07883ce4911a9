package alloc

import (
	"errors"
	"fmt"
)

// Errors that callers decide on. They come wrapped with the values concerned.
var (
	// ErrFreed reports a slot whose generation has moved on: the block was
	// freed, or resized, after the handle was made.
	ErrFreed = errors.New("block was freed")
	// ErrBadSlot reports a slot that never stood for a block.
	ErrBadSlot = errors.New("no such block")
	// ErrTableFull reports that every slot of the table is in use: there are too
	// many blocks, although the heap may have room.
	ErrTableFull = errors.New("table of blocks is full")
	// ErrBadSize reports a size of zero, or one that overflows when rounded up.
	ErrBadSize = errors.New("bad size")
	// ErrBadAlign reports an alignment that is not a power of two.
	ErrBadAlign = errors.New("alignment is not a power of two")
	// ErrCorrupt reports a header or table that no sequence of complete calls
	// produces, such as the state left by a process that died inside a call.
	ErrCorrupt = errors.New("allocator state is corrupt")
)

// ExhaustedError reports that no free block is large enough. All values are in
// bytes; Asked and Align are as the caller gave them.
type ExhaustedError struct {
	Asked, Align uint64
	Free         uint64 // sum of all free blocks
	Largest      uint64 // the largest free block
	Size         uint64 // size of the heap
}

// Error names the size asked for and what is left.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("heap exhausted: asked for %d bytes aligned to %d, want at most %d (%d of %d bytes are free)",
		e.Asked, e.Align, e.Largest, e.Free, e.Size)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
