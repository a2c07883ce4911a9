package symheap

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Vitals are the words of a segment by which its PE is woken and seen to go on,
// for a process that has no other use for it: the step.
type Vitals struct {
	Bell     *layout.Bell
	Progress *layout.Progress
	at       unsafe.Pointer
}

// vitalBytes is how much of a segment holds them.
const vitalBytes = layout.BellOffset + unsafe.Sizeof(layout.Bell{})

// MapVitals maps them from the memfd of a segment, which may be closed afterwards.
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

// Unmap gives the words back. Nobody may use them any more.
func (v Vitals) Unmap() error { return xunix.Unmap(v.at, vitalBytes) }
