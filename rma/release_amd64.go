//go:build !race

package rma

// StoreRelease stores v with release order: a thread that reads v with an atomic load also sees what this
// thread stored before. On amd64 every plain store has release order. An atomic store of Go would be a locked
// instruction, which waits until the earlier stores have reached the cache.
func StoreRelease(word *uint64, v uint64) { *word = v }

// StoreRelease32 is StoreRelease for a word of 4 bytes.
func StoreRelease32(word *uint32, v uint32) { *word = v }
