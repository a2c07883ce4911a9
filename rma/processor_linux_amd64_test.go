package rma

import (
	"runtime"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// A thread that is bound to a processor finds the processor's number.
func TestProcessor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, err := xunix.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range all {
		if err := xunix.SetAffinity([]int{id}); err != nil {
			t.Fatal(err)
		}
		if got := Processor(); got != uint32(id)+1 {
			t.Errorf("on processor %d: number %d, want %d", id, got, id+1)
		}
	}
	if err := xunix.SetAffinity(all); err != nil {
		t.Error(err)
	}
}
