package stream

import (
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// maxAnswers is the number of requests that a PE can wait for.
const maxAnswers = layout.WireSlots

// Read says where the data of an answer lies on this node. The zero Read has no data.
type Read struct {
	Local   layout.Local
	Offset  uint64
	Length  uint32       // bytes of the data
	Strided bool         // the data is the blocks of Shape, packed
	Shape   record.Shape // valid if Strided
}

// answer is the answer to one request.
type answer struct {
	number uint64
	word   uint64 // the value, or where the data goes
	slot   uint16
	status uint8
	data   bool // the answer has data, which is read when it is sent
	read   Read
}

// newAnswer returns the answer to a request that was executed.
func newAnswer(number uint64, r *record.Record, status record.Status, value uint64) answer {
	a := answer{number: number, word: value, slot: uint16(r.Slot()), status: uint8(status)}
	if status != record.StatusOK || r.Op.Fetches() {
		return a
	}
	a.data, a.word = true, r.To()
	a.read = Read{Local: layout.Local(r.Local), Offset: r.Offset, Length: r.Length}
	if r.Op == record.OpGetStrided {
		a.read.Strided, a.read.Shape = true, r.Shape()
	}
	return a
}

// fill makes f the answer.
func (a *answer) fill(f *Frame) {
	f.Number, f.Word, f.N = a.number, a.word, uint32(a.slot)|uint32(a.status)<<16
	if a.data {
		f.Kind, f.Bytes, f.Read = KindData, a.read.Length, a.read
	}
}

// ring keeps the answers of a stream, in the order of the requests, until the sender has them.
type ring struct {
	room  []answer // a power of two of them, at most maxAnswers; made at the first one
	first int      // place of the first answer
	n     int      // number of answers
	sent  int      // how many of them are sent on the current connection
}

// at returns answer i.
func (g *ring) at(i int) *answer { return &g.room[(g.first+i)&(len(g.room)-1)] }

// isFull reports whether there is no room for one more answer.
func (g *ring) isFull() bool { return g.n == maxAnswers }

// push appends an answer. The ring is not full.
func (g *ring) push(a answer) {
	if g.n == len(g.room) {
		room := make([]answer, max(8, 2*len(g.room)))
		for i := range g.n {
			room[i] = *g.at(i)
		}
		g.room, g.first = room, 0
	}
	g.n++
	*g.at(g.n - 1) = a
}

// acknowledge forgets the answers to requests below number.
func (g *ring) acknowledge(number uint64) {
	for g.n > 0 && g.at(0).number < number {
		g.first++
		g.n--
		g.sent = max(g.sent-1, 0)
	}
}

// unsent returns the first answer that is not sent on the current connection, or nil.
func (g *ring) unsent() *answer {
	if g.sent == g.n {
		return nil
	}
	return g.at(g.sent)
}

// markSent says that the answer that unsent returned is sent.
func (g *ring) markSent() { g.sent++ }

// rewind says that no answer is sent on the current connection.
func (g *ring) rewind() { g.sent = 0 }
