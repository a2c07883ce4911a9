//go:build !race

package rma

// StoreRelease writes the word; what this thread stored before is visible to
// whoever sees it with an atomic load. On amd64 every store is so, and an atomic
// one would wait until the stores before it have reached the cache.
func StoreRelease(word *uint64, v uint64) { *word = v }
