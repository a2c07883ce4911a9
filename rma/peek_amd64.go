//go:build !race

package rma

// peek reads the word after all that this thread has stored before, as far as the
// compiler is concerned. On amd64 a plain load does for an atomic one, and the
// processor compares with memory in one instruction.
func peek(word *uint32) uint32 { return *word }
