package minife

import (
	"context"
	"errors"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
)

// solver is a rank's part of the method of conjugate gradients.
type solver struct {
	o     *options
	grid  box
	boxes []box
	owner []int // by box: its rank
	c     *mpi.Comm
	parts []*part

	iteration int     // done so far
	rr        float64 // r*r before the last iteration
	saved     *checkpoints
}

// errGivenUp is the error of an iteration whose block has a fault. The block says which.
var errGivenUp = errors.New("the iteration has failed")

// iterate makes one iteration, in a block. All ranks have made it, or none goes on from it.
func (s *solver) iterate() error {
	if s.o.fault != nil {
		s.o.fault(s.iteration)
	}
	if s.o.plain { // no blocks
		return s.step(&tried{})
	}
	b := ft.Try(s.c, ft.Global)
	err := s.step(&tried{b: b})
	if err != nil {
		s.o.note(EventFault)
	}
	if err != nil && !errors.Is(err, errGivenUp) {
		return err
	}
	if err != nil {
		b.Raise(err) // this rank has not done the step, even if its requests are complete at the end
	}
	if err == nil && (s.iteration+1)%s.o.every == 0 {
		s.saved.send(s, b)
	}
	_, err = b.Finish(nil, s.o.timeout).Wait()
	if err != nil {
		s.o.note(EventReject)
	}
	return err
}

// tried begins the operations of an iteration, and waits for them. In a block, their errors are its faults.
type tried struct{ b *ft.Block }

// add notes a request.
func (t *tried) add(all *[]mpi.Request, q mpi.Request, err error) {
	*all = append(*all, q)
	if t.b != nil {
		_ = t.b.Add(q, err)
	} else if err != nil {
		_ = (*all)[len(*all)-1].RaiseError(err)
	}
}

// wait waits for requests.
func (t *tried) wait(all []mpi.Request, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for i := range all {
		if _, err := all[i].With(ctx).Wait(); err != nil {
			if t.b == nil {
				return err
			}
			return errGivenUp
		}
	}
	return nil
}

// step computes an iteration.
func (s *solver) step(t *tried) error {
	rr, err := s.product(t, func(p *part) float64 { return dot(p.r, p.r) })
	if err != nil {
		return err
	}
	beta := 0.0
	if s.iteration > 0 && s.rr > 0 {
		beta = rr / s.rr
	}
	for _, p := range s.parts {
		for i := range p.r {
			p.p[i] = p.r[i] + beta*p.p[i]
		}
	}
	if err := s.exchange(t); err != nil {
		return err
	}
	for _, p := range s.parts {
		p.a.multiply(p.ap, p.p)
	}
	pap, err := s.product(t, func(p *part) float64 { return dot(p.p[:len(p.ap)], p.ap) })
	if err != nil {
		return err
	}
	alpha := 0.0
	if pap > 0 { // otherwise the solution is found to the last bit
		alpha = rr / pap
	}
	for _, p := range s.parts {
		for i := range p.x {
			p.x[i] += alpha * p.p[i]
			p.r[i] -= alpha * p.ap[i]
		}
	}
	s.rr = rr
	return nil
}

// product adds the products of all boxes, in the order of boxes. Each rank has the products of its own, and zeros in place of others: adding these changes
// no bit.
func (s *solver) product(t *tried, of func(p *part) float64) (sum float64, err error) {
	mine, all := make([]float64, len(s.boxes)), make([]float64, len(s.boxes))
	for _, p := range s.parts {
		mine[p.number] = of(p)
	}
	var reqs []mpi.Request
	q, err := mpi.Iallreduce(s.c, all, mine, mpi.Sum)
	t.add(&reqs, q, err)
	if err := t.wait(reqs, s.o.timeout); err != nil {
		return 0, err
	}
	for _, x := range all {
		sum += x
	}
	return sum, nil
}

// exchange gets the values of p that other boxes have.
func (s *solver) exchange(t *tried) error {
	var reqs []mpi.Request
	me := s.c.Rank()
	for _, p := range s.parts {
		for i := range p.halo {
			n := &p.halo[i]
			if from := s.owner[n.number]; from != me {
				q, err := mpi.Irecv(s.c, p.p[n.at:n.at+n.gives.size()], from, s.tag(n.number, p.number))
				t.add(&reqs, q, err)
			}
		}
	}
	for _, p := range s.parts {
		for i := range p.halo {
			n := &p.halo[i]
			p.pack(n)
			if to := s.owner[n.number]; to != me {
				q, err := mpi.Isend(s.c, n.out, to, s.tag(p.number, n.number))
				t.add(&reqs, q, err)
			} else {
				s.deliver(p.number, n)
			}
		}
	}
	return t.wait(reqs, s.o.timeout)
}

// deliver gives the values for a neighbor to another box of this rank.
func (s *solver) deliver(from int, n *neighbor) {
	for _, p := range s.parts {
		for i := range p.halo {
			if to := &p.halo[i]; p.number == n.number && to.number == from {
				copy(p.p[to.at:], n.out)
			}
		}
	}
}

// tag returns the tag of messages from a box to another one.
func (s *solver) tag(from, to int) int { return from*len(s.boxes) + to }
