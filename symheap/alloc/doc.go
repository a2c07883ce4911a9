// Package alloc is the allocator of a symmetric heap.
//
// It is a pure core: it hands out offsets, never memory. The same calls in the same
// order give the same offsets, slots and generations in every process. This makes a
// heap symmetric without any message between PEs.
//
// The whole state is in a Header and a table of Entry that the caller provides,
// normally in the control region of the segment. So a process that takes over the
// segment of a dead PE can Attach to it and continue where the PE stopped. Go memory
// holds only the two references, and neither structure holds a pointer.
//
// # Structure
//
// The blocks of a heap, live and free, tile it from offset 0 to its size. Each
// has one Entry, named by its slot, its index in the table. The entries are
// linked in address order (Prev, Next); the free ones among them are linked in
// address order too (NextFree), and entries that stand for no block are chained
// through the same word. Alloc takes the smallest free block that fits, the
// lowest one among equals; Free merges a block with its free neighbors at once,
// so that no two free blocks ever touch.
//
// # Generations
//
// A slot is reused, so a handle carries {slot, generation}. The generation is
// odd while the slot stands for a live block and even otherwise; it grows with
// every Alloc, Free and in-place Resize of the slot and does not repeat before
// 2^31 of them. Generation 0 is never live, hence the zero Block is never valid.
//
// An Arena is not safe for concurrent use. Allocation is a collective operation whose
// caller holds a lock.
package alloc
