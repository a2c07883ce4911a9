package ftco

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll/tree"
)

// ErrConfig reports a Config that no machine can have.
var ErrConfig = errors.New("no such collective")

// syncEvery bounds how many old decisions a member keeps. The root of a broadcast waits for no
// other member; of syncEvery broadcasts in succession, the last gathers before it decides, so that
// all members have returned from those before it when it ends.
const syncEvery = 8

// window is the number of operations that a machine may have to hold: from the last operation that
// all members have entered to the second next such one. No member can get further ahead.
const window = 2*syncEvery + 2

// Config shapes a machine. All members of a group use the same Config, apart from Me.
type Config struct {
	N, Me int
	Radix int      // of the k-nomial tree
	Incs  []uint32 // the members' incarnations; nil: all 1
	Ticks int      // a KEEPALIVE goes out after this many ticks without progress; 0: never
}

// Machine is one member's part in the collectives of a group. The package documentation describes
// the protocol.
type Machine struct {
	cfg     *Config // shared by a group, so its Me is not looked at
	view    view
	ops     operations
	entered uint64 // the last operation that the local member has called; the first is 1
	loose   uint8  // broadcasts in succession since an operation that gathers
}

// New makes a machine at rest.
func New(cfg Config) (*Machine, error) {
	if cfg.N > 0 && (cfg.Me < 0 || cfg.Me >= cfg.N) {
		return nil, fmt.Errorf("%w: member %d, want 0 to %d", ErrConfig, cfg.Me, cfg.N-1)
	}
	t, err := cfg.tree()
	if err != nil {
		return nil, err
	}
	return &Machine{cfg: &cfg, view: view{tree: t, me: Node(cfg.Me)}}, nil
}

// NewGroup makes the machines of all members of a group at rest, for a driver that runs all of
// them, like a simulation. Me is not looked at. The machines lie in one piece of memory, with room
// for one operation each.
func NewGroup(cfg Config) ([]Machine, error) {
	t, err := cfg.tree()
	if err != nil {
		return nil, err
	}
	group, ops, rings := make([]Machine, cfg.N), make([]op, cfg.N), make(ring, cfg.N)
	for v := range group {
		rings[v] = &ops[v]
		group[v] = Machine{cfg: &cfg, view: view{tree: t, me: Node(v)}, ops: operations{ring: rings[v : v+1 : v+1]}}
	}
	return group, nil
}

// tree returns the tree of all members.
func (c *Config) tree() (tree.Knomial, error) {
	t, err := tree.NewKnomial(c.N, c.Radix)
	if err == nil && c.Incs != nil && len(c.Incs) != c.N {
		err = fmt.Errorf("%w: %d incarnations of %d members", ErrConfig, len(c.Incs), c.N)
	}
	return t, err
}

// incarnation returns the incarnation of member p.
func (c *Config) incarnation(p Node) uint32 {
	if c.Incs == nil {
		return 1
	}
	return c.Incs[p]
}

// Reset puts the machine back to rest, as New made it. It keeps its memory.
func (m *Machine) Reset() {
	m.view.nfailed, m.entered, m.loose = 0, 0, 0
	m.view.failed.clear()
	m.ops.reset()
}

// Step handles one event and appends to out what the driver is to do.
func (m *Machine) Step(ev Event, out []Action) []Action {
	switch ev.Kind {
	case Enter:
		return m.beginCall(ev.Call, out)
	case Recv:
		if m.view.hasFailed(ev.From) { // late: no other member will count it either
			return out
		}
		return m.receive(ev.From, &ev.Msg, out)
	case PeerFailed:
		return m.peerFailed(ev.From, ev.Inc, out)
	case Tick:
		return m.tick(out)
	}
	return out
}

// beginCall begins the local call of the next operation.
func (m *Machine) beginCall(call Call, out []Action) []Action {
	if o := m.ops.find(m.entered); o != nil && !o.returned {
		return append(out, Action{Kind: Refuse, Seq: m.entered})
	}
	m.entered++
	o := m.ops.open(m.entered, &call, &m.view)
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
func (m *Machine) receive(from Node, msg *Msg, out []Action) []Action {
	if msg.Seq <= m.ops.settled || msg.Seq >= m.ops.settled+window {
		return out // all members have returned from it; or the driver is broken
	}
	o := m.ops.open(msg.Seq, &msg.Call, &m.view)
	if o.call != msg.Call {
		return append(out, Action{Kind: Mismatch, Seq: o.seq, To: from, Msg: *msg})
	}
	if o.opener == None {
		o.opener = from
	}
	if msg.Kind != KeepAlive { // a question is no progress: what its sender had sent before may be lost
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
	case Alive: // its arrival is all that it says
	}
	return out
}

// peerFailed handles the death of incarnation inc of member p. The death may move every operation
// that is not settled.
func (m *Machine) peerFailed(p Node, inc uint32, out []Action) []Action {
	if p < 0 || int(p) >= m.view.tree.Len() || inc < m.cfg.incarnation(p) || !m.view.addFailed(p) {
		return out
	}
	for seq := m.ops.settled + 1; seq <= m.ops.latest; seq++ {
		if o := m.ops.find(seq); o != nil {
			out = m.progress(o, out)
		}
	}
	return out
}
