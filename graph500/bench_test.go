package graph500_test

import (
	"testing"

	"github.com/goshmem/goshmem/graph500"
	"github.com/goshmem/goshmem/shmem"
)

// benchScale keeps one iteration of each kernel below a second on one PE.
const benchScale = 18

// newWorld makes this process a job of one PE for a benchmark.
func newWorld(b *testing.B) *shmem.World {
	b.Helper()
	w, err := shmem.Init()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.Finalize(); err != nil {
			b.Error(err)
		}
	})
	return w
}

func newBenchWithRoot(b *testing.B, w *shmem.World) (t *graph500.Bench, root uint64) {
	b.Helper()
	t, err := graph500.NewBench(w, benchScale, 16)
	if err != nil {
		b.Fatal(err)
	}
	roots, err := t.Roots(1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := t.Close(); err != nil {
			b.Error(err)
		}
	})
	return t, roots[0]
}

func BenchmarkKernels(b *testing.B) {
	w := newWorld(b)
	t, root := newBenchWithRoot(b, w)
	s, err := t.Search(root)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("construct", func(b *testing.B) {
		for b.Loop() {
			if err := t.Construct(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(t.Tuples))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
	})
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			if _, err := t.Search(root); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(s.Edges)*float64(b.N)/b.Elapsed().Seconds()/1e6, "MTEPS")
	})
	b.Run("validate", func(b *testing.B) {
		for b.Loop() {
			if bad, err := t.Check(s); bad != nil || err != nil {
				b.Fatal(bad, err)
			}
		}
		b.ReportMetric(float64(len(t.Tuples))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
	})
}
