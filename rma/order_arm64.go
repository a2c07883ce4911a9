package rma

// Fence orders this thread's earlier stores before its later ones: DMB ISHST.
func Fence()

// Drain stores 1 to the word and waits until that and this thread's earlier loads and stores are visible to every
// processor: DMB ISH.
func Drain(word *uint64)
