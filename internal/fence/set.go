package fence

import (
	"fmt"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/pmix/server"
)

// set is what a node knows of the fences of one set of processes. The n-th fence is the n-th call of the machine.
type set struct {
	id     server.FenceSet
	procs  []ProcRange
	nodes  []int // the nodes of the processes, ascending: member i of the machine is nodes[i]
	me     int32 // this node's member
	tree   tree.Knomial
	m      *ftco.Machine
	dead   map[int32]bool // members that are known to be dead
	acts   []ftco.Action  // room
	bufs   map[bufferName][]byte
	calls  []knownCall // fences that are known and have not ended here, ascending
	queue  [][]byte    // parts that were handed in and wait for the machine to return from the fence before
	handed uint64      // the last fence that the local server has handed in

	entered, returned uint64 // the last fence that the machine has been called for, and has returned from
}

// bufferName names a buffer that the machine has its driver keep.
type bufferName struct {
	seq uint64
	buf ftco.Buf
}

// knownCall is a fence that some node is in.
type knownCall struct {
	seq     uint64
	spares  bool
	expired bool // its deadline has passed on some node
}

// theCall is what all nodes call for each fence.
var theCall = ftco.Call{Kind: ftco.Allreduce, Uniform: true}

// newSet makes a set that has had no fence.
func (f *Fences) newSet(id server.FenceSet, nodes []int, procs []ProcRange) (*set, error) {
	me, ok := slices.BinarySearch(nodes, f.layout.Me)
	if !ok {
		return nil, fmt.Errorf("among nodes %v, want node %d to take part", nodes, f.layout.Me)
	}
	m, err := ftco.New(ftco.Config{N: len(nodes), Me: me, Radix: f.layout.Radix})
	if err != nil {
		return nil, fmt.Errorf("machine among %d nodes: %w", len(nodes), err)
	}
	t, err := tree.NewKnomial(len(nodes), f.layout.Radix)
	if err != nil {
		return nil, fmt.Errorf("tree of %d nodes: %w", len(nodes), err)
	}
	s := &set{
		id: id, procs: procs, nodes: nodes, me: int32(me), tree: t, m: m,
		dead: map[int32]bool{}, bufs: map[bufferName][]byte{},
	}
	for member, node := range nodes {
		if f.dead[node] {
			s.dead[int32(member)] = true
			s.m.Step(ftco.Event{Kind: ftco.PeerFailed, From: int32(member), Inc: 1}, nil) // no call yet: no action
		}
	}
	f.sets[id] = s
	return s, nil
}

// handIn takes the local server's part of a fence, and has the machine called for it when its turn comes.
func (s *set) handIn(part *server.FencePart, out []Output) []Output {
	switch seq := part.ID.Seq; {
	case seq <= s.handed:
		return out // The server does not know the job: it answers the call and the expiry of a fence each with its error.
	case seq > s.handed+1:
		return fault(out, "the local server hands in fence %v after number %d", part.ID, s.handed)
	}
	out = s.learn(knownCall{seq: part.ID.Seq, spares: part.Spares}, s.nodes[s.me], out)
	s.handed++
	s.queue = append(s.queue, appendPart(nil, s.me, part))
	out = s.tellServer(s.handed+1, out)
	return s.enterNext(out)
}

// learn notes that a fence has been called or has expired on some node, and tells neighbors and the local server what is
// news. The news came from a node, or from this one.
func (s *set) learn(c knownCall, from int, out []Output) []Output {
	if c.seq <= s.returned {
		return out
	}
	i, known := slices.BinarySearchFunc(s.calls, c.seq, func(k knownCall, seq uint64) int { return compareSeqs(k.seq, seq) })
	switch {
	case !known:
		s.calls = slices.Insert(s.calls, i, c)
	case c.expired && !s.calls[i].expired:
		s.calls[i].expired = true
	default:
		return out
	}
	out = s.sendCall(&s.calls[i], from, out)
	if from != s.nodes[s.me] && c.seq == s.handed+1 {
		out = s.tellServer(c.seq, out)
	}
	return out
}

func compareSeqs(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// tellServer tells the local server of the next fence that it is to hand in, if some node is in it. The server gets no
// fence before its turn: it numbers fences as it meets them.
func (s *set) tellServer(seq uint64, out []Output) []Output {
	for _, c := range s.calls {
		if c.seq != seq {
			continue
		}
		o := Output{Kind: Called, Call: server.FenceCall{ID: server.FenceID{FenceSet: s.id, Seq: seq}, Procs: procsOf(s.procs), Spares: c.spares}}
		if c.expired {
			o.Kind = Expired
		}
		return append(out, o)
	}
	return out
}

// sendCall sends a call to all neighbors in the tree of living members but the one that it came from.
func (s *set) sendCall(c *knownCall, from int, out []Output) []Output {
	for _, member := range s.neighbors() {
		if to := s.nodes[member]; to != from {
			m := &Message{
				Kind: msgCall, ID: server.FenceID{FenceSet: s.id, Seq: c.seq}, Spares: c.spares, Expired: c.expired, Nodes: s.nodes, Procs: s.procs,
			}
			out = append(out, Output{Kind: Send, To: to, Message: m})
		}
	}
	return out
}

// neighbors returns the living members to whom this member reports, or who report to it, by the deaths that it knows. The
// machine has the same tree: a member reports to its nearest living ancestor or, if there is none, to the lowest living
// member.
func (s *set) neighbors() (list []int32) {
	above := s.tree.Parent(s.me)
	for above >= 0 && s.dead[above] {
		above = s.tree.Parent(above)
	}
	if above < 0 {
		for above = 0; above != s.me && s.dead[above]; above++ {
		}
	}
	if above != s.me {
		list = append(list, above)
		return s.appendBelow(s.me, list)
	}
	return s.appendBelow(0, list) // the lowest living member: all below dead ones report to it
}

// appendBelow appends the living children of v, and in place of dead ones and of this member their children.
func (s *set) appendBelow(v int32, list []int32) []int32 {
	for c := v + 1; c < s.tree.End(v); c = s.tree.End(c) {
		if c == s.me || s.dead[c] {
			list = s.appendBelow(c, list)
		} else {
			list = append(list, c)
		}
	}
	return list
}

// nodeDead takes the news of a node's death.
func (s *set) nodeDead(node int, out []Output) []Output {
	member, ok := slices.BinarySearch(s.nodes, node)
	if !ok {
		return out
	}
	s.dead[int32(member)] = true
	for i := range s.calls {
		out = s.sendCall(&s.calls[i], s.nodes[s.me], out)
	}
	return s.step(&ftco.Event{Kind: ftco.PeerFailed, From: int32(member), Inc: 1}, nil, out)
}

// receive takes a message for the machine.
func (s *set) receive(from int, m *Message, out []Output) []Output {
	member, ok := slices.BinarySearch(s.nodes, from)
	if !ok {
		return fault(out, "node %d sends a message of fence %v, in which it does not take part", from, m.ID)
	}
	msg := ftco.Msg{Kind: m.Kind, Committed: m.Committed, Call: theCall, Seq: m.ID.Seq, Value: ftco.NoValue, Sets: m.Sets}
	if m.HasValue {
		msg.Value = ftco.Result // The machine looks only whether there is one.
	}
	if m.Sets != nil {
		for _, list := range [][]ftco.Node{m.Sets.Missing, m.Sets.Failed} {
			for _, v := range list {
				if v < 0 || int(v) >= len(s.nodes) {
					return fault(out, "node %d sends a message of fence %v with member %d, want one below %d", from, m.ID, v, len(s.nodes))
				}
			}
		}
	}
	return s.step(&ftco.Event{Kind: ftco.Recv, From: int32(member), Msg: msg}, m.Value, out)
}

// enterNext calls the machine for the next part if it has returned from the fence before.
func (s *set) enterNext(out []Output) []Output {
	if len(s.queue) == 0 || s.entered != s.returned {
		return out
	}
	s.entered++
	s.bufs[bufferName{s.entered, ftco.Buf(s.me)}] = s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	return s.step(&ftco.Event{Kind: ftco.Enter, Call: theCall}, nil, out)
}

// step gives the machine an event, with the bytes that came with it, and carries out the actions.
func (s *set) step(ev *ftco.Event, value []byte, out []Output) []Output {
	s.acts = s.m.Step(*ev, s.acts[:0])
	before := s.returned
	for i := range s.acts {
		out = s.carryOut(&s.acts[i], value, out)
	}
	clear(s.acts)
	if s.returned != before {
		out = s.enterNext(out)
	}
	return out
}

// carryOut does what the machine asks for.
func (s *set) carryOut(a *ftco.Action, value []byte, out []Output) []Output {
	id := server.FenceID{FenceSet: s.id, Seq: a.Seq}
	switch a.Kind {
	case ftco.Send:
		m := &Message{Kind: a.Msg.Kind, ID: id, Committed: a.Msg.Committed, HasValue: a.Msg.Value != ftco.NoValue, Sets: a.Msg.Sets}
		if m.HasValue {
			m.Value = s.bufs[bufferName{a.Seq, a.Msg.Value}] // none after the end: all living members have the decision
		}
		return append(out, Output{Kind: Send, To: s.nodes[a.To], Message: m})
	case ftco.Keep:
		if len(value) == 0 {
			return fault(out, "fence %v: a value is to be kept that did not come", id)
		}
		s.bufs[bufferName{a.Seq, a.Dst}] = value
	case ftco.Combine:
		to := bufferName{a.Seq, a.Dst}
		s.bufs[to] = combine(s.bufs[to], s.bufs[bufferName{a.Seq, a.Src}])
	case ftco.Decide:
		s.bufs[bufferName{a.Seq, ftco.Result}] = s.bufs[bufferName{a.Seq, a.Src}]
	case ftco.Deliver:
		return s.deliver(a, out)
	default:
		return fault(out, "fence %v: the machine refuses with %+v", id, *a)
	}
	return out
}

// deliver ends the fence from which the machine returns. All living members hold the decision then, so nobody asks for
// the data again.
func (s *set) deliver(a *ftco.Action, out []Output) []Output {
	var missing []int32
	if a.Msg.Sets != nil {
		missing = a.Msg.Sets.Missing
	}
	status, data := outcome(s.bufs[bufferName{a.Seq, a.Src}], missing, len(s.nodes))
	s.returned = a.Seq
	maps.DeleteFunc(s.bufs, func(name bufferName, _ []byte) bool { return name.seq <= a.Seq })
	s.calls = slices.DeleteFunc(s.calls, func(c knownCall) bool { return c.seq <= a.Seq })
	return append(out, Output{Kind: Done, ID: server.FenceID{FenceSet: s.id, Seq: a.Seq}, Status: status, Data: data})
}
