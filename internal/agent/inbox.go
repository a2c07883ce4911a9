package agent

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/lane"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Messages
//
// A message of another node goes to the inbox of its PE (layout.Inbox). A PE that takes none must not stop the agent, nor the messages for
// other PEs:
//
//   - What finds no room in the inbox waits in the agent's memory, in order.
//   - If that is more than overflowMost bytes for a PE, the streams that go on sending to it are held (stream.Receiver.Hold). Each of
//     them brings at most what its quota of blocks has, and then its source waits. Others go on.
//   - When the PE has taken enough, the streams are released.
//
// A message counts as taken when the agent has all of it (Inbox.Queued). The agent takes nothing of a dead PE after it has answered the
// daemon, and forgets a message of which only a part has come.
const (
	overflowMost   = 16 << 20 // bytes of messages that wait for one PE before their sources are held
	letterOverhead = 128      // bytes that a message takes in that memory besides its data
	remindEvery    = time.Second
)

// inbox is the agent's end of the inbox of a PE.
type inbox struct {
	words   *layout.Inbox
	writer  *lane.Writer
	waiting []lane.Letter // those before first are written
	first   int
	bytes   int             // that waiting takes
	holds   []stream.Source // held because of this inbox; a source may be there for another one, too
}

// inboxes are those of all PEs of the node.
type inboxes struct {
	agent    *Agent
	of       []inbox // by local index
	parts    map[partSource]*partMessage
	full     int       // inboxes for which messages wait
	reminded time.Time // when held sources were last reminded
}

// partSource is a PE of another node.
type partSource struct {
	node  int
	local layout.Local
}

// partMessage is a message of which parts are missing.
type partMessage struct {
	incarnation uint32
	to          layout.Local
	letter      lane.Letter // its Body and Data are its own memory
	begun       bool
}

func newInboxes(a *Agent) inboxes {
	b := inboxes{agent: a, of: make([]inbox, len(a.sources)), parts: map[partSource]*partMessage{}}
	for i := range b.of {
		b.of[i] = newInbox(&a.sources[i].wire.Inbox)
	}
	return b
}

func newInbox(words *layout.Inbox) inbox { return inbox{words: words, writer: lane.NewWriter(words)} }

// receive takes a record of a message.
func (b *inboxes) receive(source stream.Source, r *record.Record) record.Status {
	a := b.agent
	if err := a.memory.limits.Check(r); err != nil {
		a.log(fmt.Errorf("PE %d of node %d: %w", source.Local, source.Node, err))
		return record.StatusBad
	}
	letter, whole, err := b.assemble(source, r)
	if err != nil {
		a.log(fmt.Errorf("PE %d of node %d: %w", source.Local, source.Node, err))
		return record.StatusBad
	}
	if whole {
		b.put(source, layout.Local(r.Local), &letter)
	}
	return record.StatusOK
}

// assemble returns the message that a record makes whole. It is valid until the next call.
func (b *inboxes) assemble(source stream.Source, r *record.Record) (letter lane.Letter, whole bool, err error) {
	at := partSource{source.Node, source.Local}
	p := b.parts[at]
	if p != nil && p.incarnation != source.Incarnation {
		p.begun = false // what a dead one has begun
	}
	isPart := r.Op == record.OpMessagePart
	if isPart != (p != nil && p.begun) || isPart && p.to != layout.Local(r.Local) {
		if p != nil {
			p.begun = false
		}
		return letter, false, fmt.Errorf("%v for local PE %d is not what follows the record before", r.Op, r.Local)
	}
	if !isPart {
		from, ok := b.nameOf(source.Node, source.Local, layout.Local(r.Local))
		if !ok {
			return letter, false, fmt.Errorf("message of local PE %d of node %d, which is not in the agent's page", source.Local, source.Node)
		}
		letter = lane.Letter{
			Kind: r.Code & record.MessageKind, From: from, Match: r.Offset, Size: r.MessageSize(), Body: r.MessageBody(), Data: r.Data(),
		}
		if r.Code&record.MessageCut == 0 {
			return letter, true, nil
		}
		if p == nil {
			p = &partMessage{letter: lane.Letter{Data: make([]byte, 0, record.MaxMessage)}}
			b.parts[at] = p
		}
		data := append(p.letter.Data[:0], letter.Data...)
		p.letter, p.letter.Body, p.letter.Data = letter, slices.Clone(letter.Body), data
		p.incarnation, p.to, p.begun = source.Incarnation, layout.Local(r.Local), true
		return letter, false, nil
	}
	if len(p.letter.Data)+len(r.Data()) > record.MaxMessage {
		p.begun = false
		return letter, false, fmt.Errorf("message of %d bytes and more, want at most %d", len(p.letter.Data)+len(r.Data()), record.MaxMessage)
	}
	p.letter.Data = append(p.letter.Data, r.Data()...)
	if r.Code&record.MessageCut != 0 {
		return letter, false, nil
	}
	p.begun = false
	return p.letter, true, nil
}

// nameOf returns the name that a receiver of this node finds a sender by in its inbox.
func (b *inboxes) nameOf(node int, local, to layout.Local) (layout.PE, bool) {
	a := b.agent
	near := layout.Local(a.cfg.Page.Parts[node%layout.WireNodes].Count)
	if !a.memory.isGuest(to) && local < near {
		return a.peOf(node, local)
	}
	if local < 0 || local >= layout.MaxLocal || local >= near && local < layout.FirstGuest(int(near)) {
		return 0, false
	}
	return layout.GuestName(node, local), true
}

// peOf returns the PE of the first job that a node has at a local index, as the agent's page says.
func (a *Agent) peOf(node int, local layout.Local) (layout.PE, bool) {
	part := a.cfg.Page.Parts[node%layout.WireNodes]
	at := int(part.First) + int(local)
	if local < 0 || uint32(local) >= part.Count || at >= layout.InboxGuest {
		return 0, false
	}
	if list := a.cfg.Page.List(); list != nil {
		if at >= len(list) || list[at] >= layout.InboxGuest {
			return 0, false
		}
		return layout.PE(list[at]), true
	}
	return layout.PE(at), true
}

// put gives a message to a PE, or keeps it until the PE has room.
func (b *inboxes) put(source stream.Source, pe layout.Local, l *lane.Letter) {
	a, x := b.agent, &b.of[pe]
	if a.memory.dead[pe] || !x.isOpen() {
		return
	}
	a.memory.touch(pe)
	if x.first == len(x.waiting) && x.writer.Write(l) {
		atomic.StoreUint64(&x.words.Queued, x.writer.Written())
		return
	}
	if x.first == len(x.waiting) {
		b.full++
		atomic.StoreUint32(&x.words.Head.Want, 1)
	}
	kept := *l
	kept.Body, kept.Data = slices.Clone(l.Body), slices.Clone(l.Data)
	x.waiting = append(x.waiting, kept)
	x.bytes += letterOverhead + len(l.Data)
	atomic.StoreUint64(&x.words.Queued, x.writer.Written()+uint64(len(x.waiting)-x.first))
	if x.bytes > overflowMost && !slices.Contains(x.holds, source) {
		x.holds = append(x.holds, source)
		a.receiver.Hold(source)
	}
}

// isOpen reports whether the PE takes messages.
func (x *inbox) isOpen() bool { return atomic.LoadUint32(&x.words.Open) != 0 }

// refill gives PEs what waits for them, as far as there is room. It reports whether it has given any.
func (b *inboxes) refill() (some bool) {
	for i := 0; b.full > 0 && i < len(b.of); i++ {
		x := &b.of[i]
		if x.first == len(x.waiting) {
			continue
		}
		if !x.isOpen() {
			b.discard(layout.Local(i))
			continue
		}
		before := x.first
		for x.first < len(x.waiting) && x.writer.Write(&x.waiting[x.first]) {
			x.bytes -= letterOverhead + len(x.waiting[x.first].Data)
			x.waiting[x.first] = lane.Letter{}
			x.first++
		}
		if x.first > before {
			some = true
			b.agent.memory.touch(layout.Local(i))
		}
		b.trim(x)
	}
	return some
}

// trim gives memory back that written messages took, and releases sources if little waits.
func (b *inboxes) trim(x *inbox) {
	switch {
	case x.first == len(x.waiting):
		x.waiting, x.first = nil, 0
		b.full--
		atomic.StoreUint32(&x.words.Head.Want, 0)
	case x.first >= 1024 && x.first > len(x.waiting)/2:
		x.waiting = slices.Clone(x.waiting[x.first:])
		x.first = 0
	}
	if x.bytes <= overflowMost/2 {
		b.release(x)
	}
}

// release lets the sources go on that are held because of an inbox.
func (b *inboxes) release(x *inbox) {
	mine := x.holds
	x.holds = nil
	for _, source := range mine {
		if !slices.ContainsFunc(b.of, func(o inbox) bool { return slices.Contains(o.holds, source) }) {
			b.agent.receiver.Release(source)
		}
	}
}

// discard drops what waits for a PE, which takes no messages any more.
func (b *inboxes) discard(pe layout.Local) {
	x := &b.of[pe]
	if x.first < len(x.waiting) {
		x.first, x.bytes = len(x.waiting), 0
		atomic.StoreUint64(&x.words.Queued, x.writer.Written())
		b.trim(x)
	}
	b.release(x)
}

// remind tells the nodes of held sources from time to time that this node lives. It reports whether there is something to tell.
func (b *inboxes) remind(now time.Time) (some bool) {
	if b.full == 0 || now.Sub(b.reminded) < remindEvery {
		return false
	}
	b.reminded = now
	for i := range b.of {
		for _, source := range b.of[i].holds {
			b.agent.receiver.Remind(source)
			some = true
		}
	}
	return some
}

// dropSource takes the news that a PE of another node is dead up to an incarnation. What it has sent whole stays.
func (b *inboxes) dropSource(node int, local layout.Local, incarnation uint32) {
	if p := b.parts[partSource{node, local}]; p != nil && p.incarnation <= incarnation {
		delete(b.parts, partSource{node, local})
	}
	b.forget(func(s stream.Source) bool { return s.Node == node && s.Local == local && s.Incarnation <= incarnation })
}

// dropNode takes the news that a node is lost.
func (b *inboxes) dropNode(node int) {
	for at := range b.parts {
		if at.node == node {
			delete(b.parts, at)
		}
	}
	b.forget(func(s stream.Source) bool { return s.Node == node })
}

// forget forgets that sources are held, which are dead.
func (b *inboxes) forget(are func(stream.Source) bool) {
	for i := range b.of {
		b.of[i].holds = slices.DeleteFunc(b.of[i].holds, are)
	}
}

// begin begins with the fresh inbox of a PE's successor.
func (b *inboxes) begin(pe layout.Local) { b.of[pe] = newInbox(b.of[pe].words) }
