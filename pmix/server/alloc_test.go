package server

import (
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// allocations counts the core's allocations in a round in which all processes send the same request.
func allocations(t *testing.T, w *world, r codec.Request) float64 {
	t.Helper()
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	var out []action
	return testing.AllocsPerRun(50, func() {
		for _, conn := range w.conns {
			out = w.core.Step(event{kind: evFrame, conn: conn, tag: 101, payload: body}, out[:0])
		}
	})
}

func TestStepAllocations(t *testing.T) {
	const n = 32
	w := exchanged(t, n, true)
	if got := allocations(t, w, getOf(1, "a")); got > n {
		t.Errorf("a get by each of %d: %v allocations, want one for each request", n, got)
	}
	// A fence makes one allocation and the table of its participants; a request makes two, for itself and its list of
	// processes.
	if got := allocations(t, w, fenceOf(codec.RankWildcard)); got > 2*n+8 {
		t.Errorf("a fence of %d: %v allocations, want two for each request and a few for the fence", n, got)
	}
}
