package agreebench

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/coll/tree"
)

// Names of algorithms.
const (
	Allreduce = "allreduce" // the yardstick: no agreement, among the survivors alone
	Linear    = "linear"
	Log       = "log"
	Early     = "early"
)

// Algorithms lists the names of all algorithms.
var Algorithms = []string{Allreduce, Linear, Log, Early}

// Ways to choose the victims.
const (
	Inner  = "inner"
	Random = "random"
)

// Victims lists the ways to choose the victims.
var Victims = []string{Inner, Random}

// Variant is an algorithm, with or without rebalancing.
type Variant struct {
	Algorithm  string `json:"algorithm"`
	Rebalanced bool   `json:"rebalanced"` // the tree holds the survivors only
}

// String returns the variant's name.
func (v Variant) String() string {
	if v.Rebalanced {
		return v.Algorithm + ", rebalanced"
	}
	return v.Algorithm
}

// kind returns the algorithm for package agree. It returns 0 for an allreduce.
func (v Variant) kind() agree.Algorithm {
	switch v.Algorithm {
	case Linear:
		return agree.Linear
	case Log:
		return agree.Log
	case Early:
		return agree.EarlyReturning
	}
	return 0
}

// variantsOf returns the variants of algorithms. Without dead PEs there is nothing to rebalance. An allreduce always
// runs among the survivors alone.
func variantsOf(algorithms []string, dead int) (list []Variant) {
	for _, a := range Algorithms {
		if !slices.Contains(algorithms, a) {
			continue
		}
		list = append(list, Variant{a, a == Allreduce && dead > 0})
		if a != Allreduce && dead > 0 {
			list = append(list, Variant{a, true})
		}
	}
	return list
}

// radix is the k of the k-nomial trees. The paper has binomial trees.
const radix = 2

// victims returns the PEs that die, ascending. Inner takes those with most PEs below them in the tree first, Random draws
// them by rng. PE 0, the coordinator, is not among them.
func victims(who string, pes, dead int, rng *rand.Rand) []int {
	list := make([]int, 0, pes-1)
	for q := 1; q < pes; q++ {
		list = append(list, q)
	}
	if who == Random {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	} else if t, err := tree.NewKnomial(pes, radix); err == nil { // the number of PEs is checked
		below := func(q int) int32 { return t.End(int32(q)) - int32(q) }
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(below(b), below(a)) })
	}
	list = list[:dead]
	slices.Sort(list)
	return list
}
