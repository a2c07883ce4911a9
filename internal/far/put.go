package far

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A put of more than leastPut bytes may be cut: it begins in the open block if that has room for leastPut bytes, and
// goes on in the next one.
const leastPut = 512

// leastPutFrom is the size from which on a put leaves its data in the heap: the agent sends it from there.
const leastPutFrom = 16 << 10

// Sending is a put whose data the agent may still read. The zero value is one whose data it does not need any more.
type Sending struct {
	s   *stream
	to  target
	end uint64 // number after the last record
}

// Put copies n bytes from src to offset off of the PE's segment.
//
//   - Completion: src may change when Put returns; at the target after Quiet. A long put from the heap waits until it is
//     executed.
//   - Order: behind all earlier operations of this PE on that node.
//   - Errors: as Quiet. After an error, a part of the data may come to the target, of src as it is then.
func (p *Port) Put(ctx context.Context, t *Touched, pe layout.PE, off uint64, src unsafe.Pointer, n int) error {
	if n < leastPutFrom {
		return p.copyPut(ctx, t, pe, off, src, n)
	}
	x, err := p.PutNBI(ctx, t, pe, off, src, n)
	if err == nil {
		err = p.AwaitSent(ctx, x)
	}
	return err
}

// TryPut is Put for the frequent case: a put to the PE of the operation before, for which the open block has room. It returns
// false in all other cases, and has done nothing then. The caller has checked that n is more than 0.
func TryPut(p *Port, t *Touched, pe layout.PE, off uint64, src unsafe.Pointer, n int) bool {
	p.mu.Lock()
	s := &p.streams[p.recent.node]
	if p.recent.pe != pe || s.open == nil || layout.WireBody-int(s.fill) < record.SizePut(n) {
		p.mu.Unlock()
		return false
	}
	*p.begun++
	body := s.open.Body[:s.fill]
	if n == 8 {
		body = record.AppendPutWord(body, p.recent.local, off, *(*uint64)(src))
	} else {
		var data []byte
		body, data = record.ReservePut(body, p.recent.local, off, n)
		copy(data, unsafe.Slice((*byte)(src), n))
	}
	p.end(s, t, body)
	return true
}

// PutNBI is Put, but src must not change before AwaitSent has returned, or Quiet.
func (p *Port) PutNBI(ctx context.Context, t *Touched, pe layout.PE, off uint64, src unsafe.Pointer, n int) (x Sending, err error) {
	from, ok := p.segment.heapOffset(src, n)
	if n < leastPutFrom || !ok {
		return x, p.copyPut(ctx, t, pe, off, src, n)
	}
	x.to = p.target(pe)
	whole := n &^ 7
	for at := 0; at < whole; {
		s, body, err := p.begin(ctx, x.to, record.SizePutFrom)
		if err != nil {
			return Sending{}, fmt.Errorf("put of %d bytes at offset %d of PE %d: %w", n, off, pe, err)
		}
		if at == 0 && whole == n { // otherwise the rest counts
			*p.begun++
		}
		k := min(whole-at, record.MaxPut) // a multiple of 8, so no aligned element is cut
		x.s, x.end = s, s.next+1
		p.end(s, t, record.AppendPutFrom(body, x.to.local, off+uint64(at), k, from+uint64(at)))
		at += k
	}
	return x, p.copyPut(ctx, t, pe, off+uint64(whole), unsafe.Add(src, whole), n-whole)
}

// AwaitSent returns when the agent has executed a put, and does not need its data any more.
//
//   - Errors: *DeadError if the PE is dead; the cause of ctx; wait.ErrClosed.
func (p *Port) AwaitSent(ctx context.Context, x Sending) error {
	if x.s == nil {
		return nil
	}
	c := wait.Cond{Addr: unsafe.Pointer(x.s.done), Val: x.end, Width: 8, Cmp: wait.GE}
	if err := p.await(ctx, &c, x.to); err != nil {
		return fmt.Errorf("put to PE %d: wait until it is executed: %w", x.to.pe, err)
	}
	return nil
}

// copyPut is Put with a copy of the data in blocks.
func (p *Port) copyPut(ctx context.Context, t *Touched, pe layout.PE, off uint64, src unsafe.Pointer, n int) error {
	to := p.target(pe)
	for at := 0; at < n; {
		s, body, err := p.begin(ctx, to, record.SizePut(min(n-at, leastPut)))
		if err != nil {
			return fmt.Errorf("put of %d bytes at offset %d of PE %d: %w", n, off, pe, err)
		}
		if at == 0 {
			*p.begun++
		}
		k := n - at
		if room := layout.WireBody - len(body) - record.SizePut(0); k > room {
			k = room // a multiple of 8, so no aligned element is cut
		}
		body, data := record.ReservePut(body, to.local, off+uint64(at), k)
		if k == 8 { // one store, and no call of memmove
			*(*uint64)(unsafe.Pointer(unsafe.SliceData(data))) = *(*uint64)(unsafe.Add(src, at))
		} else {
			copy(data, unsafe.Slice((*byte)(unsafe.Add(src, at)), k))
		}
		p.end(s, t, body)
		at += k
	}
	return nil
}

// PutStrided copies n blocks of block elements of elem bytes from src to offset off of the PE's segment. Blocks begin
// dstStride elements apart there, and srcStride elements apart in src.
//
//   - Arguments: block and n are at least 0, both strides at least block.
//   - Completion, order: as Put. The order among the blocks is not fixed.
func (p *Port) PutStrided(ctx context.Context, t *Touched, pe layout.PE, off uint64, src unsafe.Pointer, elem uintptr, dstStride, srcStride, block, n int) error {
	size := block * int(elem)
	if size <= 0 || n <= 0 {
		return nil
	}
	if n == 1 || dstStride == block && srcStride == block {
		return p.Put(ctx, t, pe, off, src, n*size)
	}
	step := uint64(dstStride) * uint64(elem)
	if size > record.MaxPutStrided {
		var x Sending // the last one: records are executed in order
		for i := range n {
			var err error
			if x, err = p.PutNBI(ctx, t, pe, off+uint64(i)*step, unsafe.Add(src, i*srcStride*int(elem)), size); err != nil {
				return err
			}
		}
		return p.AwaitSent(ctx, x)
	}
	to := p.target(pe)
	for i := 0; i < n; {
		s, body, err := p.begin(ctx, to, record.SizePutStrided(min((n-i)*size, max(size, leastPut))))
		if err != nil {
			return fmt.Errorf("strided put of %d blocks of %d bytes at offset %d of PE %d: %w", n, size, off, pe, err)
		}
		if i == 0 {
			*p.begun++
		}
		k := min(n-i, (layout.WireBody-len(body)-record.SizePutStrided(0))/size)
		body, data := record.ReservePutStrided(body, to.local, off+uint64(i)*step, record.Shape{Step: step, Block: uint64(size), N: uint64(k)})
		rma.CopyStrided(unsafe.Pointer(unsafe.SliceData(data)), unsafe.Add(src, i*srcStride*int(elem)), elem, block, srcStride, block, k)
		p.end(s, t, body)
		i += k
	}
	return nil
}

// Signal sets the signal at offset off of the PE's segment to value, or adds value to it. It wakes a PE that waits for the
// signal.
//
//   - Completion: at the target after Quiet.
//   - Order: behind all earlier operations of this PE on that node, so a signal follows the put before it.
func (p *Port) Signal(ctx context.Context, t *Touched, pe layout.PE, off, value uint64, add bool) error {
	to := p.target(pe)
	s, body, err := p.begin(ctx, to, record.SizeSignal)
	if err != nil {
		return fmt.Errorf("signal at offset %d of PE %d: %w", off, pe, err)
	}
	*p.begun++
	code := record.SignalSet
	if add {
		code = record.SignalAdd
	}
	p.end(s, t, record.AppendSignal(body, to.local, off, code, value))
	return nil
}

// Update changes the word of width bytes (4 or 8) at offset off of the PE's segment atomically. It has no answer.
//
//   - Completion, order: as Put.
func (p *Port) Update(ctx context.Context, t *Touched, pe layout.PE, off uint64, code record.AtomicCode, width int, operand, cond uint64) error {
	to := p.target(pe)
	s, body, err := p.begin(ctx, to, record.SizeAtomic)
	if err != nil {
		return fmt.Errorf("atomic operation at offset %d of PE %d: %w", off, pe, err)
	}
	*p.begun++
	p.end(s, t, record.AppendAtomic(body, to.local, off, record.CodeOf(code, width), operand, cond))
	return nil
}
