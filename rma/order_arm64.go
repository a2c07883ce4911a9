package rma

// Fence orders this thread's earlier stores before its later ones: DMB ISHST.
func Fence()

// Drain waits until this thread's earlier loads and stores are visible to every processor: DMB ISH. The word
// is not used.
func Drain(_ *uint32)
