package minife

import (
	"maps"
	"slices"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
)

// saved is the state of a box after some iteration.
type saved struct{ x, r, p []float64 }

// checkpoints are the states of the boxes of this rank, and of those of the rank before it, after two iterations: the last one that all ranks have, and
// one that some may have.
type checkpoints struct {
	of   map[int]map[int]saved // by iteration and box
	rr   map[int]float64       // by iteration
	next map[int]saved         // of the block under way
}

func newCheckpoints() *checkpoints {
	return &checkpoints{of: map[int]map[int]saved{}, rr: map[int]float64{}}
}

// state returns a copy of the state of a part.
func (p *part) state() saved {
	return saved{slices.Clone(p.x), slices.Clone(p.r), slices.Clone(p.p[:len(p.x)])}
}

// checkpointTag is the tag of the messages with states, behind those of all pairs of boxes.
func (s *solver) checkpointTag(box int) int { return len(s.boxes)*len(s.boxes) + box }

// send keeps the states of this rank's boxes, and sends them to the next rank, as part of a block. It receives those of the rank before.
func (k *checkpoints) send(s *solver, b *ft.Block) {
	k.next = map[int]saved{}
	n, me := s.c.Size(), s.c.Rank()
	for _, p := range s.parts {
		state := p.state()
		k.next[p.number] = state
		for i, v := range [][]float64{state.x, state.r, state.p} {
			if n > 1 {
				_ = b.Add(mpi.Isend(s.c, v, (me+1)%n, 3*s.checkpointTag(p.number)+i)) // an error is a fault of the block
			}
		}
	}
	for box, owner := range s.owner {
		if owner != (me+n-1)%n || n == 1 {
			continue
		}
		rows := nodesOf(s.boxes[box], s.grid).size()
		state := saved{make([]float64, rows), make([]float64, rows), make([]float64, rows)}
		k.next[box] = state
		for i, v := range [][]float64{state.x, state.r, state.p} {
			_ = b.Add(mpi.Irecv(s.c, v, owner, 3*s.checkpointTag(box)+i))
		}
	}
}

// commit notes that a block with states was accepted, after an iteration. Older ones than the last two are dropped.
func (k *checkpoints) commit(iteration int, rr float64) {
	k.of[iteration], k.rr[iteration] = k.next, rr
	for _, old := range slices.Sorted(maps.Keys(k.of))[:max(len(k.of)-2, 0)] {
		delete(k.of, old)
		delete(k.rr, old)
	}
}

// restore gives each box an owner among the ranks, and the state after an iteration (0: the beginning): a box whose rank lives stays there. One whose rank
// has died goes to a rank that has no box, as new ones have none, or else to the one that has its copy. If that has died, too, all begin anew.
func (s *solver) restore(iteration int) error {
	n, me := s.c.Size(), s.c.Rank()
	holders := make([]int32, 2*len(s.boxes)) // by box: the rank that has it, plus 1, and then the one that has a copy
	mine := make([]int32, len(holders))
	for _, p := range s.parts {
		mine[p.number] = int32(me) + 1
	}
	for box := range s.saved.of[iteration] {
		mine[len(s.boxes)+box] = int32(me) + 1
	}
	if err := mpi.Allreduce(s.c, holders, mine, mpi.Max); err != nil {
		return err
	}
	owner, copies := make([]int, len(s.boxes)), holders[len(s.boxes):]
	var idle []int
	for rank := range n {
		if !slices.Contains(holders[:len(s.boxes)], int32(rank)+1) {
			idle = append(idle, rank)
		}
	}
	for box := range owner {
		owner[box] = int(holders[box]) - 1
		if owner[box] >= 0 {
			continue
		}
		switch {
		case iteration > 0 && copies[box] == 0:
			s.saved = newCheckpoints()
			return s.restore(0)
		case len(idle) > 0:
			owner[box], idle = idle[0], append(idle[1:], idle[0])
		case iteration > 0:
			owner[box] = int(copies[box]) - 1
		default:
			owner[box] = box % n
		}
	}
	s.owner = owner
	return s.load(iteration, holders[:len(s.boxes)], copies)
}

// load makes the parts of this rank, with the states after an iteration. holders and copies have the ranks that had each box, and that have its state, plus 1.
func (s *solver) load(iteration int, holders, copies []int32) error {
	me, former := s.c.Rank(), s.parts
	states := s.saved.of[iteration]
	if states == nil {
		states = map[int]saved{}
		s.saved.of[iteration] = states
	}
	s.parts, s.iteration, s.rr = nil, iteration, s.saved.rr[iteration]
	for box, owner := range s.owner {
		orphan := iteration > 0 && holders[box] == 0
		switch {
		case owner != me:
			if orphan && int(copies[box])-1 == me {
				if err := s.give(box, owner, states[box]); err != nil {
					return err
				}
			}
			continue
		case orphan && int(copies[box])-1 != me:
			state, err := s.take(box, int(copies[box])-1)
			if err != nil {
				return err
			}
			states[box] = state
			s.saved.rr[iteration] = s.rr // belongs to the state, also if this restore does not come to its end
		}
		i := slices.IndexFunc(former, func(p *part) bool { return p.number == box })
		var p *part
		if i >= 0 && iteration > 0 {
			p = former[i]
		} else {
			p = newPart(box, s.boxes, s.grid)
		}
		if iteration > 0 {
			copy(p.x, states[box].x)
			copy(p.r, states[box].r)
			copy(p.p, states[box].p)
		}
		s.parts = append(s.parts, p)
	}
	s.saved.rr[iteration] = s.rr
	return nil
}

// give sends the state of a box to its new rank.
func (s *solver) give(box, to int, state saved) error {
	for i, v := range [][]float64{state.x, state.r, state.p, {s.rr}} {
		if err := mpi.Send(s.c, v, to, 4*box+i); err != nil {
			return err
		}
	}
	return nil
}

// take is the other side of give.
func (s *solver) take(box, from int) (saved, error) {
	rows := nodesOf(s.boxes[box], s.grid).size()
	state, rr := saved{make([]float64, rows), make([]float64, rows), make([]float64, rows)}, make([]float64, 1)
	for i, v := range [][]float64{state.x, state.r, state.p, rr} {
		if _, err := mpi.Recv(s.c, v, from, 4*box+i); err != nil {
			return state, err
		}
	}
	s.rr = rr[0]
	return state, nil
}
