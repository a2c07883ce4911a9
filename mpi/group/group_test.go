package group_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi/group"
)

func want(t *testing.T, what string, g group.Group, err error, ids ...int) {
	t.Helper()
	if err != nil || !slices.Equal(g.IDs(), ids) {
		t.Errorf("%s: %v, %v, want %v", what, g.IDs(), err, ids)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	g := group.Of(30, 10, 20, 30, 40, 50)
	if g.Size() != 5 || g.Rank() != 2 {
		t.Errorf("size %d, rank %d, want 5 and 2", g.Size(), g.Rank())
	}
	if r := group.Of(7, 1, 2).Rank(); r != group.Undefined {
		t.Errorf("rank of a process outside of the group: %d, want %d", r, group.Undefined)
	}
	h, err := g.Incl(4, 0, 2)
	want(t, "Incl", h, err, 50, 10, 30)
	x, err := g.Excl(4, 0)
	want(t, "Excl", x, err, 20, 30, 40)
	x, err = g.Incl()
	want(t, "Incl of none", x, err)
	x, err = g.RangeIncl(group.Range{First: 4, Last: 2, Stride: -2}, group.Range{First: 0, Last: 1, Stride: 1})
	want(t, "RangeIncl", x, err, 50, 30, 10, 20)
	x, err = g.RangeExcl(group.Range{First: 0, Last: 4, Stride: 3})
	want(t, "RangeExcl", x, err, 20, 30, 50)
	of := group.Of(30, 60, 30, 10, 70)
	want(t, "Union", g.Union(of), nil, 10, 20, 30, 40, 50, 60, 70)
	want(t, "Intersection", g.Intersection(of), nil, 10, 30)
	want(t, "Intersection, the other way", of.Intersection(g), nil, 30, 10)
	want(t, "Difference", g.Difference(of), nil, 20, 40, 50)
	if to, err := g.Translate([]int{2, 1, 0}, of); err != nil || !slices.Equal(to, []int{1, group.Undefined, 2}) {
		t.Errorf("Translate: %v, %v", to, err)
	}
	if g.Size() != 5 || of.Size() != 4 {
		t.Error("a group has changed")
	}
}

// Sets without processes, and with those of both groups, in the orders that MPI gives.
func TestSetCorners(t *testing.T) {
	t.Parallel()
	g, none := group.Of(3, 1, 2, 3, 4, 5, 6), group.Group{}
	some, err := g.Incl(1, 3)
	want(t, "Incl", some, err, 2, 4)
	rest, err := g.Excl(1, 3)
	want(t, "Excl", rest, err, 1, 3, 5, 6)
	want(t, "Union of both parts", some.Union(rest), nil, 2, 4, 1, 3, 5, 6)
	if got := some.Union(rest).Compare(g); got != group.Similar {
		t.Errorf("the union of both parts is %v, want %v", got, group.Similar)
	}
	want(t, "Intersection of both parts", some.Intersection(rest), nil)
	want(t, "Intersection with a part", g.Intersection(rest), nil, 1, 3, 5, 6)
	want(t, "Difference from a part", g.Difference(some), nil, 1, 3, 5, 6)
	want(t, "Difference of a part", some.Difference(g), nil)
	want(t, "Union with none", none.Union(g), nil, g.IDs()...)
	if r := none.Union(g).Rank(); r != 2 {
		t.Errorf("rank in the union with none: %d, want 2", r)
	}
	all, err := g.Excl(5, 0, 1, 2, 4, 3)
	want(t, "Excl of all", all, err)
	all, err = g.RangeExcl(group.Range{First: 5, Last: 0, Stride: -1})
	want(t, "RangeExcl of all", all, err)
	all, err = g.Excl()
	want(t, "Excl of none", all, err, g.IDs()...)
	all, err = g.RangeIncl(group.Range{First: 4, Last: 2, Stride: 1}, group.Range{First: 1, Last: 2, Stride: -1})
	want(t, "RangeIncl of empty ranges", all, err)
	all, err = g.RangeIncl(group.Range{First: 1, Last: 1, Stride: 5}, group.Range{First: 0, Last: 5, Stride: 4}, group.Range{First: 5, Last: 3, Stride: -2})
	want(t, "RangeIncl", all, err, 2, 1, 5, 6, 4)
	if got, err := g.Translate([]int{group.ProcNull, 1, 0}, some); err != nil || !slices.Equal(got, []int{group.ProcNull, 0, group.Undefined}) {
		t.Errorf("Translate: %v, %v", got, err)
	}
	if got := none.Compare(all.Intersection(none)); got != group.Ident {
		t.Errorf("groups without processes are %v, want %v", got, group.Ident)
	}
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	g := group.Of(1, 1, 2, 3)
	for _, x := range []struct {
		h    group.Group
		want group.Comparison
	}{{group.Of(2, 1, 2, 3), group.Ident}, {group.Of(1, 3, 2, 1), group.Similar}, {group.Of(1, 1, 2), group.Unequal}, {group.Of(1, 1, 2, 4), group.Unequal}} {
		if got := g.Compare(x.h); got != x.want {
			t.Errorf("%v and %v are %v, want %v", g.IDs(), x.h.IDs(), got, x.want)
		}
	}
}

func TestBadRanks(t *testing.T) {
	t.Parallel()
	g := group.Of(1, 1, 2, 3)
	for _, x := range []struct {
		err  func() error
		want string
	}{
		{func() error { _, err := g.Incl(0, 3); return err }, "group.Incl: rank 3, want 0 to 2"},
		{func() error { _, err := g.Excl(-1); return err }, "group.Excl: rank -1, want 0 to 2"},
		{func() error { _, err := g.Incl(1, 2, 1); return err }, "group.Incl: rank 1 is given twice, the second time at place 2, want each once"},
		{func() error { _, err := g.RangeIncl(group.Range{}); return err }, "group.RangeIncl: range from 0 to 0 with stride 0, want another stride"},
		{func() error { _, err := g.RangeIncl(group.Range{First: 1, Last: math.MaxInt, Stride: 1}); return err }, "group.RangeIncl: rank 3, want 0 to 2"},
		{func() error { _, err := g.RangeExcl(group.Range{First: 1, Last: math.MinInt, Stride: -1}); return err }, "group.RangeExcl: rank -1, want 0 to 2"},
		{func() error {
			_, err := g.RangeIncl(group.Range{First: 0, Last: 2, Stride: 1}, group.Range{First: 2, Last: 0, Stride: -2})
			return err
		}, "group.RangeIncl: rank 2 is given twice, the second time at place 3, want each once"},
		{func() error { _, err := g.Translate([]int{5}, g); return err }, "group.Translate: rank 5, want 0 to 2, or ProcNull"},
	} {
		if err := x.err(); fmt.Sprint(err) != x.want {
			t.Errorf("error %v, want %q", err, x.want)
		}
	}
}
