package ftco

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
)

// LiteralConfig shapes a machine that does what Algorithms 1 to 4 print.
type LiteralConfig struct {
	Tree    *tree.Levels // of one root
	Me      Node
	Latency int32
	Service ServiceDistance
	Value   int64 // the contribution; the operator is addition

	AsPrinted    bool // Algorithm 2, line 12, as printed: replace Value only if |Up| > 1
	AckStrangers bool // send ACK to all that want one; Algorithm 4, line 13, sends to Up and Down only
	Serving      bool // go on serving after the return
}

// Literal is Algorithms 1 to 4 for an allreduce as printed, with two exceptions. DATA marks its sender
// as arrived and is acknowledged; nothing works without that. Line 12 of Algorithm 2 is repaired
// unless AsPrinted is set. The machine shows that the algorithms do not meet the paper's own
// definition of fault tolerance (docs/ftco.md). Its sets are slices, which is enough for few nodes.
type Literal struct {
	cfg      LiteralConfig
	eta      [2]int32 // f_ETA of the subtree's DATA, and of the result
	value    int64
	up, down []Node
	arrived  []Node
	upSent   []Node
	downSent []Node
	toAck    []Node
	lastSent []int32 // by node
	lastAck  []int32 // by node
	inbox    []LiteralMsg
	returned bool
}

// LiteralMsg is a message of these machines.
type LiteralMsg struct {
	From  Node
	Kind  PubMsgKind
	Value int64 // of DATA
}

// LiteralAction is what a machine does in a step. Kind is PubSend, PubTook, or PubReturn, which takes
// no step and returns Msg.Value. It is 0 if the machine does nothing.
type LiteralAction struct {
	Kind PubActionKind
	To   Node
	Msg  LiteralMsg
}

// NewLiteral makes a machine at the beginning of its collective.
func NewLiteral(cfg LiteralConfig) (*Literal, error) {
	g, err := NewPublishedGroup(PublishedConfig{Tree: cfg.Tree, Collective: Allreduce, Latency: cfg.Latency, Service: cfg.Service})
	switch {
	case err != nil:
		return nil, err
	case cfg.Tree.Roots() != 1 || cfg.Me < 0 || int(cfg.Me) >= cfg.Tree.Len():
		return nil, fmt.Errorf("%w: node %d of a tree with %d nodes and %d roots, want one root", ErrPublished, cfg.Me, cfg.Tree.Len(), cfg.Tree.Roots())
	}
	n := cfg.Tree.Len()
	return &Literal{
		cfg: cfg, value: cfg.Value,
		eta:      [2]int32{g.etaSub[cfg.Me], g.etaFull[cfg.Me]},
		up:       cfg.Tree.Up(cfg.Me, nil),
		down:     slices.Clone(cfg.Tree.Children(cfg.Me)),
		lastSent: make([]int32, n), lastAck: make([]int32, n),
	}, nil
}

// Clone returns a machine in the same state that shares nothing that changes.
func (l *Literal) Clone() *Literal {
	c := *l
	for _, s := range []*[]Node{&c.up, &c.down, &c.arrived, &c.upSent, &c.downSent, &c.toAck, &c.lastSent, &c.lastAck} {
		*s = slices.Clone(*s)
	}
	c.inbox = slices.Clone(l.inbox)
	return &c
}

// Arrive puts a message into the inbound queue.
func (l *Literal) Arrive(m LiteralMsg) { l.inbox = append(l.inbox, m) }

// Returned returns the value, and whether the collective has returned it.
func (l *Literal) Returned() (int64, bool) { return l.value, l.returned }

// Turn runs one iteration of Algorithm 1's loop.
func (l *Literal) Turn(now int32) LiteralAction {
	if l.returned && !l.cfg.Serving {
		return LiteralAction{}
	}
	a, isDone := l.treeProgress(now)
	if a.Kind != 0 {
		return a
	}
	if isDone && !l.returned {
		l.returned = true
		return LiteralAction{Kind: PubReturn, Msg: LiteralMsg{Value: l.value}}
	}
	d := l.serviceDistance(now)
	for _, d := range []int32{d, 0} { // lines 8 to 11
		if a = l.handleMessageQueue(d, now); a.Kind != 0 {
			return a
		}
		if a = l.faultTolerance(d, now); a.Kind != 0 {
			return a
		}
	}
	return a
}

// serviceDistance is get_service_distance().
func (l *Literal) serviceDistance(now int32) int32 {
	return intervals(now, 4*max(1, l.cfg.Tree.Degree(l.cfg.Me)))
}

// shouldHandle reports whether x is at the distance d, or d is 0 for any.
func (l *Literal) shouldHandle(x Node, d int32) bool {
	return d == 0 || d == l.cfg.Tree.Distance(l.cfg.Me, x)
}

// handleMessageQueue is Algorithm 2.
func (l *Literal) handleMessageQueue(d, now int32) LiteralAction {
	for kind := PubData; kind <= PubAck; kind++ {
		for i, m := range l.inbox {
			if m.Kind != kind || !l.shouldHandle(m.From, d) {
				continue
			}
			l.inbox = slices.Delete(l.inbox, i, i+1)
			l.handle(m, now)
			return LiteralAction{Kind: PubTook, Msg: m}
		}
	}
	return LiteralAction{}
}

// handle is the body of Algorithm 2 for one message.
func (l *Literal) handle(m LiteralMsg, now int32) {
	switch m.Kind {
	case PubData:
		above := slices.Contains(l.up, m.From)
		if l.cfg.AsPrinted {
			above = above && len(l.up) > 1
		}
		if above {
			l.value = m.Value
		} else {
			l.value += m.Value
		}
		l.arrived = include(l.arrived, m.From)
		l.toAck = include(l.toAck, m.From)
	case PubKeepAlive:
		l.toAck = include(l.toAck, m.From)
	case PubAck:
		l.lastAck[m.From] = now
	}
}

// treeProgress is Algorithm 3.
func (l *Literal) treeProgress(now int32) (a LiteralAction, isDone bool) {
	if !subset(l.down, l.arrived) {
		return a, false
	}
	for _, x := range l.up {
		if !slices.Contains(l.upSent, x) {
			l.upSent = append(l.upSent, x)
			return l.send(x, PubData), false
		}
	}
	if !subset(l.up, l.arrived) {
		return a, false
	}
	for _, x := range l.down {
		if !slices.Contains(l.downSent, x) {
			l.lastSent[x] = now
			l.downSent = append(l.downSent, x)
			return l.send(x, PubData), false
		}
	}
	return a, true
}

// faultTolerance is Algorithm 4.
func (l *Literal) faultTolerance(d, now int32) LiteralAction {
	for _, x := range slices.Concat(l.up, l.down) {
		if l.shouldHandle(x, d) && l.lastAck[x] < l.lastSent[x] && now-l.lastSent[x] > l.timeout(x) {
			if i := slices.Index(l.up, x); i >= 0 {
				l.up = l.replace(l.up, i, l.cfg.Tree.Up(x, nil))
			} else {
				l.down = l.replace(l.down, slices.Index(l.down, x), l.cfg.Tree.Children(x))
			}
			return LiteralAction{}
		}
	}
	targets := slices.Concat(l.up, l.down)
	if l.cfg.AckStrangers {
		targets = slices.Clone(l.toAck)
	}
	for _, x := range targets {
		if i := slices.Index(l.toAck, x); i >= 0 && l.shouldHandle(x, d) {
			l.toAck = slices.Delete(l.toAck, i, i+1)
			return l.send(x, PubAck)
		}
	}
	for _, x := range slices.Concat(l.up, l.down) {
		if l.shouldHandle(x, d) && !slices.Contains(l.arrived, x) && now > l.expected(x) && now-l.lastSent[x] > l.timeout(x) {
			l.lastSent[x] = now
			return l.send(x, PubKeepAlive)
		}
	}
	return LiteralAction{}
}

// replace returns list with the nodes by in place of element i.
func (l *Literal) replace(list []Node, i int, by []Node) []Node {
	list = slices.Delete(slices.Clone(list), i, i+1)
	for _, v := range by {
		if v != l.cfg.Me {
			list = include(list, v)
		}
	}
	return list
}

// expected is f_ETA: when x's DATA should have come.
func (l *Literal) expected(x Node) int32 {
	if slices.Contains(l.up, x) {
		return l.eta[1]
	}
	return l.eta[0]
}

// timeout is f_timeout.
func (l *Literal) timeout(x Node) int32 {
	t := l.cfg.Tree
	d := t.Distance(l.cfg.Me, x)
	interval := 4 * max(1, t.Degree(x))
	wanted := t.Peers(x, d) << d
	return 2*l.cfg.Latency + (wanted+interval-1)/interval*interval
}

// send makes a message.
func (l *Literal) send(to Node, kind PubMsgKind) LiteralAction {
	m := LiteralMsg{From: l.cfg.Me, Kind: kind}
	if kind == PubData {
		m.Value = l.value
	}
	return LiteralAction{Kind: PubSend, To: to, Msg: m}
}

// include returns set with v in it.
func include(set []Node, v Node) []Node {
	if slices.Contains(set, v) {
		return set
	}
	return append(set, v)
}

// subset reports whether all of a are in b.
func subset(a, b []Node) bool {
	for _, v := range a {
		if !slices.Contains(b, v) {
			return false
		}
	}
	return true
}

// AppendState appends all that the machine's behavior depends on apart from its configuration.
func (l *Literal) AppendState(b []byte) []byte {
	return fmt.Appendf(b, "%d %v %v %v %v %v %v %v %v %v %v", l.value, l.up, l.down, l.arrived, l.upSent, l.downSent,
		l.toAck, l.lastSent, l.lastAck, l.inbox, l.returned)
}
