package agree

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
)

// candidates returns the nodes that may die. If their order is not drawn, the first ones die first.
// Node 0, the root and coordinator, is among them only with --who root.
func (o *Options) candidates() []int32 {
	t, err := tree.NewKnomial(o.Nodes, o.Radix)
	if err != nil { // the options are checked
		return nil
	}
	below := func(v int32) int32 { return t.End(v) - v }
	var list []int32
	for v := range int32(o.Nodes) {
		switch {
		case v == 0 && o.Who != "root":
		case o.Who == "leaves" && below(v) > 1:
		default:
			list = append(list, v)
		}
	}
	if o.Who == "inner" {
		slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(below(b), below(a)) })
	}
	return list
}

// victims draws the nodes that die in a run.
func (o *Options) victims(r *rand.Rand) []int32 {
	if o.Failures == 0 {
		return nil
	}
	list := o.candidates()
	swap := func(i, j int) { list[i], list[j] = list[j], list[i] }
	switch o.Who {
	case "inner":
	case "root":
		r.Shuffle(len(list)-1, func(i, j int) { swap(i+1, j+1) })
	default:
		r.Shuffle(len(list), swap)
	}
	return list[:o.Failures]
}
