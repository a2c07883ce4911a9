package ftco

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll/tree"
)

// ErrConfig says that no machine has the wanted shape.
var ErrConfig = errors.New("no such collective")

// syncEvery is after how many broadcasts in succession, during which nobody
// waits for all others, one is entered by all before it is delivered. It bounds
// how many old results a member must keep.
const syncEvery = 8

// window is how many operations a machine holds: those from the last that all
// members entered up to the next such but one, which is as far as anybody can
// get ahead.
const window = 2*syncEvery + 2

// Config shapes a machine. All members of a group use the same one, but for Me.
type Config struct {
	N, Me int
	Radix int      // of the k-nomial tree
	Incs  []uint32 // the members' incarnations; nil: all 1
	Ticks int      // KEEPALIVEs after so many ticks without progress; 0: never
}

// Machine is one member's part in the collectives of a group. See the package's
// documentation for the protocol.
type Machine struct {
	cfg     Config
	tree    tree.Knomial
	failed  []uint64 // a bit for each member known to be dead
	nfailed int
	entered uint64 // the last operation that was entered here; the first is 1
	settled uint64 // all members have returned from operations up to this one
	loose   int    // broadcasts since one that all had to enter
	ops     [window]op
	scratch []Node
}

// New makes a machine, at rest.
func New(cfg Config) (*Machine, error) {
	t, err := tree.NewKnomial(cfg.N, cfg.Radix)
	if err != nil {
		return nil, err
	}
	if cfg.Me < 0 || cfg.Me >= cfg.N {
		return nil, fmt.Errorf("%w: member %d, want 0 to %d", ErrConfig, cfg.Me, cfg.N-1)
	}
	if cfg.Incs != nil && len(cfg.Incs) != cfg.N {
		return nil, fmt.Errorf("%w: %d incarnations of %d members", ErrConfig, len(cfg.Incs), cfg.N)
	}
	m := &Machine{cfg: cfg, tree: t, failed: make([]uint64, (cfg.N+63)/64)}
	degree := len(t.Children(0, nil)) // nobody has more
	m.scratch = make([]Node, 0, degree)
	room := make([]slot, window*degree)
	for i := range m.ops {
		m.ops[i].slots = room[i*degree : i*degree : (i+1)*degree]
	}
	return m, nil
}

// Step tells the machine of one event and appends to out what is to be done.
func (m *Machine) Step(ev Event, out []Action) []Action {
	switch ev.Kind {
	case Enter:
		return m.enter(ev.Call, out)
	case Recv:
		if m.isFailed(ev.From) { // late: nobody else will count it either
			return out
		}
		return m.receive(ev.From, ev.Msg, out)
	case PeerFailed:
		return m.peerFailed(ev.From, ev.Inc, out)
	case Tick:
		return m.tick(out)
	}
	return out
}

// enter begins the local call of the next operation.
func (m *Machine) enter(call Call, out []Action) []Action {
	if o := m.find(m.entered); o != nil && !o.returned {
		return append(out, Action{Kind: Refuse, Seq: m.entered})
	}
	m.entered++
	o := m.open(m.entered, call)
	if o.call != call {
		return append(out, Action{Kind: Mismatch, Seq: o.seq, To: o.opener, Msg: Msg{Call: o.call}})
	}
	o.entered = true
	o.gathers = call.Kind != Bcast
	if !o.gathers {
		if m.loose++; m.loose == syncEvery {
			o.gathers = true
		}
	}
	if o.gathers {
		m.loose = 0
	}
	if o.decided && (!call.Uniform || o.committed) {
		return m.deliver(o, out)
	}
	return m.progress(o, out)
}

// receive handles a message of an operation that is not settled.
func (m *Machine) receive(from Node, msg Msg, out []Action) []Action {
	if msg.Seq <= m.settled || msg.Seq >= m.settled+window {
		return out // everybody has returned from it; or a broken driver
	}
	o := m.open(msg.Seq, msg.Call)
	if o.call != msg.Call {
		return append(out, Action{Kind: Mismatch, Seq: o.seq, To: from, Msg: msg})
	}
	if o.opener == None {
		o.opener = from
	}
	if msg.Kind != KeepAlive { // who asks brings nothing: what it had sent may be what is lost
		o.idle = 0
	}
	switch msg.Kind {
	case Up:
		return m.receiveUp(o, from, msg, out)
	case Down, Have:
		return m.receiveDecision(o, from, msg, out)
	case Ack:
		return m.receiveAck(o, from, out)
	case Commit:
		return m.commit(o, out)
	case KeepAlive:
		return m.receiveKeepAlive(o, from, out)
	case Alive: // having come was its message
	}
	return out
}

// peerFailed looks at all operations that somebody may still need.
func (m *Machine) peerFailed(p Node, inc uint32, out []Action) []Action {
	if m.isFailed(p) || p < 0 || int(p) >= m.cfg.N || inc < m.incarnation(p) {
		return out
	}
	m.failed[p/64] |= 1 << (p % 64)
	m.nfailed++
	for seq := m.settled + 1; seq < m.settled+window; seq++ {
		if o := m.find(seq); o != nil {
			out = m.progress(o, out)
		}
	}
	return out
}

func (m *Machine) incarnation(p Node) uint32 {
	if m.cfg.Incs == nil {
		return 1
	}
	return m.cfg.Incs[p]
}

func (m *Machine) isFailed(p Node) bool {
	return m.nfailed > 0 && m.failed[p/64]&(1<<(p%64)) != 0
}

// find is the operation seq, or nil if nothing is known of it.
func (m *Machine) find(seq uint64) *op {
	if o := &m.ops[seq%window]; seq != 0 && o.seq == seq {
		return o
	}
	return nil
}

// open is the operation seq, begun if need be.
func (m *Machine) open(seq uint64, call Call) *op {
	o := &m.ops[seq%window]
	if o.seq != seq {
		*o = op{seq: seq, call: call, slots: o.slots[:0], acks: o.acks[:0], me: Node(m.cfg.Me), sentTo: None, ackTo: None, haveTo: None, opener: None}
		o.me = o.virtual(o.me, m)
	}
	return o
}
