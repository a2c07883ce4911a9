package span

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/ftco"
)

// Config is a team as one of its nodes sees it. All nodes have the same Config, apart from Me and Members.
type Config struct {
	Nodes, Me int // how many nodes the team is on, in the order of their first members; this one's index among them
	Members   int // on this node
	Radix     int // of the tree of nodes
	Least     int // bytes that all data have at least
	// Check returns an error for data of Least bytes or more that no node sends; nil: there are none.
	Check func(data []byte) error
	// Fold returns the data of two sets of members in one. It may use the memory of acc, and not that of in. Contributions of
	// later nodes may come before those of earlier ones.
	Fold func(acc, in []byte) []byte
}

// Ask is what a part asks its driver for.
type Ask uint8

// What a part may ask for.
const (
	Nothing Ask = iota // wait for a call of Look, Receive or NodeDead
	Word               // read the arrival word of a member, and call SetWord
	News               // look whether the death of a member is known, and call SetDead
	Data               // fold what the members have contributed for which Entered is true, and call SetData
)

// Part is what one node does for the collectives of a team. The package documentation describes it.
type Part struct {
	cfg     Config
	call    ftco.Call
	machine *ftco.Machine
	acts    []ftco.Action // room
	waits   []board.Wait  // for the members of this node, in the step under way
	at      int           // the member whose wait comes next; all before it are over
	seq     uint64        // the step under way: all before it have a result here
	frozen  bool          // this node's contribution to it is made
	over    bool          // nobody is left who could enter a step
	stirred bool          // Look was called, and no wait was told: what was read before may be old
	values  []named       // what the machine keeps of its operations
}

// named is a value that the machine has its driver keep.
type named struct {
	seq  uint64
	name ftco.Buf
	v    *Value
}

// New returns the part of a team before its first step.
func New(c Config) (*Part, error) {
	if c.Members < 1 {
		return nil, fmt.Errorf("part of a team with %d members, want at least 1", c.Members)
	}
	m, err := ftco.New(ftco.Config{N: c.Nodes, Me: c.Me, Radix: c.Radix})
	if err != nil {
		return nil, fmt.Errorf("machine among %d nodes: %w", c.Nodes, err)
	}
	p := &Part{cfg: c, call: ftco.Call{Kind: ftco.Allreduce}, machine: m, waits: make([]board.Wait, c.Members)}
	p.open()
	return p, nil
}

// Seq returns the number of the step under way.
func (p *Part) Seq() uint64 { return p.seq }

// open begins the next step.
func (p *Part) open() {
	p.seq++
	p.at, p.frozen = 0, false
	for i := range p.waits {
		p.waits[i] = board.Wait{Seq: p.seq}
	}
}

// Next returns what the part asks for, and about which member. One answer makes the next question: the driver asks again until
// there is nothing.
func (p *Part) Next() (member int, what Ask) {
	if p.frozen || p.over {
		return 0, Nothing
	}
	for ; p.at < len(p.waits); p.at++ {
		switch p.waits[p.at].Next() {
		case board.Word:
			return p.at, Word
		case board.News:
			return p.at, News
		case board.Sleep:
			if !p.stirred {
				return 0, Nothing
			}
			p.stirred = false
			p.waits[p.at].SetAwake()
			return p.at, Word
		}
	}
	return 0, Data
}

// SetWord answers Word.
func (p *Part) SetWord(word uint64) { p.waits[p.at].SetWord(word) }

// SetDead answers News.
func (p *Part) SetDead(dead bool) { p.waits[p.at].SetDead(dead) }

// Look tells the part that a member of this node has entered a step, has left a mark in its word, or has died.
func (p *Part) Look() { p.stirred = true }

// Entered says whether a member contributes to the step under way. It is valid while the part asks for Data.
func (p *Part) Entered(member int) bool { return p.waits[member].Verdict() == board.Entered }

// SetData answers Data: data is what the members contribute, folded, or nil if none does (no bytes are not nil). The part keeps it.
func (p *Part) SetData(data []byte, out []Output) []Output {
	v := &Value{Data: data}
	for i := range p.waits {
		if verdict := p.waits[i].Verdict(); verdict != board.Entered {
			v.Without = append(v.Without, Exception{Node: int32(p.cfg.Me), Member: int32(i), Why: verdict})
		}
	}
	p.frozen = true
	p.set(p.seq, ftco.Buf(p.cfg.Me), v)
	return p.step(&ftco.Event{Kind: ftco.Enter, Call: p.call}, nil, out)
}

// Receive takes a message of another node. It returns an error if no part sends such a message.
func (p *Part) Receive(from int, m *Message, out []Output) ([]Output, error) {
	if err := m.check(&p.cfg, from); err != nil {
		return out, err
	}
	msg := ftco.Msg{Kind: m.Kind, Call: p.call, Seq: m.Seq, Committed: m.Committed, Value: ftco.NoValue, Sets: m.Sets}
	if m.Value != nil {
		msg.Value = ftco.Result // the machine looks only whether there is one
	}
	return p.step(&ftco.Event{Kind: ftco.Recv, From: ftco.Node(from), Msg: msg}, m.Value, out), nil
}

// NodeDead takes the news that another node has died, with all its members. Messages of the node that come later are not taken.
func (p *Part) NodeDead(node int, out []Output) []Output {
	return p.step(&ftco.Event{Kind: ftco.PeerFailed, From: ftco.Node(node), Inc: 1}, nil, out)
}

// step gives the machine an event, with the value that came with it, and carries out the actions.
func (p *Part) step(ev *ftco.Event, came *Value, out []Output) []Output {
	p.acts = p.machine.Step(*ev, p.acts[:0])
	for i := range p.acts {
		out = p.carryOut(&p.acts[i], came, out)
	}
	clear(p.acts)
	return out
}

// carryOut does what the machine asks for.
func (p *Part) carryOut(a *ftco.Action, came *Value, out []Output) []Output {
	switch a.Kind {
	case ftco.Send:
		m := &Message{Kind: a.Msg.Kind, Seq: a.Seq, Committed: a.Msg.Committed, Sets: a.Msg.Sets}
		if a.Msg.Value != ftco.NoValue {
			m.Value = p.value(a.Seq, a.Msg.Value)
		}
		return append(out, Output{Kind: Send, To: int(a.To), Message: m})
	case ftco.Keep:
		p.set(a.Seq, a.Dst, came)
	case ftco.Combine:
		p.set(a.Seq, a.Dst, p.combine(p.value(a.Seq, a.Dst), p.value(a.Seq, a.Src)))
	case ftco.Decide:
		p.set(a.Seq, ftco.Result, p.value(a.Seq, a.Src))
	case ftco.Deliver:
		return p.deliver(a, out)
	default:
		return append(out, Output{Kind: Wrong, Err: fmt.Errorf("the machine refuses step %d with %+v", a.Seq, *a)})
	}
	return out
}

// deliver ends the step under way.
func (p *Part) deliver(a *ftco.Action, out []Output) []Output {
	r := &Result{Seq: a.Seq, Value: *p.value(a.Seq, a.Src)}
	if a.Msg.Sets != nil {
		r.Missing = a.Msg.Sets.Missing
	}
	// All nodes have entered this step, so they have the results of those before.
	p.values = slices.DeleteFunc(p.values, func(n named) bool { return n.seq < a.Seq })
	p.over = r.Data == nil // else nodes without members would go from step to step for ever
	p.open()
	return append(out, Output{Kind: Deliver, Result: r})
}

// value returns a value that the machine has had kept.
func (p *Part) value(seq uint64, name ftco.Buf) *Value {
	for i := range p.values {
		if p.values[i].seq == seq && p.values[i].name == name {
			return p.values[i].v
		}
	}
	return nil
}

// set keeps a value.
func (p *Part) set(seq uint64, name ftco.Buf, v *Value) {
	for i := range p.values {
		if p.values[i].seq == seq && p.values[i].name == name {
			p.values[i].v = v
			return
		}
	}
	p.values = append(p.values, named{seq, name, v})
}
