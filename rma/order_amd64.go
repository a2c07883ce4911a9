package rma

import "sync/atomic"

// Fence orders this thread's earlier stores before its later ones. On amd64
// stores become visible in program order (memmove ends its non-temporal
// stores with SFENCE itself), and the compiler keeps the order of
// stores in the program, so nothing is to be done.
func Fence() {}

// Drain waits until this thread's earlier stores are visible to every
// processor: one locked instruction, which empties the store buffer, on a word
// of the stack.
func Drain() {
	var word atomic.Uint32
	word.Add(0)
}
