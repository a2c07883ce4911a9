package fence

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
)

// A fetch is a request of this node's server for data of a process of another node (direct modex). The node of the
// process answers it when the process has committed the data or can do so no longer, or dies and so ends it.

// maxKey bounds the length of a key. The server has checked it by then.
const maxKey = 1 << 16

// fetch is a request that has no answer yet.
type fetch struct {
	node int
	proc codec.Proc
	key  string
}

// fetches are the requests of this node, by number. The server asks for a key of a process once at a time.
type fetches struct {
	last    uint64
	pending map[uint64]fetch
}

// fetchRequest is what the node of the process gets.
//
//	u64 number, u32 rank, u16 length and namespace, u16 length and key
type fetchRequest struct {
	number uint64
	proc   codec.Proc
	key    string
}

func (q *fetchRequest) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, q.number)
	b = binary.LittleEndian.AppendUint32(b, uint32(q.proc.Rank))
	b = appendShort(b, q.proc.Nspace)
	return appendShort(b, q.key)
}

func parseFetchRequest(b []byte) (q fetchRequest, err error) {
	r := reader{rest: b}
	q.number = r.u64()
	q.proc.Rank = codec.Rank(r.u32())
	q.proc.Nspace = r.short()
	q.key = r.short()
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes after the request, want none", len(r.rest))
	}
	if r.err != nil {
		return fetchRequest{}, fmt.Errorf("request for the data of a process: %w", r.err)
	}
	return q, nil
}

// fetchAnswer is what comes back.
//
//	u64 number, i32 status, data
type fetchAnswer struct {
	number uint64
	status codec.Status
	data   []byte
}

func (a *fetchAnswer) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, a.number)
	b = binary.LittleEndian.AppendUint32(b, uint32(a.status))
	return append(b, a.data...)
}

func parseFetchAnswer(b []byte) (a fetchAnswer, err error) {
	r := reader{rest: b}
	a.number, a.status = r.u64(), codec.Status(int32(r.u32()))
	if r.err != nil {
		return fetchAnswer{}, fmt.Errorf("answer to a request for data: %w", r.err)
	}
	a.data = r.rest
	return a, nil
}

// Fetch implements server.Remote.
func (d *Driver) Fetch(p codec.Proc, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node, ok := d.cfg.NodeOf(p)
	status := codec.StatusSuccess
	switch {
	case !ok || node < 0 || node >= d.fences.layout.Nodes || node == d.cfg.Me:
		status = codec.StatusErrNotFound
	case d.fences.dead[node]:
		status = lostStatus
	case len(key) >= maxKey || len(p.Nspace) >= maxKey:
		status = codec.StatusErrBadParam
	}
	if status != codec.StatusSuccess {
		d.server.Call(func(s Server) { s.Fetched(p, key, status, nil) })
		return
	}
	d.fetches.last++
	q := fetchRequest{d.fetches.last, p, key}
	d.fetches.pending[q.number] = fetch{node, p, key}
	d.send(node, wire.KindFetch, q.append(nil))
}

// serveFetch serves a request of another node.
func (d *Driver) serveFetch(node int, message []byte) error {
	q, err := parseFetchRequest(message)
	if err != nil {
		return err
	}
	d.server.Call(func(s Server) {
		s.Serve(q.proc, q.key, func(status codec.Status, packed []byte) { d.answerFetch(node, q.number, status, packed) })
	})
	return nil
}

// answerFetch sends the local server's answer to a request.
func (d *Driver) answerFetch(node int, number uint64, status codec.Status, packed []byte) {
	if len(packed) > maxValue {
		status, packed = codec.StatusErrOutOfResource, nil
	}
	a := fetchAnswer{number, status, packed}
	message := a.append(make([]byte, 0, 12+len(packed)))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.send(node, wire.KindFetched, message)
}

// takeFetched gives the local server the answer to a request.
func (d *Driver) takeFetched(node int, message []byte) error {
	a, err := parseFetchAnswer(message)
	if err != nil {
		return err
	}
	f, ok := d.fetches.pending[a.number]
	if !ok || f.node != node {
		return fmt.Errorf("answer to request %d, which node %d has not got or has answered", a.number, node)
	}
	delete(d.fetches.pending, a.number)
	d.server.Call(func(s Server) { s.Fetched(f.proc, f.key, a.status, a.data) })
	return nil
}

// failFetches ends the requests to a node that has died.
func (d *Driver) failFetches(node int) {
	for _, number := range slices.Sorted(maps.Keys(d.fetches.pending)) {
		if f := d.fetches.pending[number]; f.node == node {
			delete(d.fetches.pending, number)
			d.server.Call(func(s Server) { s.Fetched(f.proc, f.key, lostStatus, nil) })
		}
	}
}
