package graph500

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The division by multiplication has to be exact for every allowed number of PEs, also at the ends
// of the range.
func TestOwnersDivideExactly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for pes := 1; pes <= maxPEs; pes += 1 + pes/7 {
		o := newOwners(1<<maxScale, pes)
		for range 200 {
			q := random.Uint64N(1<<32/uint64(pes) + 1)
			for _, v := range []uint64{q * uint64(pes), q*uint64(pes) + uint64(pes) - 1, q*uint64(pes) - 1, random.Uint64N(1 << 32)} {
				if v >= 1<<32 {
					continue
				}
				owner, local := o.split(v)
				if uint64(owner) != v%uint64(pes) || uint64(local) != v/uint64(pes) {
					t.Fatalf("%d PEs, vertex %d: got owner %d and local index %d", pes, v, owner, local)
				}
				if o.vertex(int(owner), int(local)) != v {
					t.Fatalf("%d PEs, vertex %d: owner and local index do not give the vertex again", pes, v)
				}
			}
		}
	}
}

func TestSharesCoverTheList(t *testing.T) {
	for _, n := range []uint64{0, 1, 15, 16, 17, 1 << 20} {
		for _, pes := range []int{1, 3, 7, 16} {
			var at uint64
			for pe := range pes {
				from, to := shareOf(n, pe, pes)
				if from != at || to < from || to-from > n/uint64(pes)+1 {
					t.Errorf("%d tuples, PE %d of %d: %d to %d", n, pe, pes, from, to)
				}
				at = to
			}
			if at != n {
				t.Errorf("%d PEs share %d tuples, want %d", pes, at, n)
			}
		}
	}
}

func TestRowSorterSorts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, keys := range []uint64{1, 100, 1 << 10, 1 << 20, 1 << 31, 1 << 32} {
		var s rowSorter
		s.init(keys, 5000)
		for _, n := range []int{0, 1, 2, radixRow - 1, radixRow, 5000} {
			row := make([]uint32, n)
			for i := range row {
				row[i] = uint32(random.Uint64N(keys))
			}
			want := slices.Sorted(slices.Values(row))
			s.sort(row)
			if !slices.Equal(row, want) {
				t.Errorf("%d keys below %d are not sorted", n, keys)
			}
		}
	}
}
