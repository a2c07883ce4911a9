package symheap

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// passageBytes is the size of a passage.
const passageBytes = int64(unsafe.Sizeof(layout.Passage{}))

// CreatePassages makes the passages of n PEs: those of two jobs that are going to exchange messages. The caller owns the file.
//
//   - Cost: a few system calls. Memory is allocated at the first access.
func CreatePassages(n int) (*os.File, error) {
	f, err := xunix.Memfd("goshmem-passages", int64(n)*passageBytes)
	if err == nil {
		if err = xunix.SealSize(f); err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("passages of %d PEs: %w", n, err)
	}
	return f, nil
}

// MapPassages maps the passages of n PEs from their memfd, which may be closed afterwards. The mapping lasts as long as the process.
func MapPassages(fd, n int) ([]layout.Passage, error) {
	size, err := xunix.FileSize(fd)
	if err == nil && (n < 2 || size != uint64(n)*uint64(passageBytes)) {
		err = fmt.Errorf("%d bytes, want %d", size, int64(n)*passageBytes)
	}
	var at unsafe.Pointer
	if err == nil {
		at, err = xunix.Map(fd, uintptr(size), true)
	}
	if err != nil {
		return nil, fmt.Errorf("passages of %d PEs: %w", n, err)
	}
	return unsafe.Slice((*layout.Passage)(at), n), nil
}
