package far

import (
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// A Quiet of a context without operations on other nodes takes no lock: near operations of a job of several nodes have it,
// too. It takes the lock again once there is an operation.
func TestQuietOfNothing(t *testing.T) {
	r := newRig(t, 2, 1)
	ctx := t.Context()
	empty := []bool{}
	touched := Touched{Changed: func(now bool) { empty = append(empty, now) }}
	v := uint64(5)
	for round := range 2 {
		r.mu.Lock()
		ended := make(chan error, 1)
		go func() { ended <- r.Quiet(ctx, &touched) }()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a Quiet of nothing waits for the lock")
		}
		r.mu.Unlock()
		if err := r.Put(ctx, &touched, 1, layout.HeapOffset, unsafe.Pointer(&v), 8); err != nil {
			t.Fatal(err)
		}
		if !TryPut(r.Port, &touched, 1, layout.HeapOffset, unsafe.Pointer(&v), 8) {
			t.Error("TryPut refuses a put to the PE of the put before")
		}
		if touched.many != 1 {
			t.Errorf("after a put %d nodes are known, want 1", touched.many)
		}
		if len(empty) != 2*round+1 || empty[2*round] {
			t.Errorf("in round %d, Changed has said %v", round, empty)
		}
		if err := r.Quiet(ctx, &touched); err != nil || !touched.IsEmpty() {
			t.Errorf("after a Quiet %d nodes are known, want none; error %v", touched.many, err)
		}
		if len(empty) != 2*round+2 || !empty[2*round+1] {
			t.Errorf("after round %d, Changed has said %v", round, empty)
		}
	}
}
