package far

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// window is the number of requests that a long get has under way, if it can have slots and pieces for them. A single node can
// have half of the pieces.
const window = layout.WirePieces / 2

// Get copies n bytes from offset off of the PE's segment to dst.
//
//   - Order: behind all earlier operations of this PE on that node.
//   - Errors: as Pending.Wait. After an error, data that are under way may still come into a dst in the heap.
func (p *Port) Get(ctx context.Context, t *Touched, pe layout.PE, off uint64, dst unsafe.Pointer, n int) error {
	if n <= 0 {
		return nil
	}
	x := transfer{p: p, t: t, to: p.target(pe), off: off, unit: 1, total: n}
	if p.express != nil && n <= express.MaxData {
		if done, err := p.express.get(ctx, x.to, off, dst, n); err != nil {
			return fmt.Errorf("get of %d bytes at offset %d of PE %d: %w", n, off, pe, err)
		} else if done {
			return nil
		}
	}
	x.heap, x.direct = p.segment.heapOffset(dst, n)
	x.most, x.piece = record.MaxGet, !x.direct && n > layout.WireRoom
	if _, err := x.run(ctx, dst, 0); err != nil {
		return fmt.Errorf("get of %d bytes at offset %d of PE %d: %w", n, off, pe, err)
	}
	return nil
}

// GetStrided copies n blocks of block elements of elem bytes from offset off of the PE's segment to dst. Blocks begin
// srcStride elements apart there, and dstStride elements apart in dst. Arguments are as in PutStrided, the rest as in Get.
func (p *Port) GetStrided(ctx context.Context, t *Touched, pe layout.PE, off uint64, dst unsafe.Pointer, elem uintptr, dstStride, srcStride, block, n int) error {
	size := block * int(elem)
	if size <= 0 || n <= 0 {
		return nil
	}
	if n == 1 || dstStride == block && srcStride == block {
		return p.Get(ctx, t, pe, off, dst, n*size)
	}
	step := uint64(srcStride) * uint64(elem)
	if size > record.MaxGetStrided {
		for i := range n {
			if err := p.Get(ctx, t, pe, off+uint64(i)*step, unsafe.Add(dst, i*dstStride*int(elem)), size); err != nil {
				return err
			}
		}
		return nil
	}
	x := transfer{
		p: p, t: t, to: p.target(pe), off: off, unit: size, total: n, strided: true,
		elem: elem, step: step, dstStride: dstStride, block: block,
	}
	x.heap, x.direct = p.segment.heapOffset(dst, n*size)
	x.direct = x.direct && dstStride == block
	x.most, x.piece = record.MaxGetStrided/size, !x.direct && n*size > layout.WireRoom
	for at := 0; ; at++ {
		var err error
		if at, err = x.run(ctx, dst, at); err != nil {
			return fmt.Errorf("strided get of %d blocks of %d bytes at offset %d of PE %d: %w", n, size, off, pe, err)
		}
		if at == n {
			return nil
		}
		if err := p.Get(ctx, t, pe, off+uint64(at)*step, unsafe.Add(dst, at*dstStride*int(elem)), size); err != nil { // through rooms
			return err
		}
	}
}

// Fetch performs an atomic operation on the word of width bytes (4 or 8) at offset off of the PE's segment, and returns
// what the word held before.
//
//   - Order, errors: as Get. After an error of ctx, the operation may still take place.
func (p *Port) Fetch(ctx context.Context, t *Touched, pe layout.PE, off uint64, code record.AtomicCode, width int, operand, cond uint64) (old uint64, err error) {
	to, op, number := p.target(pe), record.CodeOf(code, width), uint64(0)
	if p.express != nil {
		var done bool
		if old, number, done, err = p.express.fetch(ctx, t, to, off, op, operand, cond); err != nil {
			return 0, fmt.Errorf("fetch at offset %d of PE %d: %w", off, pe, err)
		} else if done {
			return old, nil
		}
	}
	k, err := p.claim(ctx, to, false)
	if err == nil {
		var s *stream
		var body []byte
		if s, body, err = p.begin(ctx, to, record.SizeFetchOnce); err == nil {
			*p.begun++
			p.slots[k].number, p.slots[k].sent = s.next, true
			if number > 0 {
				body = record.AppendFetchOnce(body, to.local, off, op, operand, cond, number, uint64(k))
			} else {
				body = record.AppendAtomicFetch(body, to.local, off, op, operand, cond, uint64(k))
			}
			p.end(s, t, body)
			err = p.awaitAnswer(ctx, k, to)
			old = p.wire.Slots[k].Value
		}
		p.leave(k)
	}
	if err != nil {
		return 0, fmt.Errorf("fetch at offset %d of PE %d: %w", off, pe, err)
	}
	return old, nil
}

// transfer is a get. It has up to window requests under way, and takes their answers in order. Its units are bytes,
// or blocks if it is strided.
type transfer struct {
	p      *Port
	t      *Touched
	to     target
	off    uint64 // at the target
	heap   uint64 // offset of the destination in the segment, if direct
	unit   int    // bytes of a unit
	total  int    // units in all
	direct bool   // the agent writes the data to the destination
	most   int    // units in a request, if direct
	piece  bool   // requests want pieces

	strided   bool // the rest is for strided gets
	elem      uintptr
	step      uint64 // bytes between blocks at the target
	dstStride int    // elements
	block     int    // elements
}

// fits returns how many units a request with slot k can have: 0 if one is too long for the room, because other nodes have
// all pieces.
func (x *transfer) fits(k int) int {
	if x.direct {
		return x.most
	}
	return x.p.slots[k].roomSize() / x.unit
}

// part is a request under way: units at to at+n-1.
type part struct{ slot, at, n int }

// run makes the requests for the units from at on, and takes all answers. It returns the first unit that it has not got, which is
// too long for a room while there is no piece for it. dst is where the data goes. It is no field of x: other fields
// escape, and the destinations of a program's gets would escape with them.
func (x *transfer) run(ctx context.Context, dst unsafe.Pointer, at int) (next int, err error) {
	var parts [window]part
	first, count := 0, 0
	for at < x.total || count > 0 {
		for at < x.total && count < window {
			k, ok, err := x.claim(ctx, count)
			if err != nil {
				return at, fmt.Errorf("wait for a slot: %w", err)
			}
			if !ok {
				break
			}
			n := min(x.fits(k), x.total-at)
			if n == 0 {
				x.p.leave(k)
				break
			}
			if err := x.request(ctx, k, at, n); err != nil {
				x.p.leave(k)
				return at, x.abandon(parts[:], first, count, err)
			}
			parts[(first+count)%window] = part{k, at, n}
			count++
			at += n
		}
		if count == 0 {
			return at, nil
		}
		oldest := parts[first]
		if err := x.p.awaitAnswer(ctx, oldest.slot, x.to); err != nil {
			return at, x.abandon(parts[:], first, count, err)
		}
		x.copyOut(oldest, dst)
		x.p.leave(oldest.slot)
		first, count = (first+1)%window, count-1
	}
	return at, nil
}

// claim gives the transfer a slot. It waits for the first one only: with count parts under way, the transfer takes their
// answers instead.
func (x *transfer) claim(ctx context.Context, count int) (k int, ok bool, err error) {
	if count > 0 {
		k, ok = x.p.claimMore(x.to, x.piece)
		return k, ok, nil
	}
	k, err = x.p.claim(ctx, x.to, x.piece)
	return k, err == nil, err
}

// abandon gives up the parts under way. Their slots stay reserved until the answers are there.
func (x *transfer) abandon(parts []part, first, count int, err error) error {
	for i := range count {
		x.p.leave(parts[(first+i)%window].slot)
	}
	return err
}

// request makes the request for n units from unit at on, with slot k.
func (x *transfer) request(ctx context.Context, k, at, n int) error {
	p, to := x.p, x.heap+uint64(at*x.unit)
	if !x.direct {
		_, to = p.room(k)
	}
	size := record.SizeGet
	if x.strided {
		size = record.SizeGetStrided
	}
	s, body, err := p.begin(ctx, x.to, size)
	if err != nil {
		return err
	}
	if at == 0 {
		*p.begun++
	}
	p.slots[k].number, p.slots[k].sent = s.next, true
	if x.strided {
		shape := record.Shape{Step: x.step, Block: uint64(x.unit), N: uint64(n)}
		body = record.AppendGetStrided(body, x.to.local, x.off+uint64(at)*x.step, shape, to, uint64(k))
	} else {
		body = record.AppendGet(body, x.to.local, x.off+uint64(at), n, to, uint64(k))
	}
	p.end(s, x.t, body)
	return nil
}

// copyOut copies the data of a part to where it belongs in dst.
func (x *transfer) copyOut(got part, dst unsafe.Pointer) {
	if x.direct {
		return
	}
	at, _ := x.p.room(got.slot)
	if x.strided {
		rma.CopyStrided(unsafe.Add(dst, got.at*x.dstStride*int(x.elem)), at, x.elem, x.dstStride, x.block, x.block, got.n)
		return
	}
	copy(unsafe.Slice((*byte)(unsafe.Add(dst, got.at)), got.n), unsafe.Slice((*byte)(at), got.n))
}
