package spanning

import (
	"context"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/symheap/layout"
)

// MostFolded is how many bytes each member gives to a Fold at most.
const MostFolded = layout.UpperGiven

// Fold folds the elements that members give by a predefined operator, and passes the result to take, which does not keep it. It is one
// step of one size, however many members there are: the agents fold. w says what is called and with what, as in Same: the
// operator, the type and the number of the elements are parts of that.
//
// All survivors get the same bytes. Nodes fold what their members give in the order of the PEs, and what they have folded goes up
// the tree of nodes. So floating-point sums and products may be rounded otherwise than by a fold of one member after the other.
//
// If words differ, take is not called. On a tolerant team, members are left out that died before they called Fold.
func (t *Team) Fold(ctx context.Context, w coll.Words, op fold.Kind, elem fold.Elem, mine []byte, take func(folded []byte)) (Difference, error) {
	if !t.busy.CompareAndSwap(false, true) { // the words are those of the collective that is under way
		return Difference{}, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	d, err := t.meet(ctx, span.Record{First: w, Op: op, Elem: elem}, mine, nil)
	if err != nil {
		return Difference{}, err
	}
	g := d.difference()
	switch {
	case g.Differs >= 0:
		return g, nil
	case d.Op != op || d.Elem != elem || len(d.gave) != len(mine):
		return Difference{}, t.giveUp(coll.ErrBroken) // members with the same words never give such things
	}
	take(d.gave)
	return g, nil
}
