package shmem

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/rma"
)

// # Collectives on data of teams that span nodes
//
// Values travel with a step: each member gives its own, and the result of the step has them all (spanning.Team.Gather).
//
// Of data on the symmetric heap, a step says who takes part. Then each member reads what it needs from the others. A
// further step says that all have done so; sources may change after that. Collectives of large data have more steps
// (spanning_large.go). The results are those of the collectives of one node, folded in the same order.
//
// On a tolerant team, a member may not be able to read what a dead one has given: the memory of a dead node is gone. It says so in the
// next step, and then all survivors begin again, without those that are dead by that step. So all use the data of the same
// members. For that, sources are at every beginning what they were at first. Either results lie aside until the last step, or
// what they overwrite does: that is written back before another attempt. A reduction into another object than its source
// needs neither, as it makes all of its destination again.

// spanningCall is a collective on symmetric objects of a team that spans nodes.
type spanningCall struct {
	t    *Team
	op   string
	call uint64
	size int // bytes of an element
	root int // of collectives that have one; otherwise -1
}

// spanning begins the description of a collective. call is one of the codes that PEs compare.
func (t *Team) spanning(op string, call int, size uint64) spanningCall {
	return spanningCall{t: t, op: op, call: uint64(call), size: int(size), root: -1}
}

// contributors are the members whose data a collective is made of.
type contributors struct {
	n      int
	failed []int // those that are missing, ascending
}

// has reports whether a member contributes.
func (c contributors) has(member int) bool {
	_, is := slices.BinarySearch(c.failed, member)
	return !is
}

// lowest returns the lowest contributor.
func (c contributors) lowest() int {
	for i := range c.n {
		if c.has(i) {
			return i
		}
	}
	return 0
}

// members returns the contributors, ascending.
func (c contributors) members() []int {
	return slices.DeleteFunc(allBelow(c.n), func(i int) bool { return !c.has(i) })
}

// course says how a collective is made when it is clear whose data it is made of.
type course struct {
	// first, if it is not nil, and then steps are what this member does. After each of them all members meet. What a member has
	// written in one of them, others may read in the next one. The caller of run may keep first on its stack, with the
	// operator in it: so a call with an operator of the program allocates nothing on teams of one node.
	first func(in contributors) error
	steps []func(in contributors) error
	// restore gives this member's memory back what an attempt has overwritten; nil: nothing is lost by another attempt.
	restore func()
	// confirms says that others read in another attempt what restore writes. So all meet between.
	confirms bool
}

// between compares what the members called, has body read the sources of those that contribute, and meets the others again.
// Sources may change after that. body may be called several times, until the contributors are clear.
func (s spanningCall) between(w coll.Words, body func(in contributors) error) error {
	return s.run(w, course{first: body})
}

// run compares what the members called, and makes the collective, if necessary several times.
func (s spanningCall) run(w coll.Words, c course) error {
	w[3] = s.call | uint64(s.size)<<callBits
	d, err := s.t.upper.Same(s.t.ctx, w)
	if err == nil {
		s.t.group.note(s.root, d.Failed)
		err = mismatch(&d)
	}
	if err != nil {
		return s.t.publicError(s.op, err)
	}
	for in := (contributors{s.t.NPEs(), d.Failed}); ; {
		if s.root >= 0 && !in.has(s.root) {
			s.t.group.note(s.root, in.failed)
			return s.t.publicError(s.op, &coll.DeadError{Members: []int{s.root}})
		}
		again, failed, err := s.attempt(&c, in)
		if (again || err != nil) && c.restore != nil {
			c.restore()
		}
		if again && c.confirms { // only those that are in this step are read from now on, and all of them have restored
			if failed, err = concludeSpanning(s.t, nil); err != nil {
				return s.t.publicError(s.op, err)
			}
		}
		if !again {
			s.t.group.note(s.root, in.failed)
			return err
		}
		in.failed = failed
	}
}

// attempt is one try of run. If a step panics, the other members get an error. It is to be made again if a member could not do its part
// because of a death, and if a contributor is missing in a meeting that a further step relies on.
func (s spanningCall) attempt(c *course, in contributors) (again bool, failed []int, err error) {
	returned := false
	defer func() {
		if !returned {
			_, _ = concludeSpanning(s.t, coll.ErrBroken)
		}
	}()
	k := 0
	if c.first != nil {
		k = -1
	}
	for ; k < len(c.steps); k++ {
		returned = false
		if k < 0 {
			err = c.first(in)
		} else {
			err = c.steps[k](in)
		}
		returned = true
		if s.t.h.finalized() {
			return false, nil, err
		}
		var met error
		failed, met = concludeSpanning(s.t, s.t.membersError(err)) // also after an error of step: the others wait for this PE
		if errors.Is(met, spanning.ErrAgain) {
			return true, failed, nil
		}
		if err = errorOfBoth(err, s.t.publicError(s.op, met)); err != nil {
			return false, nil, err
		}
		if k < len(c.steps)-1 && slices.ContainsFunc(failed, in.has) {
			return true, failed, nil
		}
	}
	return false, nil, nil
}

// aside returns memory for n bytes of results, if they have to lie aside until all have read the sources; otherwise nil.
func (s spanningCall) aside(needed bool, n int) []byte {
	if !needed || n == 0 {
		return nil
	}
	return make([]byte, n)
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

// blocks is what a collective makes of one block of each contributor.
type blocks struct {
	s      spanningCall
	dst    uint64
	bytes  func(in contributors) int      // of the destination that blocks may be in
	places func(in contributors) [][2]int // of each member: where its block is in the destination, and how long it is
}

// gather has read fill the block of each contributor, and writes the destination when all members have done so. On a strict
// team, blocks are read into the destination.
func (b blocks) gather(w coll.Words, read func(member int, to unsafe.Pointer) error) error {
	var aside []byte
	var last contributors
	err := b.s.between(w, func(in contributors) error {
		last = in
		to := b.s.here(b.dst)
		if aside = b.s.aside(b.s.t.upper.Tolerant(), b.bytes(in)); aside != nil {
			to = unsafe.Pointer(&aside[0])
		}
		for i, p := range b.places(in) {
			if !in.has(i) || p[1] == 0 {
				continue
			}
			if err := read(i, unsafe.Add(to, p[0])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || aside == nil {
		return err
	}
	for i, p := range b.places(last) {
		if last.has(i) && p[1] > 0 {
			rma.CopyElements(b.s.here(b.dst+uint64(p[0])), unsafe.Pointer(&aside[p[0]]), 1, p[1])
		}
	}
	return nil
}

// equalPlaces returns the places of blocks of n bytes.
func (s spanningCall) equalPlaces(n int) func(contributors) [][2]int {
	return func(in contributors) [][2]int {
		all := make([][2]int, in.n)
		for i := range all {
			all[i] = [2]int{i * n, n}
		}
		return all
	}
}

// alltoall copies each member's block for this one to the destination.
func (s spanningCall) alltoall(dst, src uint64, stride Stride) error {
	if stride.Dst == 1 || !s.t.upper.Tolerant() {
		step := stride.N * stride.Dst * s.size
		b := blocks{s, dst, func(in contributors) int { return in.n * step }, s.equalPlaces(step)}
		return b.gather(s.alltoallWords(src, stride), func(i int, to unsafe.Pointer) error { return s.readBlock(i, src, to, stride) })
	}
	// What lies between the elements stays as it is, so the blocks are made without it.
	aside, bytes := []byte(nil), stride.N*s.size
	var last contributors
	err := s.between(s.alltoallWords(src, stride), func(in contributors) error {
		last, aside = in, s.aside(true, in.n*bytes)
		for i := range in.n {
			if !in.has(i) || bytes == 0 {
				continue
			}
			if err := s.readBlock(i, src, unsafe.Pointer(&aside[i*bytes]), Stride{Dst: 1, Src: stride.Src, N: stride.N}); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range last.n {
		if err == nil && last.has(i) && bytes > 0 {
			to := s.here(dst + uint64(i*stride.N*stride.Dst*s.size))
			rma.CopyStrided(to, unsafe.Pointer(&aside[i*bytes]), uintptr(s.size), stride.Dst, 1, 1, stride.N)
		}
	}
	return err
}

// alltoallWords is what members compare.
func (s spanningCall) alltoallWords(src uint64, stride Stride) coll.Words {
	return coll.Words{uint64(stride.N), src, uint64(stride.Dst)<<32 ^ uint64(stride.Src)}
}

// readBlock copies a member's block for this one.
func (s spanningCall) readBlock(member int, src uint64, dst unsafe.Pointer, stride Stride) error {
	h, pe := s.t.h, s.t.group.pe(member)
	if stride.N == 0 {
		return nil
	}
	off := src + uint64(s.t.me*stride.N*stride.Src*s.size)
	if local, near := h.job.Place.Local(pe); near {
		from := unsafe.Add(h.job.Map.Segment(local), int(off))
		rma.CopyStrided(dst, from, uintptr(s.size), stride.Dst, stride.Src, 1, stride.N)
		return nil
	}
	return h.farError(s.op, h.far.GetStrided(s.t.ctx, nil, pe, off, dst, uintptr(s.size), stride.Dst, stride.Src, 1, stride.N))
}

// gatherValues passes the bytes of a value of each member that lives to take, in parts of the same lengths for all. With a root, only
// that one gives any. All parts are of the same members: if one dies between two parts, take gets all of them again.
func (s spanningCall) gatherValues(mine []byte, take func(member, at int, data []byte)) error {
	givers := s.t.NPEs()
	if s.root >= 0 {
		givers = 1
	}
	most, size := spanning.MostGathered(givers), len(mine)
	w := coll.Words{uint64(size), uint64(s.root), 0, s.call | uint64(s.size)<<callBits}
	var failed []int
	for at := 0; at < size; {
		var part []byte
		if s.root < 0 || s.root == s.t.me {
			part = mine[at:min(at+most, size)]
		}
		d, err := s.t.upper.Gather(s.t.ctx, w, givers, part, func(i int, data []byte) { take(i, at, data) })
		if err == nil {
			err = mismatch(&d)
		}
		if err == nil && s.root >= 0 && !(contributors{s.t.NPEs(), d.Failed}).has(s.root) {
			s.t.group.note(s.root, d.Failed)
			err = &coll.DeadError{Members: []int{s.root}}
		}
		if err != nil {
			return s.t.publicError(s.op, err)
		}
		if at > 0 && s.root < 0 && !slices.Equal(failed, d.Failed) {
			failed, at = d.Failed, 0
			continue
		}
		failed = d.Failed
		at += most
	}
	s.t.group.note(s.root, failed)
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

// foldSpanning combines the elements of the contributors below a member in dst, by pieces. Without contributors, elements become zeros.
func foldSpanning[T any](s spanningCall, dst, src Sym[T], op Op[T], below int) error {
	var aside []T
	if dst.off == src.off {
		aside = make([]T, src.n)
	}
	err := s.between(coll.Words{uint64(src.n), src.off, dst.off}, func(in contributors) error {
		most := max(1, foldBytes/s.size/in.n)
		all := make([]T, min(most, src.n)*max(1, below))
		for lo := 0; lo < src.n; lo += most {
			n := min(most, src.n-lo)
			got := 0
			for i := range below {
				if !in.has(i) {
					continue
				}
				if err := s.read(i, src.off+uint64(lo*s.size), unsafe.Pointer(&all[got*n]), n*s.size); err != nil {
					return err
				}
				got++
			}
			if got == 0 {
				clear(all[:n])
			}
			for i := 1; i < got; i++ {
				op(all[:n], all[i*n:(i+1)*n])
			}
			to := s.here(dst.off + uint64(lo*s.size))
			if aside != nil {
				to = unsafe.Pointer(&aside[lo])
			}
			rma.CopyElements(to, unsafe.Pointer(&all[0]), uintptr(s.size), n)
		}
		return nil
	})
	if err == nil && len(aside) > 0 {
		rma.CopyElements(s.here(dst.off), unsafe.Pointer(&aside[0]), uintptr(s.size), len(aside))
	}
	return err
}

// reduceSpanning is ReduceValue.
func reduceSpanning[T any](t *Team, v T, op Op[T]) (T, error) {
	s := t.spanning("ReduceValue", callReduceValue, sizeOf[T]())
	if f, ok := foldingOf(op); ok {
		return reduceElement(s, v, f)
	}
	all := make([]T, t.NPEs())
	err := s.gatherValues(bytesOf(&v), func(i, at int, data []byte) {
		copy(bytesOf(&all[i])[at:], data)
	})
	if err != nil {
		var none T
		return none, err
	}
	in := contributors{len(all), t.group.outcome.Load().failed}
	sum := in.lowest()
	for i := sum + 1; i < len(all); i++ {
		if in.has(i) {
			op(all[sum:sum+1], all[i:i+1])
		}
	}
	return all[sum], nil
}

// broadcastSpanning is BroadcastValue.
func broadcastSpanning[T any](t *Team, v T, root int) (T, error) {
	got := v
	s := t.spanning("BroadcastValue", callBroadcastValue, sizeOf[T]())
	s.root = root
	if err := s.gatherValues(bytesOf(&v), func(_, at int, data []byte) { copy(bytesOf(&got)[at:], data) }); err != nil {
		var none T
		return none, err
	}
	return got, nil
}

// bytesOf returns the bytes of a value.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), sizeOf[T]())
}
