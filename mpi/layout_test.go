package mpi_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// layouts of a matrix of 6 rows and 7 columns, and the elements that they have.
func layouts() map[string]struct {
	l    mpi.Layout
	want []int
} {
	return map[string]struct {
		l    mpi.Layout
		want []int
	}{
		"contiguous": {mpi.Contiguous(4), []int{0, 1, 2, 3}},
		"none":       {mpi.Layout{}, nil},
		"column":     {mpi.Vector(6, 1, 7), []int{0, 7, 14, 21, 28, 35}},
		"blocks":     {mpi.Vector(3, 2, 5), []int{0, 1, 5, 6, 10, 11}},
		"touching":   {mpi.Vector(3, 2, 2), []int{0, 1, 2, 3, 4, 5}},
		"indexed":    {mpi.Indexed([]int{2, 0, 3}, []int{10, 3, 1}), []int{10, 11, 1, 2, 3}},
		"subarray":   {mpi.Subarray([]int{6, 7}, []int{2, 3}, []int{1, 2}), []int{9, 10, 11, 16, 17, 18}},
		"cube":       {mpi.Subarray([]int{2, 3, 7}, []int{2, 1, 2}, []int{0, 2, 5}), []int{19, 20, 40, 41}},
	}
}

// Messages of all layouts arrive in all layouts of as many elements, whether sender and receiver wait or not.
func TestLayouts(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		all := layouts()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			x := all[name]
			if got := x.l.Count(); got != len(x.want) {
				t.Errorf("%s: %d elements, want %d", name, got, len(x.want))
			}
			base := make([]int32, 42)
			for i := range base {
				base[i] = int32(1000*c.Rank() + i)
			}
			plain := make([]int32, len(x.want))
			ok(t, mpi.SendLayout(c, base, x.l, other, 1))
			s := must(mpi.Recv(c, plain, other, 1))(t)
			for i, at := range x.want {
				if plain[i] != int32(1000*other+at) {
					t.Errorf("%s: element %d is %d, want %d", name, i, plain[i], 1000*other+at)
				}
			}
			if s.Count != len(x.want) {
				t.Errorf("%s: status %+v", name, s)
			}
			into := make([]int32, 42)
			r := must(mpi.IrecvLayout(c, into, x.l, other, 2))(t)
			send := must(mpi.IsendLayout(c, plain, mpi.Contiguous(len(plain)), other, 2))(t)
			must(send.Wait())(t)
			if s := must(r.Wait())(t); s.Count != len(x.want) || s.Source != other {
				t.Errorf("%s: status %+v", name, s)
			}
			for i := range into {
				want := int32(0)
				if k := slices.Index(x.want, i); k >= 0 {
					want = int32(1000*c.Rank() + i) // its own, there and back
				}
				if into[i] != want {
					t.Errorf("%s: element %d is %d, want %d", name, i, into[i], want)
				}
			}
		}
		short := make([]int32, 42)
		ok(t, mpi.Send(c, []int32{8, 9}, other, 3))
		if s := must(mpi.RecvLayout(c, short, mpi.Vector(3, 1, 7), other, 3))(t); s.Count != 2 || short[0] != 8 || short[7] != 9 || short[14] != 0 {
			t.Errorf("a short message: %+v, %v", s, short)
		}
		for name, l := range map[string]mpi.Layout{
			"overlap": mpi.Vector(2, 3, 2), "negative": mpi.Vector(-1, 1, 1), "lists": mpi.Indexed([]int{1}, nil), "block": mpi.Indexed([]int{1}, []int{-1}),
			"outside": mpi.Subarray([]int{3}, []int{2}, []int{2}), "long": mpi.Contiguous(43), "dimensions": mpi.Subarray(nil, nil, nil),
		} {
			if err := mpi.SendLayout(c, short, l, other, 1); !errors.Is(err, mpi.ErrArgument) {
				t.Errorf("%s: %v, want %v", name, err, mpi.ErrArgument)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := must(mpi.IrecvLayout(c.With(ctx), short, mpi.Vector(2, 1, 7), other, 4))(t)
		cancel()
		if _, err := r.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait with a context that has ended: %v", err)
		}
		ok(t, c.Barrier())
		ok(t, mpi.Send(c, []int32{1, 2}, other, 4))
		must(r.With(t.Context()).Wait())(t)
	}, hangTimeout)
}

// Pack and Unpack of pieces of different types; MinLoc and MaxLoc; operators on bools.
func TestPackAndOperators(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		type pair struct {
			a int8
			b float64
		}
		b := must(mpi.Pack(nil, []int32{1, 2, 3}))(t)
		b = must(mpi.Pack(b, []pair{{4, 5.5}}))(t)
		b = must(mpi.Pack(b, []byte("end")))(t)
		if want := mpi.PackSize[int32](3) + mpi.PackSize[pair](1) + 3; len(b) != want {
			t.Errorf("%d bytes, want %d", len(b), want)
		}
		next, prev := (c.Rank()+1)%3, (c.Rank()+2)%3
		in := make([]byte, len(b))
		must(mpi.Sendrecv(c, b, next, 1, in, prev, 1))(t)
		ints, pairs, text := make([]int32, 3), make([]pair, 1), make([]byte, 3)
		rest := must(mpi.Unpack(in, ints))(t)
		rest = must(mpi.Unpack(rest, pairs))(t)
		rest = must(mpi.Unpack(rest, text))(t)
		if !slices.Equal(ints, []int32{1, 2, 3}) || pairs[0] != (pair{4, 5.5}) || string(text) != "end" || len(rest) != 0 {
			t.Errorf("unpacked %v %v %s, %d bytes left", ints, pairs, text, len(rest))
		}
		if _, err := mpi.Unpack(in[:5], ints); !errors.Is(err, mpi.ErrTruncated) {
			t.Errorf("Unpack of too few bytes: %v", err)
		}
		if _, err := mpi.Pack(nil, []*int{nil}); !errors.Is(err, mpi.ErrElementType) {
			t.Errorf("Pack of pointers: %v", err)
		}
		values := [][]float64{{3, 1, math.NaN()}, {2, 1, 5}, {2, 7, 5}}
		mine := make([]mpi.Loc[float64], 3)
		for i := range mine {
			mine[i] = mpi.Loc[float64]{Value: values[c.Rank()][i], Index: c.Rank()}
		}
		low, high := make([]mpi.Loc[float64], 3), make([]mpi.Loc[float64], 3)
		ok(t, mpi.Allreduce(c, low, mine, mpi.MinLoc))
		ok(t, mpi.Allreduce(c, high, mine, mpi.MaxLoc))
		if low[0] != (mpi.Loc[float64]{2, 1}) || low[1] != (mpi.Loc[float64]{1, 0}) || low[2].Index != 0 {
			t.Errorf("MinLoc: %v", low)
		}
		if high[0] != (mpi.Loc[float64]{3, 0}) || high[1] != (mpi.Loc[float64]{7, 2}) || high[2] != (mpi.Loc[float64]{5, 1}) {
			t.Errorf("MaxLoc: %v", high)
		}
		bools := []bool{c.Rank() != 1, c.Rank() == 1, c.Rank() == 1}
		and, or, xor := make([]bool, 3), make([]bool, 3), make([]bool, 3)
		ok(t, mpi.Allreduce(c, and, bools, mpi.And))
		ok(t, mpi.Allreduce(c, or, bools, mpi.Or))
		ok(t, mpi.Allreduce(c, xor, bools, mpi.Xor))
		if !slices.Equal(and, []bool{false, false, false}) || !slices.Equal(or, []bool{true, true, true}) || !slices.Equal(xor, []bool{false, true, true}) {
			t.Errorf("and %v, or %v, xor %v", and, or, xor)
		}
	})
}
