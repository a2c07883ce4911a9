//go:build !race

package rma

// peek reads the word. The compiler keeps it after the earlier stores of the program. On amd64 a plain load
// is as good as an atomic one, and the compiler merges it with a comparison into one instruction.
func peek(word *uint32) uint32 { return *word }
