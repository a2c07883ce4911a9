package rma

import "sync/atomic"

// Fence orders this thread's earlier stores before its later ones. On amd64
// stores become visible in program order (memmove ends its non-temporal
// stores with SFENCE itself), and the compiler keeps the order of
// stores in the program, so nothing is to be done.
func Fence() {}

// Drain waits until this thread's earlier stores are visible to every
// processor: one locked instruction, which empties the store buffer. The word
// is the caller's, best on a line that no other thread writes. (A variable of
// the stack would do, but it would be set to zero first, and a locked
// instruction on what was just stored takes half as long again.)
func Drain(word *uint32) { atomic.AddUint32(word, 0) }
