package perftest

import (
	"slices"

	"github.com/goshmem/goshmem/shmem"
)

// findNodes sets b.homes. All PEs call it.
func (b *bench) findNodes() error {
	b.homes = make([]int64, b.npes)
	if b.w.Shared().NPEs() == b.npes { // the same on all PEs
		return nil
	}
	first, _ := b.w.Shared().Translate(0, b.w.Team())
	all, err := shmem.Calloc[int64](b.w, b.npes+1)
	if err != nil {
		return err
	}
	homes, mine := all.Slice(0, b.npes), all.At(b.npes)
	mine.Local()[0] = int64(first)
	if err := shmem.FCollect(b.w.Team(), homes, mine); err != nil {
		return err
	}
	copy(b.homes, homes.Local())
	return shmem.Free(b.w, all)
}

// countNodes returns how many nodes PEs have, by the first PE of the node of each.
func countNodes(homes []int64) (n int) {
	for pe, first := range homes {
		if int(first) == pe {
			n++
		}
	}
	return n
}

// chooseTarget returns the PE that PE 0 acts on. All PEs come to the same result.
func (b *bench) chooseTarget() (int, error) {
	if !b.o.Far {
		return 1, nil
	}
	far := slices.IndexFunc(b.homes, func(first int64) bool { return first != b.homes[0] })
	if far < 0 {
		return 0, &usageError{"--far", "all PEs are on one node", "PEs on two nodes or more", "oshrun --emulate 2 -n 2 bench put --far"}
	}
	return far, nil
}

// pairUp pairs the first half of the PEs with the second half. With --far PEs are in the order of their nodes, and a pair
// on one node does nothing. By PE, to is whom it puts to, and from who puts to it; -1: nobody.
func (b *bench) pairUp() (to, from []int) { return pairUp(b.homes, b.o.Far) }

func pairUp(homes []int64, far bool) (to, from []int) {
	var order []int
	for pe := range homes {
		order = append(order, pe)
	}
	to, from = make([]int, len(homes)), make([]int, len(homes))
	for pe := range homes {
		to[pe], from[pe] = -1, -1
	}
	if far {
		slices.SortStableFunc(order, func(x, y int) int { return int(homes[x] - homes[y]) })
	}
	half := len(order) / 2
	for i, pe := range order[:half] {
		if other := order[half+i]; !far || homes[pe] != homes[other] {
			to[pe], from[other] = other, pe
		}
	}
	return to, from
}
