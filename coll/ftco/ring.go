package ftco

import "slices"

// ring holds operations by their number, modulo its length, a power of two. It
// and they are made when first needed and then kept: up to window of them are alive
// after broadcasts in succession, and two or three otherwise.
type ring []*op

// find is the operation seq, or nil. There is room: something has begun.
func (r *ring) find(seq uint64) *op {
	if o := (*r)[seq&uint64(len(*r)-1)]; o != nil && o.seq == seq {
		return o
	}
	return nil
}

// place is where the operation seq is or may be: what is there is of no more use,
// because it is settled. All that are not are less than window from each other.
func (r *ring) place(seq, settled uint64) *op {
	for {
		if len(*r) > 0 {
			p := &(*r)[seq&uint64(len(*r)-1)]
			if *p == nil {
				*p = new(op)
			}
			if o := *p; o.seq == seq || o.seq <= settled {
				return o
			}
		}
		r.grow()
	}
}

// grow makes the ring twice as long. What was at i goes there or to as far from the
// former end, and nothing else does.
func (r *ring) grow() {
	to := make(ring, max(1, 2*len(*r)))
	for i, o := range *r {
		if o != nil {
			to[i+int(o.seq&uint64(len(*r)))] = o
		}
	}
	*r = to
}

// clear forgets all operations.
func (r *ring) clear() {
	for _, o := range *r {
		if o != nil {
			o.seq = 0
		}
	}
}

// clone is a copy of those that are not settled.
func (r *ring) clone(settled uint64) ring {
	live := 0
	for _, o := range *r {
		if o != nil && o.seq > settled {
			live++
		}
	}
	to, ops := make(ring, len(*r)), make([]op, 0, live)
	for i, o := range *r {
		if o != nil && o.seq > settled {
			ops = append(ops, *o)
			c := &ops[len(ops)-1]
			c.slots, c.acks = slices.Clone(o.slots), slices.Clone(o.acks) // room that is free is not shared either
			to[i] = c
		}
	}
	return to
}
