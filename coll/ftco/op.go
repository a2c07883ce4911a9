package ftco

// op is one operation as one member knows it. Its tree is laid over the members so that the root
// of a Reduce or Bcast is node 0: nodes here are places in that tree, unless a name says member.
type op struct {
	seq  uint64
	call Call
	me   Node // this member's node

	entered   bool  // the local member has called it
	gathers   bool  // the root decides only when it has heard of all; known once entered
	frozen    bool  // the contribution holds all of the living subtree, or is a question only
	decided   bool  // the decision is here
	acked     bool  // uniform: all of the living subtree holds the decision
	committed bool  // uniform: every living member holds the decision
	returned  bool  // the local call has returned
	lacking   bool  // a contribution in slots lacks a member
	idle      int32 // ticks since the last progress

	degree int32  // this member's children in the tree
	direct int32  // the children whose contributions are in slots
	slots  []slot // what came up, once for each node
	acks   []Node // nodes whose living subtrees hold the decision
	sets   *Sets  // of the contribution when frozen, of the decision when decided
	sentTo Node   // the node that got the contribution last
	haveTo Node   // the node that got the decision as Have, or that it came from
	ackTo  Node   // the node that got Ack last
	opener Node   // the first member that a message of this operation came from
}

// operations are the operations that a member may still be asked about.
type operations struct {
	ring    ring
	settled uint64 // all members have returned from the operations up to this one
	latest  uint64 // the last operation of which this member knows anything
}

// find returns the operation seq, or nil if nothing is known of it.
func (s *operations) find(seq uint64) *op {
	if seq == 0 {
		return nil
	}
	return s.ring.find(seq)
}

// open returns the operation seq. If nothing is known of it yet, open begins it with call.
func (s *operations) open(seq uint64, call *Call, w *view) *op {
	o := s.ring.place(seq, s.settled)
	if o.seq != seq {
		*o = op{seq: seq, call: *call, slots: o.slots[:0], acks: o.acks[:0], sentTo: None, ackTo: None, haveTo: None, opener: None}
		o.me = w.nodeOf(o, w.me)
		o.degree = int32(w.tree.Degree(o.me))
		s.latest = max(s.latest, seq)
	}
	return o
}

// reset drops all operations. Their room stays.
func (s *operations) reset() {
	s.settled, s.latest = 0, 0
	s.ring.clear()
}

// clone returns a copy that shares nothing that changes.
func (s *operations) clone() operations {
	return operations{ring: s.ring.clone(s.settled), settled: s.settled, latest: s.latest}
}
