package spanning

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// fewBytes is less than what a member has to be able to give to a step, so that the step gathers it.
const fewBytes = 64

// MostGathered returns how many bytes each of so many givers gives to a Gather at most.
func MostGathered(givers int) int {
	if n := layout.UpperBody/givers - span.PieceBytes(1, 0); n >= fewBytes {
		return min(n, layout.UpperGiven)
	}
	return layout.UpperGiven
}

// Gather gives mine to all members, and passes what members give to take, in the order of the team. w says what is called and
// with what, as in Same. So many of the members are givers: each of them gives as much, MostGathered at most; the others give nil.
//
// If words differ, take is not called. On a tolerant team, members are left out that died before they called Gather. If there are so
// many members that they read what the others give, those are left out as well that died later, and all survivors leave out
// the same.
func (t *Team) Gather(ctx context.Context, w coll.Words, givers int, mine []byte, take func(member int, data []byte)) (Difference, error) {
	if !t.busy.CompareAndSwap(false, true) { // the words are those of the collective that is under way
		return Difference{}, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	if givers > layout.UpperBody/span.PieceBytes(1, fewBytes) {
		return t.gatherByReading(ctx, w, mine, take)
	}
	d, err := t.meet(ctx, span.Record{First: w}, mine, nil)
	if err != nil {
		return Difference{}, err
	}
	g := d.difference()
	if g.Differs >= 0 {
		return g, nil
	}
	for i, data := range t.sortPieces(d.gave) {
		if data != nil {
			take(i, data)
		}
	}
	return g, nil
}

// sortPieces returns the pieces of all members; nil of those that gave none.
func (t *Team) sortPieces(b []byte) [][]byte {
	all := make([][]byte, len(t.pes))
	for {
		node, member, data, rest, ok := span.CutPiece(b)
		if !ok {
			return all
		}
		if node < len(t.members) && member < len(t.members[node]) {
			all[t.members[node][member]] = data
		}
		b = rest
	}
}

// gatherByReading is Gather for many members: each reads what the others give. The first step says that it is there, the
// second that all have read it.
func (t *Team) gatherByReading(ctx context.Context, w coll.Words, mine []byte, take func(member int, data []byte)) (Difference, error) {
	if !t.posted { // otherwise the agent may read Given, and the step has a fault
		copy(t.p.line(layout.UpperSteps, t.id).Given[:], mine)
	}
	t.shown = true
	defer func() { t.shown = false }()
	d, err := t.meet(ctx, span.Record{First: w}, nil, nil)
	if err != nil {
		return Difference{}, err
	}
	g := d.difference()
	if g.Differs >= 0 {
		return g, nil
	}
	all := make([]byte, len(mine)*len(t.pes))
	for again := true; again; {
		var failed error
		for i := 0; i < len(t.pes) && failed == nil; i++ {
			if !slices.Contains(g.Failed, i) {
				failed = t.read(ctx, i, all[i*len(mine):(i+1)*len(mine)])
			}
		}
		d, err = t.meet(ctx, span.Record{}, nil, failed) // also after a failure: the others wait for this member
		switch again = errors.Is(err, ErrAgain); {
		case again:
			g.Failed = d.failed
		case err == nil:
		case isLate(failed): // the others get another error
			return Difference{}, failed
		default:
			return Difference{}, err
		}
	}
	for i := range t.pes {
		if !slices.Contains(g.Failed, i) {
			take(i, all[i*len(mine):(i+1)*len(mine)])
		}
	}
	return g, nil
}

// read reads what a member shows.
func (t *Team) read(ctx context.Context, member int, data []byte) error {
	pe := t.pes[member]
	if near := t.p.Near(pe); near != nil {
		copy(data, near.Lines[layout.UpperSteps][t.id].Given[:])
		return nil
	}
	id, err := t.idOf(ctx, member)
	if err != nil {
		return err
	}
	return t.lateError(member, t.p.Port.Get(ctx, pe, t.p.Offset+givenAt(layout.UpperSteps, id), data))
}

// idOf returns the id that a member of another node has for the team. It reads the descriptions of the member's teams once for each
// node. The member has entered a step of the team and no later one, so its description of the team is there.
func (t *Team) idOf(ctx context.Context, member int) (int, error) {
	node := nodeOf(t, member)
	if id, known := t.ids[node]; known {
		return id, nil
	}
	var parts [layout.UpperTeams]layout.UpperPart
	b := unsafe.Slice((*byte)(unsafe.Pointer(&parts)), unsafe.Sizeof(parts))
	at := t.p.Offset + uint64(unsafe.Offsetof(layout.Upper{}.Parts))
	if err := t.p.Port.Get(ctx, t.pes[member], at, b); err != nil {
		return 0, t.lateError(member, err)
	}
	id := slices.IndexFunc(parts[:], func(p layout.UpperPart) bool { return p.Name == t.name && p.Ended == 0 })
	if id < 0 {
		return 0, coll.ErrBroken // only a PE that is broken describes the team no more
	}
	if t.ids == nil {
		t.ids = map[int]int{}
	}
	t.ids[node] = id
	return id, nil
}

// nodeOf returns the place of a member's node in first.
func nodeOf(t *Team, member int) int {
	return slices.IndexFunc(t.members, func(those []int) bool { return slices.Contains(those, member) })
}
