package shmem_test

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// benchStrided measures a strided put or get of 512 elements of 8 bytes, in blocks. The reported
// bytes are those that move.
func benchStrided(b *testing.B, op func(c *shmem.Ctx, x shmem.Sym[int64], buf []int64, s shmem.Stride) error) {
	b.Helper()
	const elements = 512
	for _, s := range []shmem.Stride{
		{Dst: 1, Src: 1, Block: 1},
		{Dst: 2, Src: 1, Block: 1},
		{Dst: 8, Src: 1, Block: 1},
		{Dst: 8, Src: 8, Block: 1},
		{Dst: 4, Src: 2, Block: 2},
		{Dst: 8, Src: 4, Block: 4},
		{Dst: 64, Src: 32, Block: 32},
	} {
		s.N = elements / s.Block
		b.Run(fmt.Sprintf("%d,%d,%d", s.Dst, s.Src, s.Block), func(b *testing.B) {
			c, x := newBenchObject[int64](b, 8*elements)
			buf := make([]int64, 8*elements)
			b.ReportAllocs()
			b.SetBytes(8 * elements)
			for b.Loop() {
				if err := op(c, x, buf, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkIPut(b *testing.B) {
	benchStrided(b, func(c *shmem.Ctx, x shmem.Sym[int64], buf []int64, s shmem.Stride) error {
		if s.Block == 1 {
			return shmem.IPut(c, x, buf, s, 0)
		}
		return shmem.IBPut(c, x, buf, s, 0)
	})
}

func BenchmarkIGet(b *testing.B) {
	benchStrided(b, func(c *shmem.Ctx, x shmem.Sym[int64], buf []int64, s shmem.Stride) error {
		if s.Block == 1 {
			return shmem.IGet(c, buf, x, s, 0)
		}
		return shmem.IBGet(c, buf, x, s, 0)
	})
}

func BenchmarkIPutOne(b *testing.B) {
	c, x := newBenchObject[int64](b, 1)
	src := []int64{7}
	b.ReportAllocs()
	for b.Loop() {
		if err := shmem.IPut(c, x, src, shmem.Stride{Dst: 1, Src: 1, N: 1}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutSignal(b *testing.B) {
	for _, n := range []int{1, 8, 128} {
		b.Run(fmt.Sprint(8*n), func(b *testing.B) {
			c, x := newBenchObject[int64](b, n)
			_, sig := newBenchObject[uint64](b, 1)
			src := make([]int64, n)
			b.ReportAllocs()
			for b.Loop() {
				if err := shmem.PutSignal(c, x, src, sig, 1, shmem.SignalAdd, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPutSignalNBI(b *testing.B) {
	c, x := newBenchObject[int64](b, 8)
	_, sig := newBenchObject[uint64](b, 1)
	src := make([]int64, 8)
	b.ReportAllocs()
	for b.Loop() {
		if err := shmem.PutSignalNBI(c, x, src, sig, 1, shmem.SignalAdd, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuietPE(b *testing.B) {
	c, _ := newBenchObject[int64](b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.QuietPE(0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAtomicNBI(b *testing.B) {
	benchAMO(b, "FetchAdd", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		_, err := shmem.AtomicFetchAddNBI(c, x, 3, 0)
		return err
	})
	benchAMO(b, "FetchAddWait", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		p, err := shmem.AtomicFetchAddNBI(c, x, 3, 0)
		if err == nil {
			_, err = p.Wait()
		}
		return err
	})
	benchAMO(b, "Fetch", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		_, err := shmem.AtomicFetchNBI(c, x, 0)
		return err
	})
	benchAMO(b, "CompareSwap", func(c *shmem.Ctx, x shmem.Sym[int64]) error {
		_, err := shmem.AtomicCompareSwapNBI(c, x, 0, 0, 0)
		return err
	})
}
