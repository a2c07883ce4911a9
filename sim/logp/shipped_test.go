package logp

import (
	"runtime"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
)

// TestShippedIsLean: a million nodes have to fit into memory. A node takes at most half a
// kilobyte, and nothing more in the runs after the first.
func TestShippedIsLean(t *testing.T) {
	const n = 1 << 14
	var before, made, ran, again runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := NewShipped(ShippedConfig{N: n, Radix: 9, Call: ftco.Call{Kind: ftco.Allreduce}, Detection: 100})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&made)
	e := NewEngine(Driver[ShippedMsg](s))
	first, err := e.Run(Config{Nodes: n, Latency: 10})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&ran)
	s.Reset()
	second, err := e.Run(Config{Nodes: n, Latency: 10})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&again)
	if per := (made.TotalAlloc - before.TotalAlloc) / n; per > 400 {
		t.Errorf("the machines take %d bytes per node, want at most 400", per)
	}
	if per := (ran.TotalAlloc - before.TotalAlloc) / n; per > 512 {
		t.Errorf("a run and its machines take %d bytes per node, want at most 512", per)
	}
	if count := again.Mallocs - ran.Mallocs; count > 100 {
		t.Errorf("the second run allocates %d times, want at most 100", count)
	}
	if first != second {
		t.Errorf("the second run gives %+v, the first %+v", second, first)
	}
}
