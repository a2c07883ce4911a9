package agent

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport/tcp"
)

// nodeIncarnation is the incarnation of each node: none is started again.
const nodeIncarnation = 1

// serveNode listens, tells the daemon where, and serves until the daemon ends.
func serveNode(line *os.File, cfg Config, key [32]byte, at doorway) error {
	t, err := at.listen(tcp.Config{
		Self: cfg.Node, Nodes: cfg.Nodes, Incarnation: nodeIncarnation, Secret: key, Job: cfg.Job, Alone: true,
	})
	if err != nil {
		return reportFailure(line, err)
	}
	defer func() { _ = t.Close() }() // the process ends
	o := &orders{line: line, transport: t, packet: make([]byte, wire.AgentPacket)}
	cfg.Transport, cfg.Express, cfg.Orders, cfg.Fault = t, t, o.take, o.reportFault
	cfg.Broken = o.reportBroken
	cfg.Log = (&brief{to: os.Stderr, node: cfg.Node}).log
	a, err := New(cfg)
	if err != nil {
		return reportFailure(line, err)
	}
	ready := wire.AgentReady{Addr: t.Addrs()[0].String()}
	if err := xunix.SendFDs(line, ready.Append(nil), []int{t.WakeFD()}); err != nil {
		return ofLine(err)
	}
	if err := t.Watch(int(line.Fd())); err != nil {
		return err
	}
	return a.Run()
}

// orders takes what the daemon says while the agent runs.
type orders struct {
	line      *os.File
	transport *tcp.Transport
	packet    []byte
	parting   []partingAnswer
	refused   map[uint64]error // by the number of an AgentGuest: why guests of that number are not served, until the last one is there
}

// partingAnswer is the answer to the order to drop a PE of this node, whose last messages are being sent.
type partingAnswer struct {
	pe     layout.Local
	number uint64
}

// take carries out the orders that have come. A PE's record wakes the agent, too: it must not wait for a look at the line.
func (o *orders) take(a *Agent) error {
	if err := o.answerParted(a); err != nil {
		return err
	}
	if !o.transport.Watched() {
		return nil
	}
	return o.receive(a)
}

// receive carries out the orders on the line. It returns errDaemonEnded when the daemon has ended.
func (o *orders) receive(a *Agent) error {
	for {
		n, fd, err := xunix.RecvPacketFD(int(o.line.Fd()), o.packet)
		switch {
		case errors.Is(err, xunix.ErrAgain):
			return nil
		case err != nil:
			return ofLine(err)
		}
		if err := o.carryOut(a, o.packet[:n], fd); err != nil {
			return err
		}
	}
}

// reportFault tells the daemon that a PE is served no longer. The daemon kills it.
func (o *orders) reportFault(pe layout.Local, err error) {
	m := wire.AgentFault{PE: int(pe), Text: err.Error()}
	if err := xunix.SendAtOnce(o.line, m.Append(nil)); err != nil { // it reads at once, unless it is about to end
		fmt.Fprintf(os.Stderr, "agent: PE with local index %d: %s; the daemon cannot be told: %v\n", pe, m.Text, err)
	}
}

// reportBroken tells the daemon that a connection with another agent has ended: that node may be dead.
func (o *orders) reportBroken(node int) {
	m := wire.AgentBroken{Node: node}
	_ = xunix.SendAtOnce(o.line, m.Append(nil)) // it is a hint: others tell the daemon, too
}

// carryOut carries out one order, which comes with a descriptor if fd is not negative.
func (o *orders) carryOut(a *Agent, packet []byte, fd int) error {
	if wire.AgentMessageOf(packet) == wire.AgentMessageLine && fd >= 0 {
		var m wire.AgentLine
		if err := m.Parse(packet); err != nil {
			return err
		}
		return a.SetLine(layout.Local(m.PE), fd)
	}
	if fd >= 0 {
		defer xunix.CloseFDs([]int{fd})
	}
	switch kind := wire.AgentMessageOf(packet); kind {
	case wire.AgentMessagePeers:
		var m wire.AgentPeers
		if err := m.Parse(packet); err != nil {
			return err
		}
		return o.setPeers(a, m.Addrs)
	case wire.AgentMessageGuest:
		var m wire.AgentGuest
		if err := m.Parse(packet); err != nil {
			return err
		}
		return o.addGuest(a, &m, fd)
	case wire.AgentMessageDrop:
		var m wire.AgentDrop
		if err := m.Parse(packet); err != nil {
			return err
		}
		switch {
		case m.PE < 0:
			a.DropNode(m.Node)
		case m.Ended:
			if m.Node == a.cfg.Node {
				endGuest(a, layout.Local(m.PE))
			}
		case m.Incarnation == 0:
			a.DropPE(m.Node, layout.Local(m.PE))
		default:
			a.DropIncarnation(m.Node, layout.Local(m.PE), m.Incarnation)
		}
		if m.Number == 0 {
			return nil
		}
		if pe := layout.Local(m.PE); m.Node == a.cfg.Node && pe >= 0 && int(pe) < len(a.sources) && a.isParting(pe) {
			o.parting = append(o.parting, partingAnswer{pe, m.Number})
			return nil
		}
		return o.answer(m.Number, nil)
	default:
		return fmt.Errorf("order %d of the daemon, want %d, %d, %d or %d", kind, wire.AgentMessagePeers, wire.AgentMessageDrop, wire.AgentMessageLine, wire.AgentMessageGuest)
	}
}

// addGuest adds a guest, and answers when it is the last one of its job. The agent goes on after an error: only that job cannot begin.
func (o *orders) addGuest(a *Agent, m *wire.AgentGuest, fd int) error {
	err := o.refused[m.Number]
	if err == nil { // otherwise the daemon drops all of them
		err = a.AddGuest(m, fd)
	}
	if m.Last {
		delete(o.refused, m.Number)
		return o.answer(m.Number, err)
	}
	if err != nil {
		if o.refused == nil {
			o.refused = map[uint64]error{}
		}
		o.refused[m.Number] = err
	}
	return nil
}

// answer tells the daemon that an order is carried out, or why it is not.
func (o *orders) answer(number uint64, err error) error {
	answer := wire.AgentDropped{Number: number}
	if err != nil {
		answer.Err = err.Error()
	}
	return ofLine(xunix.SendAtOnce(o.line, answer.Append(nil))) // the daemon reads at once, unless it is about to end
}

// answerParted answers the orders to drop PEs whose last messages have come.
func (o *orders) answerParted(a *Agent) error {
	for i := 0; i < len(o.parting); {
		if a.isParting(o.parting[i].pe) {
			i++
			continue
		}
		if err := o.answer(o.parting[i].number, nil); err != nil {
			return err
		}
		o.parting = slices.Delete(o.parting, i, i+1)
	}
	return nil
}

// setPeers takes the addresses of other agents.
func (o *orders) setPeers(a *Agent, addrs []string) error {
	if len(addrs) != a.cfg.Nodes {
		return fmt.Errorf("addresses of %d agents, want those of %d nodes", len(addrs), a.cfg.Nodes)
	}
	for node, text := range addrs {
		if text == "" || node == a.cfg.Node {
			continue
		}
		addr, err := netip.ParseAddrPort(text)
		if err != nil {
			return fmt.Errorf("address of the agent of node %d: %w", node, err)
		}
		if err := o.transport.SetPeer(node, nodeIncarnation, []netip.AddrPort{addr}); err != nil {
			return err
		}
	}
	return nil
}

// mostLines is how many lines a brief writes in a second.
const mostLines = 10

// brief writes a few lines a second, and drops the others: what other nodes send must not fill a log.
type brief struct {
	to    io.Writer
	node  int
	since time.Time
	lines int
}

// log writes an error.
func (b *brief) log(err error) {
	if now := time.Now(); now.Sub(b.since) > time.Second {
		b.since, b.lines = now, 0
	}
	if b.lines++; b.lines <= mostLines {
		fmt.Fprintf(b.to, "agent of node %d: %v\n", b.node, err)
	}
}
