package hook

import "testing"

// TestTeller: calls are made in order, one at a time, and Close waits for them.
func TestTeller(t *testing.T) {
	t.Parallel()
	var told Teller
	told.Start()
	var got []int // of the goroutine of the Teller until Close has returned
	first := make(chan struct{})
	told.Tell(func() { <-first })
	for i := range 100 {
		told.Tell(func() { got = append(got, i) })
	}
	close(first)
	told.Close()
	if len(got) != 100 {
		t.Fatalf("%d calls were made before the end, want 100", len(got))
	}
	for i, n := range got {
		if i != n {
			t.Fatalf("call %d came as number %d", n, i)
		}
	}
}
