package shmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// stuckFetches is how many fetches a PE has under way to a node that has stopped.
const stuckFetches = 1000

// fetchStuck starts stuckFetches fetches of a word of a PE by PE 0, and gets that take several pieces, by goroutines that
// wait for slots. It returns when PE 0 sleeps. The function that it returns has the sorted values of the fetches, and the errors.
func (f *farJob) fetchStuck(t *testing.T, c *Ctx, word, block Sym[int64], pe int) (end func() ([]int64, error)) {
	t.Helper()
	const goroutines = 4
	var wg sync.WaitGroup
	values, errs := make([][]int64, goroutines), make([]error, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			values[g], errs[g] = func() (olds []int64, err error) {
				dst := make([]int64, block.Len())
				got, err := GetNBI(c, dst, block, pe)
				if err != nil {
					return nil, err
				}
				var fetches []Pending[int64]
				for range stuckFetches / goroutines {
					p, err := AtomicFetchAddNBI(c, word, 1, pe)
					if err != nil {
						return nil, err
					}
					fetches = append(fetches, p)
				}
				for _, p := range fetches {
					old, err := p.Wait()
					if err != nil {
						return nil, err
					}
					olds = append(olds, old)
				}
				if all, err := got.Wait(); err != nil || !slices.Equal(all, farBlock(pe, 1, len(all))) {
					return nil, fmt.Errorf("other data of the get, error %w", err)
				}
				return olds, nil
			}()
		})
	}
	for !f.asleep(0) {
		if t.Context().Err() != nil {
			t.Fatal("no wait for the stopped node sleeps")
		}
	}
	return func() ([]int64, error) {
		wg.Wait()
		all := slices.Concat(values...)
		slices.Sort(all)
		return all, errors.Join(errs...)
	}
}

// While a thousand fetches wait for a node that has stopped, fetches, gets and locks of another node end. When the node goes
// on, each fetch has counted once. When it is lost, all end with an error that names its PE.
func TestFarStoppedNode(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %v", lost), func(t *testing.T) {
			f := newFarJob(t, 1, 1, 1)
			const stopped, healthy, n = 1, 2, 30_000
			blocks, words := make([]Sym[int64], 3), make([]Sym[int64], 3)
			f.each(t, func(w *World) (err error) {
				if blocks[w.MyPE()], err = Alloc[int64](w, n); err == nil {
					copy(memory(f, blocks[w.MyPE()], w.MyPE()), farBlock(w.MyPE(), 1, n))
					words[w.MyPE()], err = Calloc[int64](w, 2)
				}
				return err
			})
			there, _ := f.lockAt(t, stopped)
			here, _ := f.lockAt(t, healthy)
			ctx, cancel := context.WithTimeout(t.Context(), farPatience)
			defer cancel()
			resume := sync.OnceFunc(f.nodes[stopped].pause())
			t.Cleanup(resume)
			other, err := f.worlds[0].NewCtx() // Release completes what is under way on its context
			ok(t, err)
			stuck, c := other.With(ctx), f.worlds[0].Ctx().With(ctx)
			end := f.fetchStuck(t, stuck, words[0].At(0), blocks[0], stopped)
			acquired := make(chan error, 1)
			go func() {
				_, err := there[0].Acquire(stuck)
				acquired <- err
			}()
			dst := make([]int64, n)
			for i := range int64(20) {
				if old, err := AtomicFetchAdd(c, words[0].At(1), 1, healthy); old != i || err != nil {
					t.Fatalf("fetch %d of the other node: %d, %v", i, old, err)
				}
				if err := Get(c, dst, blocks[0], healthy); err != nil || !slices.Equal(dst, farBlock(healthy, 1, n)) {
					t.Fatalf("get of the other node: other data, error %v", err)
				}
				_, err := here[0].Acquire(c)
				ok(t, err)
				ok(t, here[0].Release(c))
			}
			if lost {
				f.nodes[stopped].stop.Store(true)
				resume()
				f.lose(t, stopped)
				_, err := end()
				ok(t, wantDead(err, stopped))
				ok(t, wantDead(<-acquired, stopped))
				return
			}
			resume()
			values, err := end()
			ok(t, err)
			for i, v := range values {
				if v != int64(i) || len(values) != stuckFetches {
					t.Fatalf("value %d of %d is %d", i, len(values), v)
				}
			}
			ok(t, <-acquired)
			ok(t, there[0].Release(c))
		})
	}
}
