package shmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent"
)

// holdAgent stops a node's agent until release is called.
func (f *farJob) holdAgent(node int) (release func()) {
	n, held, end := f.nodes[node], make(chan struct{}), make(chan struct{})
	n.orders <- func(*agent.Agent) { close(held); <-end }
	n.transport.Wake()
	<-held
	return func() { close(end) }
}

// farDeadline is how long operations on a node may last whose agent does nothing: they cannot end before.
const farDeadline = 30 * time.Millisecond

// The end of a context ends each operation that waits for another node, wherever it waits. What it has begun goes on, and
// afterwards everything works as before: nothing that it used is lost.
func TestFarDeadlines(t *testing.T) {
	f := newFarJob(t, 1, 1)
	const n = 100_000 // words; more than the blocks and pieces hold
	xs, ys := make([]Sym[int64], 2), make([]Sym[int64], 2)
	f.each(t, func(w *World) (err error) {
		if xs[w.MyPE()], err = Alloc[int64](w, n); err == nil {
			ys[w.MyPE()], err = Alloc[int64](w, n)
		}
		return err
	})
	x, y, there := xs[0], ys[0], memory(f, xs[1], 1)
	word := x.At(n - 1)
	private := make([]int64, n)
	for name, call := range map[string]func(c *Ctx) error{
		"Put from Go memory":   func(c *Ctx) error { return Put(c, x, private, 1) },
		"Put from the heap":    func(c *Ctx) error { return firstError(Put(c, x, memory(f, y, 0), 1), c.Quiet()) },
		"PutNBI from the heap": func(c *Ctx) error { return firstError(PutNBI(c, x, memory(f, y, 0), 1), c.Quiet()) },
		"PutSignal": func(c *Ctx) error {
			return PutSignal(c, x.Slice(0, n-1), private[1:], signalsOf(word), 1, SignalAdd, 1)
		},
		"IPut":                  func(c *Ctx) error { return IPut(c, x, private, Stride{Dst: 2, Src: 2, N: n / 2}, 1) },
		"Get into Go memory":    func(c *Ctx) error { return Get(c, private, x, 1) },
		"Get into the heap":     func(c *Ctx) error { return Get(c, memory(f, y, 0), x, 1) },
		"Get of a word":         func(c *Ctx) error { _, err := G(c, x, 1); return err },
		"IGet":                  func(c *Ctx) error { return IGet(c, private, x, Stride{Dst: 2, Src: 2, N: n / 2}, 1) },
		"GetNBI, for pieces":    func(c *Ctx) error { _, err := GetNBI(c, private, x, 1); return err },
		"GetNBI into the heap":  func(c *Ctx) error { return waitFor(GetNBI(c, memory(f, y, 0), x, 1)) },
		"AtomicFetchAdd":        func(c *Ctx) error { _, err := AtomicFetchAdd(c, word, 1, 1); return err },
		"AtomicFetchAddNBI":     func(c *Ctx) error { return waitFor(AtomicFetchAddNBI(c, word, 1, 1)) },
		"fetches, for slots":    func(c *Ctx) error { return fetchUntilError(c, word) },
		"Quiet":                 func(c *Ctx) error { return firstError(P(c, x, 1, 1), c.Quiet()) },
		"QuietPE":               func(c *Ctx) error { return firstError(P(c, x, 1, 1), c.QuietPE(1)) },
		"words, for the blocks": func(c *Ctx) error { return putUntilError(c, x) },
	} {
		t.Run(name, func(t *testing.T) {
			all := f.worlds[0].Ctx()
			release := f.holdAgent(1)
			ctx, cancel := context.WithTimeout(t.Context(), farDeadline)
			err := call(all.With(ctx))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("returned %v, want the end of the context", err)
			}
			release()
			patient, cancel := context.WithTimeout(t.Context(), farPatience)
			defer cancel()
			c := all.With(patient)
			ok(t, c.Quiet())
			clear(private)
			ok(t, Put(c, x, farBlock(0, 7, n), 1))
			ok(t, c.Quiet())
			if !slices.Equal(there, farBlock(0, 7, n)) {
				t.Fatal("a put after the deadline left other words")
			}
			if i := slices.IndexFunc(private, func(v int64) bool { return v != 0 }); i >= 0 {
				t.Fatalf("word %d of the destination changed after the call and Quiet had returned", i)
			}
			ok(t, Get(c, private, x, 1))
			if !slices.Equal(private, there) {
				t.Fatal("a get after the deadline brought other words")
			}
			ok(t, fetchMany(c, word))
		})
	}
}

// firstError returns the first error.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// waitFor waits for the result of a call.
func waitFor[T any](p Pending[T], err error) error {
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// fetchUntilError starts fetches without end.
func fetchUntilError(c *Ctx, word Sym[int64]) error {
	for {
		if _, err := AtomicFetchAddNBI(c, word, 1, 1); err != nil {
			return err
		}
	}
}

// putUntilError puts words without end.
func putUntilError(c *Ctx, x Sym[int64]) error {
	for {
		if err := P(c, x, 1, 1); err != nil {
			return err
		}
	}
}

// fetchMany makes more fetches than there are slots, and checks that each counts once.
func fetchMany(c *Ctx, word Sym[int64]) error {
	first, err := AtomicFetch(c, word, 1)
	if err != nil {
		return err
	}
	var fetches []Pending[int64]
	for range 1000 {
		p, err := AtomicFetchAddNBI(c, word, 1, 1)
		if err != nil {
			return err
		}
		fetches = append(fetches, p)
	}
	if err := c.Quiet(); err != nil {
		return err
	}
	for i, p := range fetches {
		if v, err := p.Wait(); err != nil || v != first+int64(i) {
			return fmt.Errorf("fetch %d returned %d, want %d, error %w", i, v, first+int64(i), err)
		}
	}
	return nil
}

// GetNBI into an array on the stack brings the data there, also when the stack moves before Quiet.
func TestFarGetOnStack(t *testing.T) {
	f := newFarJob(t, 1, 1)
	const n = 256
	f.each(t, func(w *World) error {
		x, err := Alloc[int64](w, n)
		if err != nil {
			return err
		}
		copy(memory(f, x, w.MyPE()), farBlock(w.MyPE(), 1, n))
		if err := w.Barrier(); err != nil {
			return err
		}
		other := 1 - w.MyPE()
		done := make(chan error)
		go func() { done <- getOnStack(w.Ctx(), x, other, farBlock(other, 1, n)) }() // its stack is small
		return firstError(<-done, w.Barrier())
	})
}

func getOnStack(c *Ctx, x Sym[int64], pe int, want []int64) error {
	var local [256]int64
	before := uintptr(unsafe.Pointer(&local))
	p, err := GetNBI(c, local[:], x, pe)
	if err != nil {
		return err
	}
	if growStack(10_000) != 10_000 || before == uintptr(unsafe.Pointer(&local)) {
		return errors.New("the stack has not moved")
	}
	if err := c.Quiet(); err != nil || !slices.Equal(local[:], want) {
		return fmt.Errorf("other data in the array after Quiet, error %w", err)
	}
	if got, err := p.Wait(); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("other data after Wait, error %w", err)
	}
	return nil
}

//go:noinline
func growStack(n int) int {
	if n == 0 {
		return 0
	}
	return growStack(n-1) + 1
}
