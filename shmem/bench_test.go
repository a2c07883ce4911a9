package shmem_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// The benchmarks run as a job of one PE that targets itself. They measure what the library adds to
// a load, a store or an atomic instruction, without a second processor. make bench-check measures
// between PEs.

// benchWorld is initialized once for all benchmarks and all rounds of -count. It is never
// finalized.
var benchWorld = sync.OnceValues(func() (*shmem.World, error) { return shmem.Init() })

// newBenchObject returns a context and an object of n elements, which is freed after the
// benchmark.
func newBenchObject[T any](b *testing.B, n int) (*shmem.Ctx, shmem.Sym[T]) {
	b.Helper()
	w, err := benchWorld()
	if err != nil {
		b.Fatal(err)
	}
	x, err := shmem.Calloc[T](w, n)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := shmem.Free(w, x); err != nil {
			b.Error(err)
		}
	})
	return w.Ctx(), x
}

// benchAMO measures one operation on one element.
func benchAMO[T any](b *testing.B, name string, op func(c *shmem.Ctx, x shmem.Sym[T]) error) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		c, x := newBenchObject[T](b, 1)
		b.ReportAllocs()
		for b.Loop() {
			if err := op(c, x); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkP(b *testing.B) {
	c, x := newBenchObject[int64](b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := shmem.P(c, x, 7, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPAt(b *testing.B) {
	c, x := newBenchObject[int64](b, 1024)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := shmem.P(c, x.At(i), 7, 0); err != nil {
			b.Fatal(err)
		}
		i = (i + 1) & 1023
	}
}

func BenchmarkG(b *testing.B) {
	c, x := newBenchObject[int64](b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := shmem.G(c, x, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// putSizes are elements of 8 bytes: 8 bytes to 1 MiB.
var putSizes = []int{1, 8, 128, 512, 8192, 131072}

func BenchmarkPut(b *testing.B) {
	for _, n := range putSizes {
		b.Run(fmt.Sprint(8*n), func(b *testing.B) {
			c, x := newBenchObject[int64](b, n)
			src := make([]int64, n)
			b.ReportAllocs()
			b.SetBytes(int64(8 * n))
			for b.Loop() {
				if err := shmem.Put(c, x, src, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range putSizes {
		b.Run(fmt.Sprint(8*n), func(b *testing.B) {
			c, x := newBenchObject[int64](b, n)
			dst := make([]int64, n)
			b.ReportAllocs()
			b.SetBytes(int64(8 * n))
			for b.Loop() {
				if err := shmem.Get(c, dst, x, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPQuiet(b *testing.B) {
	c, x := newBenchObject[int64](b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := shmem.P(c, x, 7, 0); err != nil {
			b.Fatal(err)
		}
		if err := c.Quiet(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutQuiet(b *testing.B) {
	c, x := newBenchObject[int64](b, 1)
	src := []int64{7}
	b.ReportAllocs()
	for b.Loop() {
		if err := shmem.Put(c, x, src, 0); err != nil {
			b.Fatal(err)
		}
		if err := c.Quiet(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuiet(b *testing.B) {
	c, _ := newBenchObject[int64](b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Quiet(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFence(b *testing.B) {
	c, _ := newBenchObject[int64](b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Fence(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAtomic(b *testing.B) {
	benchAMO(b, "FetchAdd", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		_, err := shmem.AtomicFetchAdd(c, x, 3, 0)
		return err
	})
	benchAMO(b, "FetchAdd32", func(c *shmem.Ctx, x shmem.Sym[int32]) error {
		_, err := shmem.AtomicFetchAdd(c, x, 3, 0)
		return err
	})
	benchAMO(b, "Add", func(c *shmem.Ctx, x shmem.Sym[int64]) error { return shmem.AtomicAdd(c, x, 3, 0) })
	benchAMO(b, "Fetch", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		_, err := shmem.AtomicFetch(c, x, 0)
		return err
	})
	benchAMO(b, "Set", func(c *shmem.Ctx, x shmem.Sym[int64]) error { return shmem.AtomicSet(c, x, 3, 0) })
	benchAMO(b, "Swap", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		_, err := shmem.AtomicSwap(c, x, 3, 0)
		return err
	})
	benchAMO(b, "CompareSwap", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		_, err := shmem.AtomicCompareSwap(c, x, 0, 0, 0)
		return err
	})
	benchAMO(b, "FetchOr", func(c *shmem.Ctx, x shmem.Sym[uint64]) error {
		_, err := shmem.AtomicFetchOr(c, x, 3, 0)
		return err
	})
	benchAMO(b, "FetchXor", func(c *shmem.Ctx, x shmem.Sym[uint64]) error {
		_, err := shmem.AtomicFetchXor(c, x, 3, 0)
		return err
	})
}

func BenchmarkTest(b *testing.B) {
	for name, v := range map[string]int64{"yes": 0, "no": 1} {
		b.Run(name, func(b *testing.B) {
			c, x := newBenchObject[int64](b, 1)
			b.ReportAllocs()
			for b.Loop() {
				if yes, err := shmem.Test(c, x, shmem.EQ, v); err != nil || yes != (v == 0) {
					b.Fatal(yes, err)
				}
			}
		})
	}
}
