package graph500

import "github.com/goshmem/goshmem/shmem"

const (
	inboxEntries = 1 << 16 // entries of one inbox buffer, split among the senders
	minSlot      = 512     // least entries of one sender
	headStride   = 8       // words between the heads of two senders: a cache line
)

// exchange sends words to their owners in rounds of bounded size. Each PE has an inbox of two buffers with a
// slot for every sender; senders store into the slots in place. One barrier a round suffices: while a PE
// drains one buffer its peers fill the other, and they come back to the first only after the next barrier.
type exchange[T uint32 | uint64] struct {
	g     *group
	slot  int // entries of a slot
	inbox shmem.Sym[T]
	heads shmem.Sym[uint64]
	boxes [][]T      // inbox of every PE: [buffer][sender][slot]
	marks [][]uint64 // heads of every PE: [buffer][sender][headStride], count<<1 | sender is done
	out   outbox[T]
}

// outbox is where a PE writes during one round: its slot at each peer, and the number of entries in it.
type outbox[T uint32 | uint64] struct {
	slots [][]T
	used  []int
}

// slotEntries returns the entries of a slot.
func slotEntries(pes int) int { return max(inboxEntries/pes, minSlot) }

// newExchange allocates an exchange. Collective.
func newExchange[T uint32 | uint64](g *group) (*exchange[T], error) {
	x := &exchange[T]{g: g, slot: slotEntries(g.pes)}
	var err error
	if x.inbox, x.boxes, err = allocSymmetric[T](g, "inboxes", 2*g.pes*x.slot); err != nil {
		return nil, err
	}
	if x.heads, x.marks, err = allocSymmetric[uint64](g, "inbox heads", 2*g.pes*headStride); err != nil {
		return nil, err
	}
	x.out.slots = make([][]T, g.pes)
	x.out.used = make([]int, g.pes)
	return x, nil
}

// free frees its memory. Collective.
func (x *exchange[T]) free() error {
	if err := release(x.g, "inbox heads", x.heads); err != nil {
		return err
	}
	return release(x.g, "inboxes", x.inbox)
}

// room returns how many entries can still be sent, whatever their destinations are.
func (o *outbox[T]) room() int {
	room := len(o.slots[0])
	for pe, n := range o.used {
		room = min(room, len(o.slots[pe])-n)
	}
	return room
}

// put sends one entry. The caller has checked room.
func (o *outbox[T]) put(pe uint32, entry T) {
	n := o.used[pe]
	o.slots[pe][n] = entry
	o.used[pe] = n + 1
}

// run alternates fill and drain until no PE has anything more to send. fill sends what fits and reports whether
// that was the last. drain gets what one sender has sent to this PE.
func (x *exchange[T]) run(phase string, fill func(*outbox[T]) bool, drain func([]T)) error {
	for buffer := 0; ; buffer ^= 1 {
		x.open(buffer)
		x.publish(buffer, fill(&x.out))
		if err := x.g.barrier(phase); err != nil {
			return err
		}
		allDone := true
		for i := range x.g.pes {
			from := (x.g.me + i) % x.g.pes
			place := buffer*x.g.pes + from
			mark := x.marks[x.g.me][place*headStride]
			drain(x.boxes[x.g.me][place*x.slot:][:mark>>1])
			allDone = allDone && mark&1 != 0
		}
		if allDone {
			return nil
		}
	}
}

// open points the outbox at this PE's slots in one buffer of every inbox.
func (x *exchange[T]) open(buffer int) {
	at := (buffer*x.g.pes + x.g.me) * x.slot
	for pe := range x.out.slots {
		x.out.slots[pe] = x.boxes[pe][at : at+x.slot : at+x.slot]
		x.out.used[pe] = 0
	}
}

// publish writes the counts beside the slots. The barrier after it makes both visible.
func (x *exchange[T]) publish(buffer int, done bool) {
	at := (buffer*x.g.pes + x.g.me) * headStride
	for pe, n := range x.out.used {
		mark := uint64(n) << 1
		if done {
			mark |= 1
		}
		x.marks[pe][at] = mark
	}
}

// inBlocks returns a fill for run that walks through the tuples. Each call sends blocks that are sure to fit
// (two entries a tuple) until the outbox is nearly full, and reports whether all tuples are sent.
func inBlocks[T uint32 | uint64](tuples []tuple, send func(*outbox[T], []tuple)) func(*outbox[T]) bool {
	return func(out *outbox[T]) bool {
		for len(tuples) > 0 {
			room := out.room()
			if room < minSlot/4 {
				return false
			}
			n := min(room/2, len(tuples))
			send(out, tuples[:n])
			tuples = tuples[n:]
		}
		return true
	}
}
