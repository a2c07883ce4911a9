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

// OtherError reports a member that was in another collective, or in the same one
// with another root, length, object, or size of elements.
type OtherError struct{ Member int }

// Error names the member.
func (e *OtherError) Error() string {
	return fmt.Sprintf("member %d called another collective, or with other arguments", e.Member)
}

// part is what a member of Collect puts at the start of its slot. Small data follow.
type part struct {
	seq, check uint64 // as in record
	element    uint64 // size in bytes
	src, bytes uint64 // where the data are in the member's segment, and how much
	room       uint64 // bytes of its destination
}

const partBytes = int(unsafe.Sizeof(part{}))

// Collect puts the sources of all contributors one after the other, in the order of the
// group, into everybody's destination, which has room elements; those behind the
// last part stay as they are. N may differ from member to member.
//
// All members read in the slots how much everybody has, so that each finds by itself
// where a part begins. Small parts are in the slots as well; only when somebody's is
// not, there is a second step, behind which sources may change.
func Collect[T any](ctx context.Context, t *Team, b Buffers, room int) error {
	size := uint64(bytesOf[T](1))
	refused, err := t.collect(ctx, b.Dst, part{element: size, src: b.Src, bytes: uint64(b.N) * size, room: uint64(room) * size})
	if err != nil {
		return err
	}
	return refused
}

// collect is Collect by bytes. What all members refuse alike is not an error of the
// team.
func (t *Team) collect(ctx context.Context, dst uint64, mine part) (refused, err error) {
	seq, err := t.begin(1)
	if err != nil {
		return nil, err
	}
	defer t.end(&err)
	if err := t.lay(ctx, seq, mine); err != nil {
		return nil, err
	}
	before, large, refused := t.survey(seq, mine.element)
	if refused != nil {
		return refused, nil
	}
	t.pick(dst, before, seq)
	if !large {
		return nil, nil
	}
	t.state.Seq++ // for all, who have read the same
	return nil, t.meetLast(ctx, t.state.Seq)
}

// lay puts this member's part into its slot and returns when everybody has. The part
// takes the slot as a whole: who reads it cannot know its size before.
func (t *Team) lay(ctx context.Context, seq uint64, mine part) error {
	to, err := t.take(ctx, seq, layout.SlotSize)
	if err != nil {
		return err
	}
	mine.seq, mine.check = seq, ^seq
	*(*part)(to) = mine
	if t.inline(mine.bytes) {
		copy(view[byte](unsafe.Add(to, partBytes), int(mine.bytes)), view[byte](t.at(t.me, mine.src), int(mine.bytes)))
	}
	return t.meet(ctx, seq)
}

// survey returns how many bytes go before this member's part, and whether any part
// is not in a slot.
func (t *Team) survey(seq, element uint64) (before uint64, large bool, refused error) {
	var total uint64
	room, who := uint64(math.MaxUint64), 0
	for _, i := range t.present(seq) {
		p := t.part(i, seq)
		if p.seq != seq || p.check != ^seq || p.element != element {
			return 0, false, &OtherError{Member: i}
		}
		if i == t.me {
			before = total
		}
		if p.room < room {
			room, who = p.room, i
		}
		total += p.bytes
		large = large || !t.inline(p.bytes)
	}
	if room < total {
		refused = &RoomError{Member: who, Room: int(room / element), Total: int(total / element)}
	}
	return before, large, refused
}

// inline says whether so many bytes follow the part in its slot.
func (t *Team) inline(bytes uint64) bool { return bytes <= uint64(t.small-partBytes) }

func (t *Team) part(i int, seq uint64) *part { return (*part)(t.slot(i, seq, layout.SlotSize)) }

// pick copies all parts to dst, from this member's on, which begins after so many
// bytes: not everybody reads the same source at once.
func (t *Team) pick(dst, before, seq uint64) {
	who := t.present(seq)
	mine, _ := slices.BinarySearch(who, t.me)
	for k := range who {
		if k += mine; k >= len(who) {
			k -= len(who)
		}
		if k == 0 {
			before = 0
		}
		i := who[k]
		p := t.part(i, seq)
		from := unsafe.Add(unsafe.Pointer(p), partBytes)
		if !t.inline(p.bytes) {
			from = t.at(i, p.src)
		}
		rma.MoveOut(view[byte](t.at(t.me, dst+before), int(p.bytes)), from)
		before += p.bytes
	}
}
