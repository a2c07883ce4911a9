package detect

import "github.com/goshmem/goshmem/detector/ring"

// occasion is something that happens to a node at a time. Of two at the same time, the one that was pushed first comes
// first.
type occasion struct {
	at    int64
	order uint64
	node  int32
	peer  int32
	slot  int32 // of the message
	kind  uint8
}

// The kinds of occasions.
const (
	timer     = iota
	message   // to node from peer, in the slot
	heartbeat // literal: to node from peer
	request   // literal: to node from peer
	news      // node hears that peer is dead
	hangup    // a connection of node to peer has ended
	fence     // node hears of its own death
	deaths    // the victims die
)

// queue holds what is to happen, as a heap of four children a node, and the messages on their way.
type queue struct {
	heap  []occasion
	count uint64
	slots []ring.Msg
	free  []int32
}

func (a *occasion) before(b *occasion) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// push adds an occasion.
func (q *queue) push(o occasion) {
	q.count++
	o.order = q.count
	q.heap = append(q.heap, o)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 4
		if q.heap[up].before(&o) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = o
}

// send adds the arrival of a message.
func (q *queue) send(at int64, from, to int32, msg *ring.Msg) {
	var slot int32
	if n := len(q.free); n > 0 {
		slot = q.free[n-1]
		q.free = q.free[:n-1]
		q.slots[slot] = *msg
	} else {
		slot = int32(len(q.slots))
		q.slots = append(q.slots, *msg)
	}
	q.push(occasion{at: at, node: to, peer: from, kind: message, slot: slot})
}

// take returns the message in a slot, and frees the slot.
func (q *queue) take(slot int32) ring.Msg {
	q.free = append(q.free, slot)
	return q.slots[slot]
}

// pop removes the first occasion.
func (q *queue) pop() occasion {
	first := q.heap[0]
	n := len(q.heap) - 1
	last := q.heap[n]
	q.heap = q.heap[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		least := 4*i + 1
		if least >= n {
			break
		}
		for c := least + 1; c < min(4*i+5, n); c++ {
			if q.heap[c].before(&q.heap[least]) {
				least = c
			}
		}
		if last.before(&q.heap[least]) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = last
	return first
}
