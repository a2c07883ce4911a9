package rma

import "sync/atomic"

// Fence orders this thread's earlier stores before its later ones. On amd64 it needs no instruction:
//
//   - Plain stores become visible in program order.
//   - memmove ends its non-temporal stores with SFENCE itself.
//   - The compiler keeps the order of the program's stores.
func Fence() {}

// Drain stores 1 to the word and waits until that and this thread's earlier stores are visible to every
// processor. It is one locked instruction on the word, XCHG, which empties the store buffer. The word should
// be on a cache line that no other thread writes often. A variable on the stack would be slower: Go would set
// it to zero first, and a locked instruction on a word that was just stored takes half as long again.
func Drain(word *uint64) { atomic.StoreUint64(word, 1) }
