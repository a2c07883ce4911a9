//go:build !mpidebug

package mpi

// isDebug says whether buffers are checked: see debug.go.
const isDebug = false

func poisonBuffer(span)                 {}
func sumOf(span) uint64                 { return 0 }
func noteBuffer(*request, span, uint64) {}
func checkBuffer(*request) error        { return nil }
