package far

import (
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Small operations allocate nothing, whether they need a new block or not, and whether the agent sleeps or not.
func TestAllocations(t *testing.T) {
	r := newRig(t, 2, 1)
	r.stop(1, true) // the test's agent allocates when it executes
	ctx := t.Context()
	var touched Touched
	v := uint64(5)
	place := uint64(layout.HeapOffset)
	put := func() {
		if err := r.Put(ctx, &touched, 1, place, unsafe.Pointer(&v), 8); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]func(){
		"put": put,
		"signal": func() {
			if err := r.Signal(ctx, &touched, 1, place, 1, true); err != nil {
				t.Fatal(err)
			}
		},
		"update": func() {
			if err := r.Update(ctx, &touched, 1, place, record.AtomicAdd, 8, 1, 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		put()
		if n := testing.AllocsPerRun(2000, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	r.stop(1, false)
	r.quietOf(&touched)
}

// Blocking requests allocate nothing, either.
func TestRequestAllocations(t *testing.T) {
	r := newRig(t, 2, 1)
	ctx := t.Context()
	var touched Touched
	var b [16]byte
	request := func() {
		if err := r.Get(ctx, &touched, 1, layout.HeapOffset, unsafe.Pointer(&b), 16); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Fetch(ctx, &touched, 1, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := r.Quiet(ctx, &touched); err != nil {
			t.Fatal(err)
		}
	}
	request()
	// The test's agent allocates a chunk for each request, with a slice that it grows: at most 4 in all.
	if n := testing.AllocsPerRun(200, request); n > 4 {
		t.Errorf("a get, a fetch and a Quiet allocate %v times", n)
	}
}

func BenchmarkPut8(b *testing.B) {
	r := newRig(b, 2, 1)
	ctx := b.Context()
	var touched Touched
	v := uint64(5)
	if err := r.Put(ctx, &touched, 1, layout.HeapOffset, unsafe.Pointer(&v), 8); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		if err := r.Put(ctx, &touched, 1, layout.HeapOffset+i%(1<<17)*8, unsafe.Pointer(&v), 8); err != nil {
			b.Fatal(err)
		}
		i++
	}
	r.quietOf(&touched)
}

// BenchmarkRecord8 is the cost of a put on the PE's side alone: no agent runs, and the block is emptied by hand.
func BenchmarkRecord8(b *testing.B) {
	r := newRig(b, 2, 1)
	r.agent.change(func() { r.agent.over = true })
	<-r.agent.ended
	ctx := b.Context()
	v := uint64(5)
	b.ReportAllocs()
	for b.Loop() {
		if s := &r.streams[1]; layout.WireBody-s.fill < 24 {
			s.fill = 0
		}
		if err := r.Put(ctx, nil, 1, layout.HeapOffset, unsafe.Pointer(&v), 8); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFetch(b *testing.B) {
	r := newRig(b, 2, 1)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Fetch(ctx, nil, 1, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); err != nil {
			b.Fatal(err)
		}
	}
}
