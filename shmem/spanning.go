package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The collectives on data of teams that span nodes, until the agents of nodes run them. Between two meetings, each PE
// reads what it needs from the other PEs. So a collective takes two round trips between nodes, and the time for all that
// a PE reads. Their results are those of the collectives of one node, folded in the same order.

// spanningCall is a collective on symmetric objects of a team that spans nodes.
type spanningCall struct {
	t    *Team
	op   string
	call uint64
	size int // bytes of an element
	root int // of collectives on values that have one
}

// spanning begins the description of a collective. call is one of the codes that PEs compare.
func (t *Team) spanning(op string, call int, size uint64) spanningCall {
	return spanningCall{t: t, op: op, call: uint64(call), size: int(size)}
}

// between compares what the members called, has body read their sources, and meets the others again: sources may change
// after that.
func (s spanningCall) between(w coll.Words, body func() error) error {
	w[3] = s.call | uint64(s.size)<<callBits
	differs, first, _, err := s.t.same(w)
	if err == nil {
		err = mismatch(w, first, differs)
	}
	if err != nil {
		return s.t.publicError(s.op, err)
	}
	return conclude(s.t, s.op, body()) // also after an error of body: the others wait for this PE
}

// read copies n bytes from an offset of a member's segment.
func (s spanningCall) read(member int, off uint64, dst unsafe.Pointer, n int) error {
	h, pe := s.t.h, s.t.group.pe(member)
	if local, near := h.job.Place.Local(pe); near {
		rma.CopyElements(dst, unsafe.Add(h.job.Map.Segment(local), int(off)), 1, n)
		return nil
	}
	return h.farError(s.op, h.far.Get(s.t.ctx, nil, pe, off, dst, n))
}

// here returns the address of an offset in this PE's segment.
func (s spanningCall) here(off uint64) unsafe.Pointer {
	return unsafe.Add(s.t.h.job.Map.Segment(s.t.h.job.Local), int(off))
}

// broadcast copies n elements of the root's source to all destinations.
func (s spanningCall) broadcast(dst, src uint64, n, root int) error {
	err := s.between(coll.Words{uint64(n), src, uint64(root)}, func() error {
		if n == 0 || s.t.me == root && dst == src {
			return nil
		}
		return s.read(root, src, s.here(dst), n*s.size)
	})
	if err == nil {
		s.t.group.root.Store(int32(root) + 1)
	}
	return err
}

// fcollect copies n elements of each member to the destinations.
func (s spanningCall) fcollect(dst, src uint64, n int) error {
	return s.between(coll.Words{uint64(n), src, dst}, func() error {
		for i := range s.t.NPEs() {
			if err := s.read(i, src, s.here(dst+uint64(i*n*s.size)), n*s.size); err != nil {
				return err
			}
		}
		return nil
	})
}

// collect copies the elements of each member, which may give any number, to the destinations.
func (s spanningCall) collect(dst, src uint64, n, room int) error {
	type source struct{ off, n, room uint64 }
	all := make([]source, s.t.NPEs())
	mine := source{src, uint64(n), uint64(room)}
	err := s.gather(unsafe.Slice((*byte)(unsafe.Pointer(&mine)), unsafe.Sizeof(mine)), allBelow(len(all)), func(i int, data []byte) {
		all[i] = *(*source)(unsafe.Pointer(&data[0]))
	})
	if err != nil {
		return err
	}
	total := uint64(0)
	for i := range all {
		total += all[i].n
	}
	for i := range all {
		if all[i].room < total {
			return roomError(s.op, i, int(all[i].room), int(total))
		}
	}
	return s.between(coll.Words{total}, func() error {
		at := dst
		for i := range all {
			bytes := all[i].n * uint64(s.size)
			if err := s.read(i, all[i].off, s.here(at), int(bytes)); err != nil {
				return err
			}
			at += bytes
		}
		return nil
	})
}

// alltoall copies each member's block for this one to the destination.
func (s spanningCall) alltoall(dst, src uint64, stride Stride) error {
	return s.between(coll.Words{uint64(stride.N), src, uint64(stride.Dst)<<32 ^ uint64(stride.Src)}, func() error {
		for i := range s.t.NPEs() {
			from := src + uint64(s.t.me*stride.N*stride.Src*s.size)
			if err := s.readStrided(i, from, s.here(dst+uint64(i*stride.N*stride.Dst*s.size)), stride); err != nil {
				return err
			}
		}
		return nil
	})
}

// readStrided copies stride.N elements from an offset of a member's segment.
func (s spanningCall) readStrided(member int, off uint64, dst unsafe.Pointer, stride Stride) error {
	h, pe := s.t.h, s.t.group.pe(member)
	if stride.N == 0 {
		return nil
	}
	if local, near := h.job.Place.Local(pe); near {
		from := unsafe.Add(h.job.Map.Segment(local), int(off))
		rma.CopyStrided(dst, from, uintptr(s.size), stride.Dst, stride.Src, 1, stride.N)
		return nil
	}
	return h.farError(s.op, h.far.GetStrided(s.t.ctx, nil, pe, off, dst, uintptr(s.size), stride.Dst, stride.Src, 1, stride.N))
}

// gather passes what each of some members gives to take.
func (s spanningCall) gather(mine []byte, from []int, take func(member int, data []byte)) error {
	w := coll.Words{uint64(len(mine)), uint64(s.root), 0, s.call | uint64(s.size)<<callBits}
	differs, first, err := s.t.upper.Gather(s.t.ctx, w, mine, from, take)
	if err == nil {
		err = mismatch(w, first, differs)
	}
	if err == nil {
		s.t.group.root.Store(0)
	}
	return s.t.publicError(s.op, err)
}

// gatherValue passes the bytes of a value of each of some members to take, in parts of the same lengths for all.
func (s spanningCall) gatherValue(mine []byte, from []int, take func(member, at int, data []byte)) error {
	for at := 0; at < len(mine); at += layout.UpperValue {
		part := mine[at:min(at+layout.UpperValue, len(mine))]
		if err := s.gather(part, from, func(i int, data []byte) { take(i, at, data) }); err != nil {
			return err
		}
	}
	return nil
}

// allBelow returns the numbers below n.
func allBelow(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// foldBytes bounds the memory that a reduction takes for the elements of all members.
const foldBytes = 4 << 20

// foldSpanning combines the elements of the first members of the team in dst, by pieces. It calls the operator when all
// have read the piece: if the operator panics, the members are between two meetings. Without members, elements become
// zeros.
func foldSpanning[T any](s spanningCall, dst, src Sym[T], op Op[T], members int) error {
	most := max(1, foldBytes/s.size/s.t.NPEs())
	for lo := 0; lo == 0 || lo < src.n; lo += most {
		n := min(most, src.n-lo)
		all := make([]T, n*max(members, 1))
		err := s.between(coll.Words{uint64(src.n), src.off, dst.off}, func() error {
			for i := 0; i < members && n > 0; i++ {
				if err := s.read(i, src.off+uint64(lo*s.size), unsafe.Pointer(&all[i*n]), n*s.size); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		for i := 1; i < members; i++ {
			op(all[:n], all[i*n:(i+1)*n])
		}
		rma.CopyElements(s.here(dst.off+uint64(lo*s.size)), unsafe.Pointer(&all[0]), uintptr(s.size), n)
	}
	return nil
}

// reduceSpanning is ReduceValue.
func reduceSpanning[T any](t *Team, v T, op Op[T]) (T, error) {
	const name = "ReduceValue"
	all := make([]T, t.NPEs())
	err := t.spanning(name, callReduceValue, sizeOf[T]()).gatherValue(bytesOf(&v), allBelow(len(all)), func(i, at int, data []byte) {
		copy(bytesOf(&all[i])[at:], data)
	})
	if err != nil {
		var none T
		return none, err
	}
	for i := 1; i < len(all); i++ {
		op(all[:1], all[i:i+1])
	}
	return all[0], nil
}

// broadcastSpanning is BroadcastValue.
func broadcastSpanning[T any](t *Team, v T, root int) (T, error) {
	got := v
	s := t.spanning("BroadcastValue", callBroadcastValue, sizeOf[T]())
	s.root = root
	if err := s.gatherValue(bytesOf(&v), []int{root}, func(_, at int, data []byte) { copy(bytesOf(&got)[at:], data) }); err != nil {
		var none T
		return none, err
	}
	t.group.root.Store(int32(root) + 1)
	return got, nil
}

// bytesOf returns the bytes of a value.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), sizeOf[T]())
}
