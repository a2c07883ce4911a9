package pmi1

import (
	"encoding/binary"
	"errors"

	"github.com/goshmem/goshmem/pmix/codec"
)

// A barrier of a job on several nodes is a fence between their servers, which also carries what processes have put. Each
// node hands in one part: what was put on it since the barrier before, or an error. A driver between the nodes adds the
// parts up, and gives all nodes the same answer. Each node follows these rules:
//
//  1. The node hands in its pairs when all its members are in the barrier.
//  2. It hands in an error if a member that has left will not join the barrier: as soon as another member is in it, here
//     or on another node.
//  3. After that only the driver's answer ends the barrier.
//  4. An error breaks the job's barriers for good: all nodes get it for the same barrier. Later barriers fail at once.
//
// All nodes store the pairs of the answer in its order, so that they store the same for a key that was put on two nodes.

// Remote reaches the servers of a job's other nodes. Calls must not block.
type Remote interface {
	// Barrier hands in this node's part of a barrier. The driver tells the servers that have not handed in by
	// Server.BarrierCalled, waits for all parts, and answers each by Server.BarrierDone.
	Barrier(part BarrierPart)
}

// BarrierPart is what one node hands in.
type BarrierPart struct {
	Nspace string
	Seq    uint64 // number of the barrier among those of the job, from 1
	Failed bool   // a member on this node has left and will not join
	Data   []byte // what was put on this node; empty if the part is an error
}

// span is what a job on several nodes has beside other jobs.
type span struct {
	local   int             // number of members on this node
	seq     uint64          // number of the barrier that is open
	called  uint64          // number of the last barrier that another node is in
	given   bool            // this node's part was handed in
	broken  bool            // a barrier has failed
	fresh   []string        // keys that were put here since the last part
	isFresh map[string]bool // the same
}

// noteFresh notes that a key was put on this node.
func (s *span) noteFresh(key string) {
	if s != nil && !s.isFresh[key] {
		s.fresh, s.isFresh[key] = append(s.fresh, key), true
	}
}

// newSpan returns the span of a job, nil if all its processes are on this node.
func newSpan(j *WorldSpec) *span {
	if !j.spans() {
		return nil
	}
	s := &span{seq: 1, isFresh: map[string]bool{}}
	for rank := range j.Procs {
		if j.isLocal(codec.Rank(rank)) {
			s.local++
		}
	}
	return s
}

// handIn hands in this node's part of the open barrier, if the part is certain.
func (c *core) handIn(w *world) {
	s := w.span
	if s.given || s.broken {
		return
	}
	part := BarrierPart{Nspace: w.Nspace, Seq: s.seq}
	switch {
	case len(w.ended) > 0 && (len(w.waiting) > 0 || s.called >= s.seq):
		part.Failed = true
	case len(w.waiting) == s.local:
		for _, key := range s.fresh {
			value, _ := w.store.get(key) // it was put
			part.Data = appendPair(part.Data, pair{key, value})
		}
		s.fresh = nil
		clear(s.isFresh)
	default:
		return
	}
	s.given = true
	c.emit(action{kind: actBarrier, part: part})
}

// noteCall notes that another node is in a barrier.
func (c *core) noteCall(w *world, seq uint64) {
	s := w.span
	if s.broken {
		c.emit(action{kind: actBarrier, part: BarrierPart{Nspace: w.Nspace, Seq: seq, Failed: true}})
		return
	}
	s.called = max(s.called, seq)
	c.handIn(w)
}

// endBarrier ends the open barrier by the driver's answer.
func (c *core) endBarrier(w *world, ev event) {
	s := w.span
	if ev.id != s.seq || s.broken || ev.err == nil && !s.given {
		return // no answer to what this node has handed in
	}
	err := ev.err
	if err == nil {
		err = w.storePairs(ev.data)
	}
	waiting := w.waiting
	w.waiting, s.given, s.broken = nil, false, err != nil
	s.seq++
	for _, m := range waiting {
		switch {
		case m.phase != phaseBarrier: // its connection is lost
		case err != nil:
			c.failBarrier(m)
		default:
			m.phase = phaseJoined
			c.send(m, reply("barrier_out", "rc", "0"))
		}
	}
	c.handIn(w)
}

// errFull refuses what would make a store too large.
var errFull = errors.New("the store is full")

// storePairs stores what all nodes have handed in.
func (w *world) storePairs(data []byte) error {
	for len(data) > 0 {
		p, rest, ok := cutPair(data)
		if !ok || checkPair(p.key, p.value) != nil {
			return errors.New("pairs of another node are damaged")
		}
		if !w.store.put(p) {
			return errFull
		}
		data = rest
	}
	return nil
}

// appendPair appends a pair as nodes exchange it: u16 length of the key, u16 length of the value, key, value.
func appendPair(b []byte, p pair) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.key)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.value)))
	return append(append(b, p.key...), p.value...)
}

// cutPair returns the first pair of b, and what follows it.
func cutPair(b []byte) (p pair, rest []byte, ok bool) {
	const head = 4
	if len(b) < head {
		return p, nil, false
	}
	key, value := int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:]))
	if b = b[head:]; len(b) < key+value {
		return p, nil, false
	}
	return pair{string(b[:key]), string(b[key : key+value])}, b[key+value:], true
}
