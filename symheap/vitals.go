package symheap

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Vitals are the words of a segment by which the step wakes its PE and sees its
// progress. The step maps nothing else of a segment.
type Vitals struct {
	Bell     *layout.Bell
	Progress *layout.Progress
	at       unsafe.Pointer
}

// vitalBytes is the size of the part of a segment that holds them.
const vitalBytes = layout.BellOffset + unsafe.Sizeof(layout.Bell{})

// MapVitals maps the vitals of a segment from its memfd, which may be closed afterwards.
//
//   - Cost: 2 us and two pages of address space.
func MapVitals(f *os.File) (Vitals, error) {
	at, err := xunix.Map(int(f.Fd()), vitalBytes, true)
	if err != nil {
		return Vitals{}, fmt.Errorf("bell of %s: %w", f.Name(), err)
	}
	c := (*layout.Control)(at)
	return Vitals{Bell: &c.Bell, Progress: &c.Progress, at: at}, nil
}

// Unmap unmaps the words. They must not be used afterwards.
func (v Vitals) Unmap() error { return xunix.Unmap(v.at, vitalBytes) }
