package fence

import (
	"encoding/binary"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// The value that the machine adds up is a list of parts, in the order of nodes. A part is
//
//	u32 member, i32 status, u8 spares, u32 length, data
//
// in little endian. The data of a part with an error is empty.

const partHeader = 13

// appendPart appends the part of a member to b.
func appendPart(b []byte, member int32, part *server.FencePart) []byte {
	status, data := part.Status, part.Data
	if len(data) > maxValue-partHeader {
		status = codec.StatusErrOutOfResource
	}
	if status != codec.StatusSuccess {
		data = nil
	}
	spares := byte(0)
	if part.Spares {
		spares = 1
	}
	b = slices.Grow(b, partHeader+len(data))
	b = binary.LittleEndian.AppendUint32(b, uint32(member))
	b = binary.LittleEndian.AppendUint32(b, uint32(status))
	b = append(b, spares)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// combine appends the parts of src to those of dst. If they are too large together, all lose their data, and the error
// of dst's first part says so.
func combine(dst, src []byte) []byte { return combineWithin(dst, src, maxValue) }

func combineWithin(dst, src []byte, most int) []byte {
	if len(dst)+len(src) <= most {
		return append(dst, src...)
	}
	var out []byte
	for _, list := range [][]byte{dst, src} {
		for r := (reader{rest: list}); len(r.rest) > 0 && r.err == nil; {
			p := r.part()
			if len(out) == 0 && p.status == codec.StatusSuccess {
				p.status = codec.StatusErrOutOfResource
			}
			out = appendPart(out, p.member, &server.FencePart{FenceCall: server.FenceCall{Spares: p.spares}, Status: p.status})
		}
	}
	return out
}

// listedPart is a part in a value.
type listedPart struct {
	member int32
	status codec.Status
	spares bool
	data   []byte
}

func (r *reader) part() listedPart {
	p := listedPart{member: int32(r.u32()), status: codec.Status(int32(r.u32())), spares: r.u8() != 0}
	p.data = r.next(r.u32())
	return p
}

// outcome returns how a fence of n members ends whose machine has decided for a value without the parts of some dead
// members. It depends on nothing else, so it is the same on all nodes.
//
//   - With an error among the parts, the first one is the status.
//   - Else a missing part is an error, unless all parts say that the fence spares those who do not join.
//   - Else the status is success, and the data is that of all parts, one after the other.
func outcome(value []byte, missing []int32, n int) (codec.Status, []byte) {
	r := reader{rest: value}
	status, spares, size := codec.StatusSuccess, true, 0
	here := make([]bool, n)
	count := 0
	for len(r.rest) > 0 && r.err == nil {
		p := r.part()
		if r.err != nil || p.member < 0 || int(p.member) >= n || here[p.member] {
			return codec.StatusErrUnpackFailure, nil
		}
		here[p.member] = true
		count++
		if status == codec.StatusSuccess {
			status = p.status
		}
		spares = spares && p.spares
		size += len(p.data)
	}
	for _, v := range missing {
		if v < 0 || int(v) >= n || here[v] {
			return codec.StatusErrUnpackFailure, nil
		}
		here[v] = true
		count++
	}
	switch {
	case count != n:
		return codec.StatusErrUnpackFailure, nil
	case status != codec.StatusSuccess:
		return status, nil
	case len(missing) > 0 && !spares:
		return lostStatus, nil
	}
	data := make([]byte, 0, size)
	for r = (reader{rest: value}); len(r.rest) > 0; {
		data = append(data, r.part().data...)
	}
	return codec.StatusSuccess, data
}

// lostStatus is the status of a request that needs a process of a node that has died. A server gives it for a process
// that ends without finalize.
const lostStatus = codec.StatusErrProcTermWoSync
