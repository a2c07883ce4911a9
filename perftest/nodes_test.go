package perftest

import (
	"slices"
	"testing"
)

// Each PE of the first half has a partner in the second half. With --far, the two of a pair are on different nodes.
func TestPairUp(t *testing.T) {
	for _, x := range []struct {
		homes []int64
		far   bool
		to    []int
	}{
		{[]int64{0, 0}, false, []int{1, -1}},
		{[]int64{0, 0, 0, 0}, false, []int{2, 3, -1, -1}},
		{[]int64{0, 0, 0, 3}, false, []int{2, 3, -1, -1}},
		{[]int64{0, 0, 2, 2}, true, []int{2, 3, -1, -1}},
		{[]int64{0, 1, 0, 1}, true, []int{1, -1, 3, -1}}, // nodes take turns
		{[]int64{0, 0, 0, 3}, true, []int{-1, 3, -1, -1}},
		{[]int64{0, 1, 1, 1}, true, []int{2, -1, -1, -1}},
		{[]int64{0, 0, 2, 2, 4, 4}, true, []int{3, 4, 5, -1, -1, -1}},
	} {
		to, from := pairUp(x.homes, x.far)
		if !slices.Equal(to, x.to) {
			t.Errorf("homes %v, far %v: puts to %v, want %v", x.homes, x.far, to, x.to)
		}
		for pe, other := range from {
			if other >= 0 && to[other] != pe || other < 0 && slices.Contains(to, pe) {
				t.Errorf("homes %v, far %v: puts to %v do not come from %v", x.homes, x.far, to, from)
			}
		}
	}
}

// PE 0 acts on PE 1, or on the first PE of another node.
func TestChooseTarget(t *testing.T) {
	for _, x := range []struct {
		homes []int64
		far   bool
		want  int // 0: refused
	}{
		{[]int64{0, 0, 2}, false, 1},
		{[]int64{0, 0, 2}, true, 2},
		{[]int64{0, 1, 0}, true, 1},
		{[]int64{0, 0, 0}, true, 0},
		{[]int64{0}, true, 0},
	} {
		b := &bench{homes: x.homes, o: Options{Far: x.far}}
		if got, err := b.chooseTarget(); got != x.want || (err != nil) != (x.want == 0) {
			t.Errorf("homes %v, far %v: target %d, error %v, want %d", x.homes, x.far, got, err, x.want)
		}
	}
}
