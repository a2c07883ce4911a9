package ftco

import "slices"

// ring holds operations. Operation seq is at seq modulo the length, which is a power of two. The ring
// and its operations are made when they are first needed, and are then used again: after broadcasts
// in succession up to window operations are alive, and two or three otherwise.
type ring []*op

// find returns the operation seq, or nil. The ring is not empty: place has made room for some
// operation before.
func (r *ring) find(seq uint64) *op {
	if o := (*r)[seq&uint64(len(*r)-1)]; o != nil && o.seq == seq {
		return o
	}
	return nil
}

// place returns the operation seq, or room for it. An operation that is settled is of no more use, so
// its room is free. Two operations that are not settled are less than window apart, so the ring
// stays short.
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

// grow doubles the length. The operation at i goes to i or to i plus the former length, by its number,
// and no other operation goes to either.
func (r *ring) grow() {
	to := make(ring, max(1, 2*len(*r)))
	for i, o := range *r {
		if o != nil {
			to[i+int(o.seq&uint64(len(*r)))] = o
		}
	}
	*r = to
}

// clear drops all operations. Their room stays.
func (r *ring) clear() {
	for _, o := range *r {
		if o != nil {
			o.seq = 0
		}
	}
}

// clone returns a copy of the operations that are not settled.
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
			c.slots, c.acks = slices.Clone(o.slots), slices.Clone(o.acks) // a shared array would share its free room
			to[i] = c
		}
	}
	return to
}
