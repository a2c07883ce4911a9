package shmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// farSource is element i of the source of member pe.
func farSource(pe, i int) int64 { return int64(pe+1)*1_000_003 + int64(i)*7 }

// Data collectives of teams that span nodes give what those of one node give, in place too, for sizes from nothing to
// several pieces.
func TestFarCollectives(t *testing.T) {
	f := newFarJob(t, 2, 1, 2)
	const most = 150_000
	objects := make([][2]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		for k := range objects[w.MyPE()] {
			if objects[w.MyPE()][k], err = Alloc[int64](w, most); err != nil {
				return err
			}
		}
		return nil
	})
	for _, n := range []int{0, 1, 3, 1000, 29_999} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f.each(t, func(w *World) error {
				back, err := w.Team().SplitStrided(4, -1, 5, nil)
				if err != nil {
					return err
				}
				x := objects[w.MyPE()]
				for _, team := range []*Team{w.Team(), back} {
					if err := f.checkCollectives(team, x[0], x[1], n); err != nil {
						return fmt.Errorf("team with this PE as %d: %w", team.MyPE(), err)
					}
				}
				return back.Destroy()
			})
		})
	}
}

// The Outcome of a collective between nodes names all PEs, or the root of a broadcast.
func TestFarOutcome(t *testing.T) {
	f := newFarJob(t, 2, 1)
	f.each(t, func(w *World) error {
		team := w.Team()
		want := func(call string, pes ...int) error {
			if o := team.Outcome(); !slices.Equal(o.Contributors, pes) || o.Failed != nil {
				return fmt.Errorf("after %s: %+v, want contributors %d", call, o, pes)
			}
			return nil
		}
		x, err := Alloc[int64](w, 2)
		for _, c := range []struct {
			name string
			call func() error
			pes  []int
		}{
			{"Alloc", func() error { return err }, []int{0, 1, 2}},
			{"BroadcastValue", func() error { _, err := BroadcastValue(team, 1, 2); return err }, []int{2}},
			{"Sync", team.Sync, []int{0, 1, 2}},
			{"Broadcast", func() error { return Broadcast(team, x.At(0), x.At(1), 1) }, []int{1}},
			{"Reduce", func() error { return Reduce(team, x.At(0), x.At(1), Sum) }, []int{0, 1, 2}},
			{"BroadcastValue", func() error { _, err := BroadcastValue(team, 1, 0); return err }, []int{0}},
			{"ReduceValue", func() error { _, err := ReduceValue(team, 1, Sum); return err }, []int{0, 1, 2}},
			{"BroadcastValue", func() error { _, err := BroadcastValue(team, 1, 0); return err }, []int{0}},
			{"SplitStrided", func() error { _, err := team.SplitStrided(0, 1, 3, nil); return err }, []int{0, 1, 2}},
		} {
			if err := c.call(); err != nil {
				return err
			}
			if err := want(c.name, c.pes...); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkCollectives calls each collective with n elements of a member.
func (f *farJob) checkCollectives(team *Team, dst, src Sym[int64], n int) error {
	me, all := team.MyPE(), team.NPEs()
	pe := int(team.group.pe(me))
	from, to := memory(f, src, pe), memory(f, dst, pe)
	blocks := func(block func(i, k int) int64) (want []int64) {
		for i := range all {
			for k := range n {
				want = append(want, block(i, k))
			}
		}
		return want
	}
	sum := func(members int) (want []int64) {
		for k := range n {
			s := int64(0)
			for i := range members {
				s += farSource(i, k)
			}
			want = append(want, s)
		}
		return want
	}
	root := all - 2
	for _, c := range []struct {
		name string
		give int // elements of the source
		call func() error
		want []int64
	}{
		{"Broadcast", n, func() error { return Broadcast(team, dst, src.Slice(0, n), root) }, blocks(func(_, k int) int64 { return farSource(root, k) })[:n]},
		{"Reduce", n, func() error { return Reduce(team, dst, src.Slice(0, n), Sum) }, sum(all)},
		{"FCollect", n, func() error { return FCollect(team, dst, src.Slice(0, n)) }, blocks(farSource)},
		{"SumInScan", n, func() error { return SumInScan(team, dst, src.Slice(0, n)) }, sum(me + 1)},
		{"SumExScan", n, func() error { return SumExScan(team, dst, src.Slice(0, n)) }, sum(me)},
		{"Alltoall", n * all, func() error { return Alltoall(team, dst, src.Slice(0, n*all)) }, blocks(func(i, k int) int64 { return farSource(i, me*n+k) })},
	} {
		for k := range c.give {
			from[k] = farSource(me, k)
		}
		for k := range to {
			to[k] = -1
		}
		if err := c.call(); err != nil {
			return err
		}
		if !slices.Equal(to[:len(c.want)], c.want) || len(c.want) < len(to) && to[len(c.want)] != -1 {
			return fmt.Errorf("%s of %d elements: others than wanted", c.name, n)
		}
	}
	return f.checkUneven(team, dst, src, n)
}

// checkUneven calls the collectives whose elements are apart, or of other numbers on each member, or in place.
func (f *farJob) checkUneven(team *Team, dst, src Sym[int64], n int) error {
	me, all := team.MyPE(), team.NPEs()
	pe := int(team.group.pe(me))
	from, to := memory(f, src, pe), memory(f, dst, pe)
	given := func(i int) int { return n * i / all }
	var want []int64
	for i := range all {
		for k := range given(i) {
			want = append(want, farSource(i, k+i))
		}
	}
	for k := range n + all {
		from[k] = farSource(me, k)
	}
	if err := Collect(team, dst, src.Slice(me, me+given(me))); err != nil {
		return err
	}
	if !slices.Equal(to[:len(want)], want) {
		return fmt.Errorf("Collect of %d elements: others than wanted", len(want))
	}
	if n >= 1000 {
		short := Collect(team, dst.Slice(0, len(want)-me/(all-1)), src.Slice(me, me+given(me)))
		if !errors.Is(short, ErrArgument) || !strings.Contains(short.Error(), fmt.Sprintf("destination of PE %d", all-1)) {
			return fmt.Errorf("Collect without room on the last member: %w", short)
		}
	}
	few := min(n, 1000)
	for k := range 3 * few * all {
		from[k], to[k] = farSource(me, k), -1
	}
	if err := AlltoallS(team, dst, src, Stride{Dst: 2, Src: 3, N: few}); err != nil {
		return err
	}
	for i := range all {
		for k := range few {
			if got := to[2*(i*few+k)]; got != farSource(i, 3*(me*few+k)) {
				return fmt.Errorf("AlltoallS: element %d from member %d is %d", k, i, got)
			}
		}
	}
	for k := range n {
		from[k] = farSource(me, k)
	}
	if err := Reduce(team, src.Slice(0, n), src.Slice(0, n), Max); err != nil {
		return err
	}
	for k := range n {
		if from[k] != farSource(all-1, k) {
			return fmt.Errorf("Reduce in place: element %d is %d", k, from[k])
		}
	}
	return checkValues(team)
}

// checkValues calls the collectives on values: of a word, and of more than is given at once.
func checkValues(team *Team) error {
	me, all := team.MyPE(), team.NPEs()
	if v, err := ReduceValue(team, int32(me), Sum); err != nil || int(v) != all*(all-1)/2 {
		return fmt.Errorf("ReduceValue: %d, %w", v, err)
	}
	var large [400]int64
	for i := range large {
		large[i] = farSource(me, i)
	}
	v, err := BroadcastValue(team, large, 1)
	if err != nil || v[0] != farSource(1, 0) || v[399] != farSource(1, 399) {
		return fmt.Errorf("BroadcastValue: %d and %d, %w", v[0], v[399], err)
	}
	v, err = ReduceValue(team, large, func(acc, in [][400]int64) {
		for i := range acc {
			for k := range acc[i] {
				acc[i][k] = acc[i][k]*3 + in[i][k] // not commutative
			}
		}
	})
	want := farSource(0, 399)
	for i := 1; i < all; i++ {
		want = want*3 + farSource(i, 399)
	}
	if err != nil || v[399] != want || unsafe.Sizeof(v) != 3200 {
		return fmt.Errorf("ReduceValue of an array: %d, want %d, %w", v[399], want, err)
	}
	return nil
}

// Members that call different collectives, or one with different arguments, all get ErrMismatch with two of them that differ, and the team
// goes on.
func TestFarMismatch(t *testing.T) {
	f := newFarJob(t, 2, 1)
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		objects[w.MyPE()], err = Alloc[int64](w, 64)
		return err
	})
	f.each(t, func(w *World) error {
		team, x := w.Team(), objects[w.MyPE()]
		odd := w.MyPE() == 2
		for i, call := range []func() error{
			func() error {
				if odd {
					return w.Barrier()
				}
				return Broadcast(team, x.Slice(0, 8), x.Slice(8, 16), 0)
			},
			func() error { return Broadcast(team, x.Slice(0, 8), x.Slice(8, 16), w.MyPE()/2) },
			func() error { return Reduce(team, x.Slice(0, 8), x.Slice(8, 12+w.MyPE()/2), Sum) },
			func() error {
				if odd {
					_, err := Alloc[int64](w, 3)
					return err
				}
				return w.Barrier()
			},
			func() error {
				if odd {
					_, err := ReduceValue(team, int32(1), Sum)
					return err
				}
				_, err := ReduceValue(team, int64(1), Sum)
				return err
			},
			func() error { _, err := Alloc[int64](w, 8+w.MyPE()); return err },
		} {
			err := call()
			differs := "PE 2 "
			if i == 5 {
				differs = "PE 1 "
			}
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), differs) || !strings.Contains(err.Error(), "PE 0") {
				return fmt.Errorf("call %d: %w, want ErrMismatch of PE 0 and %s", i, err, differs)
			}
		}
		return w.Barrier()
	})
}

// Members that call something else than the others' Destroy get ErrMismatch, as all do, and the team goes on.
func TestFarDestroyMismatch(t *testing.T) {
	f := newFarJob(t, 2, 1, 2)
	f.each(t, func(w *World) error {
		for odd := range w.NPEs() {
			team, err := w.Team().SplitStrided(0, 1, w.NPEs(), nil)
			if err != nil {
				return err
			}
			for _, destroys := range []bool{true, false} {
				call := team.Sync
				if (w.MyPE() == odd) == destroys {
					call = team.Destroy
				}
				if err := call(); !errors.Is(err, ErrMismatch) {
					return fmt.Errorf("PE %d calls something else: %w, want ErrMismatch", odd, err)
				}
				if err := team.Sync(); err != nil {
					return fmt.Errorf("after a mismatch: %w", err)
				}
			}
			if err := team.Destroy(); err != nil {
				return err
			}
		}
		return nil
	})
}

// A PE whose arguments are bad meets the others in an allocation: they get an error, and do not wait for it. So it is
// under GOSHMEM_CHECK, too, which compares nothing on a team that spans nodes.
func TestFarRefusal(t *testing.T) {
	f := newFarJob(t, 2, 1)
	for _, checks := range []bool{false, true} {
		for odd := range f.worlds {
			f.each(t, func(w *World) error {
				w.session.h.checks = checks
				n, want := 8, ErrMismatch
				if w.MyPE() == odd {
					n, want = -1, ErrArgument
				}
				if _, err := Alloc[int64](w, n); !errors.Is(err, want) {
					return fmt.Errorf("checks: %t, bad arguments on PE %d: %w, want %w", checks, odd, err, want)
				}
				return w.Barrier()
			})
		}
	}
}

// A death ends a data collective on all survivors, with an error that names the dead.
func TestFarCollectiveDeath(t *testing.T) {
	f := newFarJob(t, 1, 2)
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		objects[w.MyPE()], err = Alloc[int64](w, 64)
		return err
	})
	f.kill(1) // the first member on its node
	f.each(t, func(w *World) error {
		x := objects[w.MyPE()]
		err := Reduce(w.Team(), x.Slice(0, 8), x.Slice(8, 16), Sum)
		dead, is := errors.AsType[*PEError](err)
		if !is || !slices.Equal(dead.PEs, []int{1}) {
			return fmt.Errorf("Reduce: %w, want a PEError of PE 1", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := w.With(ctx).Team().SplitStrided(0, 1, 2, nil); !errors.Is(err, ErrPEDied) {
			return fmt.Errorf("SplitStrided: %w", err)
		}
		return nil
	}, 0, 2)
}
