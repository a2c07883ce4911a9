package express

import (
	"bytes"
	"testing"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// again appends the request that q is.
func again(q *Request) []byte {
	r := &q.Record
	if r.Op == record.OpGet {
		return AppendGet(nil, q.Caller, q.Number, layout.Local(r.Local), r.Offset, int(r.Length))
	}
	return AppendFetch(nil, q.Caller, q.Number, layout.Local(r.Local), r.Offset, r.Code, r.Operand(), r.Cond())
}

func TestRequests(t *testing.T) {
	c := Caller{Node: 1000, Local: 1023, Incarnation: 1 << 31}
	get := AppendGet(nil, c, 1<<60, 7, layout.HeapOffset, MaxData)
	fetch := AppendFetch(nil, c, 3, 8, layout.HeapOffset, record.CodeOf(record.AtomicCompareSwap, 4), 1<<40, 5)
	for _, b := range [][]byte{get, fetch} {
		if len(b) > MaxRequest {
			t.Errorf("request of %d bytes, want at most %d", len(b), MaxRequest)
		}
		var q Request
		for n := range b {
			if ok, err := q.Parse(b[:n]); ok || err != nil {
				t.Errorf("the first %d bytes of %d: %v, %v", n, len(b), ok, err)
			}
		}
		if ok, err := q.Parse(b); !ok || err != nil || q.Caller != c || !bytes.Equal(again(&q), b) {
			t.Errorf("%x comes out as %+v, %v, %v", b, q, ok, err)
		}
		if _, err := q.Parse(append(bytes.Clone(b), 0)); err == nil {
			t.Error("a byte behind the request is taken")
		}
	}
	spoil := func(b []byte, at int, with byte) []byte {
		b = bytes.Clone(b)
		b[at] = with
		return b
	}
	for name, b := range map[string][]byte{
		"number 0":       AppendGet(nil, c, 0, 0, layout.HeapOffset, 8),
		"a put":          spoil(get, requestHeader, byte(record.OpPut)),
		"size":           spoil(get, 16, 200),
		"other size":     spoil(get, 16, record.SizeAtomicFetch),
		"long get":       AppendGet(nil, c, 1, 0, layout.HeapOffset, MaxData+1),
		"unknown op":     spoil(fetch, requestHeader, 99),
		"strided get":    spoil(fetch, requestHeader, byte(record.OpGetStrided)),
		"repeat":         spoil(fetch, requestHeader, byte(record.OpFetchOnce)),
		"a plain update": spoil(get, requestHeader, byte(record.OpAtomic)),
	} {
		b = append(b, make([]byte, MaxRequest-len(b))...) // as much as a request may have
		var q Request
		if _, err := q.Parse(b); err == nil {
			t.Errorf("%s: %+v is taken", name, q)
		}
	}
}

func TestReplies(t *testing.T) {
	want := Reply{Number: 7, Value: 1 << 63, Status: record.StatusOK, Bytes: 2048}
	b := want.Append(nil)
	var got Reply
	if err := got.Parse(b, 7, 2048); err != nil || got != want {
		t.Errorf("%+v comes out as %+v, %v", want, got, err)
	}
	refused := Reply{Number: 7, Status: record.StatusDead}
	if err := got.Parse(refused.Append(nil), 7, 2048); err != nil || got != refused {
		t.Errorf("%+v comes out as %+v, %v", refused, got, err)
	}
	for name, bad := range map[string]struct {
		r      Reply
		number uint64
		n      int
	}{
		"number": {want, 8, 2048},
		"bytes":  {want, 7, 8},
		"status": {Reply{Number: 7, Status: 99}, 7, 0},
		"data":   {Reply{Number: 7, Status: record.StatusDead, Bytes: 8}, 7, 8},
	} {
		if err := got.Parse(bad.r.Append(nil), bad.number, bad.n); err == nil {
			t.Errorf("%s: %+v is taken", name, bad)
		}
	}
	if err := got.Parse(b[:ReplyHeader-1], 7, 2048); err == nil {
		t.Error("a part of a reply is taken")
	}
}

// FuzzRequest: no bytes make the parser panic, and what it accepts is what an encoder makes of it, but for the words that
// requests leave 0.
func FuzzRequest(f *testing.F) {
	c := Caller{Node: 1, Local: 2, Incarnation: 3}
	f.Add(AppendGet(nil, c, 4, 5, layout.HeapOffset, 8))
	f.Add(AppendFetch(nil, c, 4, 5, layout.HeapOffset, record.CodeOf(record.AtomicAdd, 8), 1, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Request
		ok, err := q.Parse(b)
		if !ok || err != nil {
			return
		}
		var p Request
		if ok, err := p.Parse(again(&q)); !ok || err != nil || p.Caller != q.Caller || p.Number != q.Number || p.Record.Offset != q.Record.Offset || p.Record.Operand() != q.Record.Operand() && q.Record.Op == record.OpAtomicFetch {
			t.Errorf("%x is %+v, and again %+v, %v, %v", b, q, p, ok, err)
		}
	})
}
