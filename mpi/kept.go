package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Memory of messages that wait
//
// A flood may have a million messages wait for their receives. So a queue keeps a kept for each, which has no pointers and 24 bytes: with its envelope and
// its links a message takes 48 bytes, and up to 64 where each has an envelope of its own. What does not fit it has a number in there:
//
//	form          what it is                                                a        b
//	keptInline    a whole message of up to 16 bytes                         its data
//	keptSlot      a whole message of another process that fits a cell       a slot   -
//	keptRecord    any other whole message, and all with a waiter            a record -
//	keptAnnounced an announced message; its number at the sender is a       number   address, or offset in the sender's segment
//
// A message that is rare in size is a record in any case, so that the fields need not have room for it.

// kept is a message that waits for a receive. Its envelope is beside it in the queue.
type kept struct {
	head uint64 // form, bytes of the message, and PE of the sender
	a, b uint64
}

// Forms of kept. keptHeap and keptFar are added to keptAnnounced.
const (
	keptInline = iota
	keptSlot
	keptRecord
	_
	keptAnnounced
	keptHeap = 1 // b is the offset in the sender's segment, and not the address in its memory
	keptFar  = 2 // the sender is on another node
)

// Bits of kept.head: three of the form, those of a PE as in the cells of an inbox, and the rest for the bytes.
const (
	keptForms  = 8
	keptPEs    = layout.InboxPEs
	keptSizes  = 1 << 64 / (keptForms * keptPEs)
	inlineMost = 16
)

// keptOf returns a kept of a form. The message has less than keptSizes bytes.
func keptOf(form, size int, pe layout.PE) kept {
	return kept{head: (uint64(size)*keptPEs+uint64(pe))*keptForms + uint64(form)}
}

func (k *kept) form() int     { return int(k.head % keptForms) }
func (k *kept) size() int     { return int(k.head / (keptForms * keptPEs)) }
func (k *kept) pe() layout.PE { return layout.PE(k.head / keptForms % keptPEs) }

// isAnnounced reports whether the message is still at its sender.
func (k *kept) isAnnounced() bool { return k.head&keptAnnounced != 0 }

// announced returns an announced message.
func (k *kept) announced(env envelope) message {
	msg := message{env: env, size: k.size(), pe: k.pe(), sender: k.a, far: k.head&keptFar != 0}
	if k.head&keptHeap != 0 {
		msg.offset = k.b
	} else {
		msg.addr = k.b
	}
	return msg
}

// slot has the data of a keptSlot.
type slot struct {
	data [layout.CellBody]byte
	next uint32 // in keptStore.unused
}

// keptStore has what does not fit the kepts of a process.
type keptStore struct {
	pool    messagePool
	slots   match.Slab[slot]
	unused  uint32     // first of the slots without a message; 0: none
	records []*message // by their numbers; nil: not used
	vacant  []uint32   // numbers of records that are not used
}

// addSlot returns the number of a slot.
func (s *keptStore) addSlot() uint32 {
	i := s.unused
	if i == 0 {
		return s.slots.Add()
	}
	s.unused = s.slots.At(i).next
	return i
}

// freeSlot makes a slot available for use again.
func (s *keptStore) freeSlot(i uint32) { s.slots.At(i).next, s.unused = s.unused, i }

// addRecord returns the kept of a record.
func (s *keptStore) addRecord(msg *message) kept {
	k := keptOf(keptRecord, 0, 0)
	if last := len(s.vacant) - 1; last >= 0 {
		i := s.vacant[last]
		s.vacant, s.records[i], k.a = s.vacant[:last], msg, uint64(i)
		return k
	}
	k.a = uint64(len(s.records))
	s.records = append(s.records, msg)
	return k
}

// record returns the record of a kept, or nil if it has none.
func (s *keptStore) record(k kept) *message {
	if k.form() != keptRecord {
		return nil
	}
	return s.records[k.a]
}

// sizeOf returns the bytes of a message.
func (s *keptStore) sizeOf(k kept) int {
	if msg := s.record(k); msg != nil {
		return msg.size
	}
	return k.size()
}

// removeRecord returns the record of a kept, and makes its number available for use again.
func (s *keptStore) removeRecord(k kept) *message {
	msg := s.records[k.a]
	s.records[k.a] = nil
	s.vacant = append(s.vacant, uint32(k.a))
	return msg
}

// copyShort copies the first n bytes of a message that is a keptInline or a keptSlot.
func (s *keptStore) copyShort(dst unsafe.Pointer, k kept, n int) {
	if n > 0 && k.form() == keptSlot {
		copyBytes(dst, unsafe.Pointer(&s.slots.At(uint32(k.a)).data), n)
		return
	}
	switch data := [...]uint64{k.a, k.b}; {
	case n == 8:
		*(*[8]byte)(dst) = *(*[8]byte)(unsafe.Pointer(&data))
	case n > 0:
		copyBytes(dst, unsafe.Pointer(&data), n)
	}
}

// copyWhole copies a whole message that fits a buffer, and returns its length. It returns false if it has copied nothing: the message is too long, was
// announced, or has a waiter.
func (s *keptStore) copyWhole(to span, k kept) (n int, ok bool) {
	if k.isAnnounced() {
		return 0, false
	}
	if msg := s.record(k); msg != nil {
		if msg.sender != 0 || msg.waits != nil || msg.size > min(to.bytes, lockedMost) {
			return 0, false
		}
		if msg.size > 0 {
			copyBytes(to.at, unsafe.Pointer(&msg.data[0]), msg.size)
		}
		return msg.size, true
	}
	if n = k.size(); n > to.bytes {
		return 0, false
	}
	s.copyShort(to.at, k, n)
	return n, true
}

// removeWaiter has nobody wait any more for the messages of this process to itself that have a request as their waiter.
func (s *keptStore) removeWaiter(r *request) {
	for _, msg := range s.records {
		if msg != nil && msg.waits == r {
			msg.waits = nil
		}
	}
}

// keepWhole keeps a copy of a whole message for which no receive waits.
func (m *matcher) keepWhole(q *queue, env envelope, data unsafe.Pointer, n int, from layout.PE) {
	k, size := keptOf(keptInline, n, from), hoardInline
	switch {
	case n == 8:
		k.a = *(*uint64)(data)
	case n <= inlineMost:
		var words [inlineMost / 8]uint64
		if n > 0 {
			copyBytes(unsafe.Pointer(&words), data, n)
		}
		k.a, k.b = words[0], words[1]
	case n <= layout.CellBody:
		i := m.kept.addSlot()
		copyBytes(unsafe.Pointer(&m.kept.slots.At(i).data), data, n)
		k, size = keptOf(keptSlot, n, from), hoardSlot
		k.a = uint64(i)
	default:
		msg := m.kept.pool.get(n)
		msg.env, msg.size, msg.pe = env, n, from
		copyBytes(unsafe.Pointer(&msg.data[0]), data, n)
		if size = 0; from != m.me {
			size = cap(msg.data) + hoardRecord
		}
		msg.hoarded = int32(size)
		k = m.kept.addRecord(msg)
	}
	if from != m.me {
		m.noteKept(from, size)
	}
	q.Keep(env, k)
	if len(m.probes) > 0 {
		m.wakeProbes(q, env)
	}
}

// keepAnnounced keeps an announced message for which no receive waits.
func (m *matcher) keepAnnounced(q *queue, msg *message) {
	k := keptOf(keptAnnounced, msg.size, msg.pe)
	k.a, k.b = msg.sender, msg.addr
	if msg.offset != 0 {
		k.head |= keptHeap
		k.b = msg.offset
	}
	if msg.far {
		k.head |= keptFar
	}
	if msg.size >= keptSizes {
		long := *msg
		k = m.kept.addRecord(&long)
	}
	q.Keep(msg.env, k)
	m.wakeProbes(q, msg.env)
}

// deliverKept gives a receive the kept message that it has met.
func (m *matcher) deliverKept(r *request, env envelope, k kept) {
	switch {
	case k.isAnnounced():
		msg := k.announced(env)
		m.startTransfer(r, &msg)
	case k.form() == keptRecord:
		m.deliverRecord(r, m.kept.removeRecord(k))
	default:
		m.kept.copyShort(r.buf, k, r.acceptMessage(env, k.size()))
		m.complete(r, nil)
		m.dropShort(k)
	}
}

// deliverRecord gives a receive the message that it has met, which is in no queue any more.
func (m *matcher) deliverRecord(r *request, msg *message) {
	if msg.waits != nil { // before deliver, which may release the lock: then the waiter could give its request back
		m.complete(msg.waits, nil)
	}
	switch {
	case msg.sender != 0:
		m.startTransfer(r, msg)
	case msg.size > 0:
		m.deliver(r, msg.env, unsafe.Pointer(&msg.data[0]), msg.size)
	default:
		m.deliver(r, msg.env, nil, 0)
	}
	m.dropRecord(msg)
}

// recordOf returns a kept message, which is in no queue any more, as a record.
func (m *matcher) recordOf(env envelope, k kept) *message {
	if k.form() == keptRecord {
		return m.kept.removeRecord(k)
	}
	if k.isAnnounced() {
		msg := k.announced(env)
		return &msg
	}
	n := k.size()
	msg := m.kept.pool.get(n)
	msg.env, msg.size, msg.pe = env, n, k.pe()
	if n > 0 {
		m.kept.copyShort(unsafe.Pointer(&msg.data[0]), k, n)
	}
	m.dropShort(k)
	return msg
}

// dropShort gives back what a keptInline or a keptSlot holds.
func (m *matcher) dropShort(k kept) {
	size := hoardInline
	if k.form() == keptSlot {
		m.kept.freeSlot(uint32(k.a))
		size = hoardSlot
	}
	if pe := k.pe(); pe != m.me {
		m.noteDropped(pe, size)
	}
}

// dropRecord gives back what a record holds.
func (m *matcher) dropRecord(msg *message) {
	if msg.hoarded != 0 {
		m.noteDropped(msg.pe, int(msg.hoarded))
	}
	m.kept.pool.put(msg)
}

// dropAll gives back what the messages of a queue hold that nobody will receive.
func (m *matcher) dropAll(q *queue) {
	for env, k := range q.Messages {
		switch record := m.kept.record(k); {
		case record != nil:
			m.dropTaken(m.kept.removeRecord(k))
		case k.isAnnounced():
			msg := k.announced(env)
			m.releaseShare(&msg)
		default:
			m.dropShort(k)
		}
	}
}

// dropTaken gives back what a record holds that nobody will receive.
func (m *matcher) dropTaken(msg *message) {
	m.releaseShare(msg)
	m.dropRecord(msg)
}

// releaseShare tells the sender of a message with a share that nobody will receive it. Otherwise it would never have the share back.
func (m *matcher) releaseShare(msg *message) {
	if msg.hasShare() {
		m.releaseSender(msg)
	}
}
