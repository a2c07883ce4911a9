package agent

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// daemonFD is the descriptor of the socket to the daemon, which the process inherits.
const daemonFD = 3

// RunProcess is the work of "oshrun agent", which a daemon starts: it serves the PEs of the daemon's node until the daemon
// ends. The daemon says by a socket what the agent needs (package internal/wire).
//
// It has precedence over the PEs of its session where the user may have that. PEs that poll must not keep the agent from a
// processor: other nodes wait for its answers. An agent without work sleeps, so it takes nothing from them. All threads have it,
// as the one that serves waits for those that collect garbage.
func RunProcess() error {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	_ = xunix.RaisePriority() // where it is allowed
	line, err := xunix.PacketConn(daemonFD)
	if err != nil {
		return fmt.Errorf("oshrun starts its agents itself: %w", err)
	}
	return verdict(serve(line))
}

// errDaemonEnded is why an agent ends in order.
var errDaemonEnded = errors.New("the daemon has ended")

// verdict returns what an agent that has ended has to say; nil: its daemon has ended.
func verdict(err error) error {
	if errors.Is(err, errDaemonEnded) {
		return nil
	}
	return err
}

// ofLine marks an error of the socket to the daemon that says that the daemon has ended. Other agents' sockets have the same
// errors, and mean something else.
func ofLine(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", errDaemonEnded, err)
	}
	return err
}

// serve does what the daemon at the other end of a line wants.
func serve(line *os.File) error {
	cfg, key, at, err := receiveSetup(line)
	if err == nil {
		err = registerMembarrier(&cfg)
	}
	if err != nil {
		return reportFailure(line, err)
	}
	return serveNode(line, cfg, key, at)
}

// reportFailure tells the daemon why the agent cannot begin. It returns nil if the daemon knows it then.
func reportFailure(line *os.File, err error) error {
	ready := wire.AgentReady{Err: err.Error()}
	if serr := xunix.SendFDs(line, ready.Append(nil), nil); serr != nil {
		return errors.Join(err, serr)
	}
	return nil
}

// receiveSetup receives what the agent serves, and maps it.
func receiveSetup(line *os.File) (cfg Config, key [32]byte, at doorway, err error) {
	packet, fds, err := xunix.RecvFDs(line, wire.AgentPacket, 1)
	err = ofLine(err)
	defer func() { xunix.CloseFDs(fds) }()
	var setup wire.AgentSetup
	if err == nil {
		err = setup.Parse(packet)
	}
	if err == nil && len(fds) != 1 {
		err = fmt.Errorf("set-up of an agent: %d descriptors, want its page", len(fds))
	}
	if err == nil {
		at.first, err = netip.ParseAddrPort(setup.Listen)
		at.last = setup.LastPort
	}
	if err != nil {
		return cfg, key, at, err
	}
	cfg = Config{Job: setup.Job, Node: setup.Node, Nodes: setup.Nodes, Incarnation: setup.Incarnation, Patience: time.Duration(setup.Patience), CollRadix: setup.CollRadix}
	if cfg.Page, err = symheap.MapAgentPage(fds[0]); err == nil {
		cfg.Segments, err = receiveSegments(line, &setup, cfg.Page)
	}
	return cfg, setup.Key, at, err
}

// receiveSegments receives the segments of all near PEs and maps them.
func receiveSegments(line *os.File, setup *wire.AgentSetup, page *layout.AgentPage) (*symheap.Map, error) {
	pes, err := listPEs(setup, page)
	if err != nil {
		return nil, err
	}
	segments, err := symheap.NewMap(setup.Job, setup.Near, setup.SegmentSize)
	if err != nil {
		return nil, err
	}
	for next := 0; next < setup.Near; {
		packet, fds, err := xunix.RecvFDs(line, wire.AgentPacket, wire.MaxSegments)
		if err != nil {
			return nil, ofLine(err)
		}
		next, err = attachSegments(segments, pes, next, packet, fds)
		xunix.CloseFDs(fds)
		if err != nil {
			return nil, err
		}
	}
	if segments.Wire(0) == nil {
		return nil, errors.New("segments without a wire region, want one: their PEs could not reach the agent")
	}
	return segments, nil
}

// listPEs returns the PEs of this node, ascending. No PE runs yet, so the page is what the daemon has written.
func listPEs(setup *wire.AgentSetup, page *layout.AgentPage) ([]layout.PE, error) {
	pes := make([]layout.PE, setup.Near)
	list, part := page.List(), page.Parts[setup.Node%len(page.Parts)]
	if list != nil && (int(part.Count) != len(pes) || int(part.First)+len(pes) > len(list)) {
		return nil, fmt.Errorf("agent page: %d PEs of node %d, from place %d of %d, want %d", part.Count, setup.Node, part.First, len(list), len(pes))
	}
	for i := range pes {
		pes[i] = layout.PE(setup.First + i)
		if list != nil {
			pes[i] = layout.PE(list[int(part.First)+i])
		}
	}
	return pes, nil
}

// attachSegments maps the segments of one packet, the first of which has local index first, and returns the next index.
func attachSegments(segments *symheap.Map, pes []layout.PE, first int, packet []byte, fds []int) (next int, err error) {
	var m wire.AgentSegments
	if err := m.Parse(packet); err != nil {
		return 0, err
	}
	if m.First != first || m.Count != len(fds) || m.Count < 1 || first+m.Count > len(pes) {
		return 0, fmt.Errorf("%d descriptors of %d segments from segment %d of %d, want those from segment %d", len(fds), m.Count, m.First, len(pes), first)
	}
	for i, fd := range fds {
		if err := segments.Attach(layout.Local(first+i), pes[first+i], fd); err != nil {
			return 0, err
		}
	}
	return first + m.Count, nil
}

// registerMembarrier registers the process for membarrier, so that its stores and looks at bells are ordered by the
// membarrier of PEs. Where that is not possible, it asks all PEs for locked instructions, as a PE does.
func registerMembarrier(cfg *Config) error {
	if xunix.MembarrierRegister() == nil {
		cfg.Expedited = true
		return nil
	}
	rma.AskLocked(&cfg.Page.Bell)
	for i := range layout.Local(cfg.Segments.Len()) {
		rma.AskLocked(&cfg.Segments.Control(i).Bell)
	}
	return nil
}
