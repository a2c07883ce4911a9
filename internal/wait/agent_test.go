package wait

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A wait for the agent that may need PEs of the node yields before it sleeps, as any other one. A wait for other agents alone does
// not. Both are woken by a writer that stores the word and then looks at the bell, by atomic operations.
func TestWaitForAgent(t *testing.T) {
	for _, alone := range []bool{false, true} {
		var word uint64
		bell := new(layout.Bell)
		w := NewWaiter(bell, Policy{Polls: 10, Yields: 7, First: time.Hour, Most: time.Hour})
		yields := 0
		w.yield = func() { yields++ }
		done := make(chan error, 1)
		go func() {
			_, err := w.Wait(&Cond{Addr: unsafe.Pointer(&word), Val: 1, Width: 8, Agent: true, Alone: alone}, t.Context())
			done <- err
		}()
		for atomic.LoadUint32(&bell.Sleeping)&layout.BellAsleep == 0 {
			runtime.Gosched()
		}
		atomic.StoreUint64(&word, 1)
		rma.RingBell(bell)
		if err := <-done; err != nil {
			t.Errorf("alone %t: %v", alone, err)
		}
		if want := map[bool]int{false: 7, true: 0}[alone]; yields != want {
			t.Errorf("alone %t: %d yields before the sleep, want %d", alone, yields, want)
		}
	}
}
