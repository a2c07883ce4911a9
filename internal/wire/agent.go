package wire

import (
	"errors"
	"fmt"
)

// KindAgents is a request of the front end, as KindConfig is one: the addresses of the agents of all nodes.
const KindAgents Kind = 0x0700

// AgentMessage is a message between a daemon and the agent of its node, which it starts. Each is one packet of a unix socket of type
// SEQPACKET: a byte that says which message it is, and the body as Coder codes it. The agent inherits the socket.
//
//	daemon -> agent  AgentSetup     one; with the descriptor of the agent's page
//	daemon -> agent  AgentSegments  until all near PEs have theirs; with the descriptors of the segments
//	agent -> daemon  AgentReady     one; with the agent's event descriptor, unless it has failed
//	agent -> daemon  AgentFault     a PE has spoiled what it shares with the agent
//	daemon -> agent  AgentPeers     one; the addresses of all agents
//	daemon -> agent  AgentDrop      a PE is dead, or a node is lost
//	daemon -> agent  AgentLine      a PE has a line to the agent; with the descriptor of the agent's end
//	daemon -> agent  AgentGuest     a PE of a spawned job; with the descriptor of its segment
//	agent -> daemon  AgentDropped   no effect of it appears from now on; or the guests of a job are served, or why not
//	agent -> daemon  AgentBroken    a connection with the agent of another node has ended
type AgentMessage uint8

// The messages.
const (
	AgentMessageSetup AgentMessage = 1 + iota
	AgentMessageSegments
	AgentMessageReady
	AgentMessagePeers
	AgentMessageDrop
	AgentMessageFault
	AgentMessageDropped
	AgentMessageLine
	AgentMessageBroken
	AgentMessageGuest
)

// AgentPacket is the size of the largest packet: the addresses of a thousand agents.
const AgentPacket = 128 << 10

// AgentSetup says which node of which job an agent serves.
type AgentSetup struct {
	Job         [16]byte
	Key         [32]byte // proves to other agents that this one belongs to the job
	Node, Nodes int
	NPEs        int // of the job
	First, Near int // the PEs of this node
	SegmentSize uint64
	Incarnation uint32
	Patience    int64  // nanoseconds that another agent may be silent while PEs wait for it
	Listen      string // the address at which other agents reach this one; port 0: any
	LastPort    uint16 // if the address has a port: it may be any up to this one
	CollRadix   int    // of the trees of nodes, for collectives; 0: the agent's own choice
}

// AgentSegments comes with the descriptors of the segments of Count near PEs, from local index First on.
type AgentSegments struct{ First, Count int }

// AgentReady says at which address the agent listens.
type AgentReady struct {
	Addr string
	Err  string // why the agent has failed; empty: it has not
}

// AgentPeers has the addresses of all agents, by node. A node without PEs has none.
type AgentPeers struct{ Addrs []string }

// AgentDrop says what is dead. No effect of it is to appear on this node once the agent has answered.
type AgentDrop struct {
	Number uint64 // of the message, which the answer has; 0: none is wanted
	Node   int    // of the PE, or the node that is lost; -1: none is, and the answer alone is wanted
	PE     int    // index of a PE on that node; -1: the node is lost
	// Incarnation is the latest one of the PE that is dead. 0: that with which PEs begin.
	Incarnation uint32
	// Ended says that the PE is a guest of this node, whose job is over. What it has sent goes on to arrive.
	Ended bool
}

// AgentLine comes with the descriptor of the agent's end of a PE's line (express.go). It takes the place of an earlier one.
type AgentLine struct{ PE int } // its local index

// Append appends the packet to b.
func (m *AgentLine) Append(b []byte) []byte { return appendAgent(b, AgentMessageLine, m.code) }

// Parse reads a packet with such a message.
func (m *AgentLine) Parse(b []byte) error {
	return parseAgent(b, AgentMessageLine, "line of a PE", m.code)
}

func (m *AgentLine) code(c *Coder) { Integer(c, &m.PE) }

// AgentGuest says that the agent also serves a PE of a spawned job. It comes with the descriptor of the PE's segment.
type AgentGuest struct {
	Number      uint64 // which all guests of a job have, and the answer
	Last        bool   // of the guests: the agent answers, for all of them
	Job         [16]byte
	PE          int // in its job
	Index       int // by which agents name it, behind the near PEs of the first job
	SegmentSize uint64
}

// Append appends the packet to b.
func (m *AgentGuest) Append(b []byte) []byte { return appendAgent(b, AgentMessageGuest, m.code) }

// Parse reads a packet with such a message.
func (m *AgentGuest) Parse(b []byte) error {
	return parseAgent(b, AgentMessageGuest, "PE of a spawned job", m.code)
}

func (m *AgentGuest) code(c *Coder) {
	Integer(c, &m.Number)
	c.Bool(&m.Last)
	for i := range m.Job {
		Integer(c, &m.Job[i])
	}
	Integer(c, &m.PE)
	Integer(c, &m.Index)
	Integer(c, &m.SegmentSize)
}

// AgentDropped answers an AgentDrop, or the last AgentGuest of a job.
type AgentDropped struct {
	Number uint64
	Err    string // why the agent does not serve the guests; empty: it does
}

// AgentFault says that the agent serves a PE of its node no longer, and why.
type AgentFault struct {
	PE   int // its local index
	Text string
}

// AgentBroken says that a connection with the agent of another node has ended, which its agent did not want.
type AgentBroken struct{ Node int }

// Append appends the packet to b.
func (m *AgentBroken) Append(b []byte) []byte { return appendAgent(b, AgentMessageBroken, m.code) }

// Parse reads a packet with such a message.
func (m *AgentBroken) Parse(b []byte) error {
	return parseAgent(b, AgentMessageBroken, "news of a connection", m.code)
}

func (m *AgentBroken) code(c *Coder) { Integer(c, &m.Node) }

// Append appends the packet to b.
func (m *AgentDropped) Append(b []byte) []byte { return appendAgent(b, AgentMessageDropped, m.code) }

// Parse reads a packet with such a message.
func (m *AgentDropped) Parse(b []byte) error {
	return parseAgent(b, AgentMessageDropped, "answer of an agent", m.code)
}

// Append appends the packet to b.
func (m *AgentSetup) Append(b []byte) []byte { return appendAgent(b, AgentMessageSetup, m.code) }

// Append appends the packet to b.
func (m *AgentSegments) Append(b []byte) []byte {
	return appendAgent(b, AgentMessageSegments, m.code)
}

// Append appends the packet to b.
func (m *AgentReady) Append(b []byte) []byte { return appendAgent(b, AgentMessageReady, m.code) }

// Append appends the packet to b.
func (m *AgentPeers) Append(b []byte) []byte { return appendAgent(b, AgentMessagePeers, m.code) }

// Append appends the packet to b.
func (m *AgentDrop) Append(b []byte) []byte { return appendAgent(b, AgentMessageDrop, m.code) }

// Append appends the packet to b.
func (m *AgentFault) Append(b []byte) []byte { return appendAgent(b, AgentMessageFault, m.code) }

// Parse reads a packet with such a message.
func (m *AgentFault) Parse(b []byte) error {
	return parseAgent(b, AgentMessageFault, "fault of a PE", m.code)
}

// Parse reads a packet with such a message.
func (m *AgentSetup) Parse(b []byte) error {
	return parseAgent(b, AgentMessageSetup, "set-up of an agent", m.code)
}

// Parse reads a packet with such a message.
func (m *AgentSegments) Parse(b []byte) error {
	return parseAgent(b, AgentMessageSegments, "segments for an agent", m.code)
}

// Parse reads a packet with such a message.
func (m *AgentReady) Parse(b []byte) error {
	return parseAgent(b, AgentMessageReady, "first word of an agent", m.code)
}

// Parse reads a packet with such a message.
func (m *AgentPeers) Parse(b []byte) error {
	return parseAgent(b, AgentMessagePeers, "addresses of agents", m.code)
}

// Parse reads a packet with such a message.
func (m *AgentDrop) Parse(b []byte) error {
	return parseAgent(b, AgentMessageDrop, "news of a death for an agent", m.code)
}

// AgentMessageOf returns which message a packet has; 0: it is empty.
func AgentMessageOf(b []byte) AgentMessage {
	if len(b) == 0 {
		return 0
	}
	return AgentMessage(b[0])
}

func appendAgent(b []byte, kind AgentMessage, code func(*Coder)) []byte {
	return append(append(b, byte(kind)), Encode(code)...)
}

func parseAgent(b []byte, kind AgentMessage, what string, code func(*Coder)) error {
	if got := AgentMessageOf(b); got != kind {
		return fmt.Errorf("%s: packet %d of %d bytes, want packet %d", what, got, len(b), kind)
	}
	return Decode(b[1:], what, code)
}

func (m *AgentSetup) code(c *Coder) {
	for i := range m.Job {
		Integer(c, &m.Job[i])
	}
	for i := range m.Key {
		Integer(c, &m.Key[i])
	}
	for _, n := range []*int{&m.Node, &m.Nodes, &m.NPEs, &m.First, &m.Near} {
		Integer(c, n)
	}
	Integer(c, &m.SegmentSize)
	Integer(c, &m.Incarnation)
	Integer(c, &m.Patience)
	c.String(&m.Listen)
	Integer(c, &m.LastPort)
	Integer(c, &m.CollRadix)
	if c.Decodes() && (m.Near < 1 || m.First < 0 || m.First+m.Near > m.NPEs || m.Node < 0 || m.Node >= m.Nodes) {
		c.Fail(errors.New("the PEs are none of the job, or the node is not"))
	}
}

func (m *AgentSegments) code(c *Coder) {
	Integer(c, &m.First)
	Integer(c, &m.Count)
}

func (m *AgentReady) code(c *Coder) {
	c.String(&m.Addr)
	c.String(&m.Err)
}

func (m *AgentPeers) code(c *Coder) { List(c, &m.Addrs, (*Coder).String) }

func (m *AgentFault) code(c *Coder) {
	Integer(c, &m.PE)
	c.String(&m.Text)
}

func (m *AgentDropped) code(c *Coder) {
	Integer(c, &m.Number)
	c.String(&m.Err)
}

func (m *AgentDrop) code(c *Coder) {
	Integer(c, &m.Number)
	Integer(c, &m.Node)
	Integer(c, &m.PE)
	Integer(c, &m.Incarnation)
	c.Bool(&m.Ended)
}
