package coll

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// RoomError reports a destination of Collect that is smaller than all parts
// together. All members get the same one.
type RoomError struct {
	Member      int // the first one with the smallest destination
	Room, Total int // elements
}

// Error says how many elements there are, and room for how many.
func (e *RoomError) Error() string {
	return fmt.Sprintf("member %d has room for %d elements, all members together give %d", e.Member, e.Room, e.Total)
}

// part is what a member of Collect puts at the start of its slot. Small data follow.
type part struct {
	seq, check uint64 // as in record
	element    uint64 // bytes of an element
	src, bytes uint64 // where the data are in the member's segment, and how many bytes
	room       uint64 // bytes of the member's destination
}

const partBytes = int(unsafe.Sizeof(part{}))

// Collect puts the sources of all contributors one after the other, in the order of the
// group, into everybody's destination, which has room elements. Elements behind the
// last part stay as they are. N may differ from member to member.
//
// All members read in the slots how much each member has. So each one finds by itself where a part
// begins. Small parts are in the slots as well. Only if some part is not, there is a second
// step, after which sources may change.
func Collect[T any](ctx context.Context, t *Team, b Buffers, room int) error {
	size := uint64(bytesOf[T](1))
	refused, err := exchangeParts(ctx, t, b.Dst, part{element: size, src: b.Src, bytes: uint64(b.N) * size, room: uint64(room) * size})
	if err != nil {
		return err
	}
	return refused
}

// collecting is a Collect in its first step.
type collecting struct {
	t   *Team
	seq uint64
}

// exchangeParts is Collect by bytes. What all members refuse alike is not an error of the
// team.
func exchangeParts(ctx context.Context, t *Team, dst uint64, mine part) (refused, err error) {
	seq, err := t.beginCollective(1)
	if err != nil {
		return nil, err
	}
	defer t.endCollective(&err)
	c := collecting{t, seq}
	if err := c.writePart(ctx, mine); err != nil {
		return nil, err
	}
	before, large, refused := c.measureParts(mine.element)
	if refused != nil {
		return refused, nil
	}
	c.copyParts(dst, before)
	if !large {
		return nil, nil
	}
	t.state.Seq++ // on all members, as they have read the same parts
	return nil, t.meetLast(ctx, t.state.Seq)
}

// writePart puts this member's part into its slot, and returns when all members have. A part
// takes the slot as a whole, as a member that reads it cannot know its size before.
func (c collecting) writePart(ctx context.Context, mine part) error {
	t, seq := c.t, c.seq
	to, err := t.awaitPlace(ctx, seq, layout.SlotSize)
	if err != nil {
		return err
	}
	mine.seq, mine.check = seq, ^seq
	*(*part)(to) = mine
	if c.fitsInSlot(mine.bytes) {
		copy(view[byte](unsafe.Add(to, partBytes), int(mine.bytes)), elements[byte](t, t.me, mine.src, int(mine.bytes)))
	}
	return t.meet(ctx, seq)
}

// measureParts returns how many bytes go before this member's part, and whether some part is not in
// a slot.
func (c collecting) measureParts(element uint64) (before uint64, large bool, refused error) {
	var total uint64
	room, who := uint64(math.MaxUint64), 0
	for _, i := range c.t.contributors(c.seq) {
		p := c.partOf(i)
		if p.seq != c.seq || p.check != ^c.seq || p.element != element {
			return 0, false, &OtherError{Member: i}
		}
		if i == c.t.me {
			before = total
		}
		if p.room < room {
			room, who = p.room, i
		}
		total += p.bytes
		large = large || !c.fitsInSlot(p.bytes)
	}
	if room < total {
		refused = &RoomError{Member: who, Room: int(room / element), Total: int(total / element)}
	}
	return before, large, refused
}

// fitsInSlot says whether so many bytes follow the part in its slot.
func (c collecting) fitsInSlot(bytes uint64) bool { return bytes <= uint64(c.t.slotBytes-partBytes) }

// partOf returns where member i's part is.
func (c collecting) partOf(i int) *part {
	return (*part)(c.t.contributionOf(i, c.seq, layout.SlotSize))
}

// copyParts copies all parts to dst. It begins with this member's, before which so many bytes go:
// members do not all read the same source at once.
func (c collecting) copyParts(dst, before uint64) {
	t := c.t
	who := t.contributors(c.seq)
	mine, _ := slices.BinarySearch(who, t.me)
	for k := range who {
		if k += mine; k >= len(who) {
			k -= len(who)
		}
		if k == 0 {
			before = 0
		}
		i := who[k]
		p := c.partOf(i)
		from := unsafe.Add(unsafe.Pointer(p), partBytes)
		if !c.fitsInSlot(p.bytes) {
			from = t.address(i, p.src)
		}
		rma.MoveOut(elements[byte](t, t.me, dst+before, int(p.bytes)), from)
		before += p.bytes
	}
}
