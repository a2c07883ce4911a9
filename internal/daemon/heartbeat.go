package daemon

import (
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/ending"
)

// Heartbeat says how the nodes of a job watch each other. It is plain data, which another process can be sent.
type Heartbeat struct {
	Period time.Duration // from ping to ping; 0: nobody watches
	Tier   uint8         // who answers the pings, as responder.Tier; 0: the best that works
	Job    uint64        // a random number, which all datagrams of the job have
	Key    [16]byte      // of the datagrams' codes
}

// HeartbeatAt says where a node answers pings. It is plain data, which another process can be sent.
type HeartbeatAt struct {
	Tier      uint8  // as responder.Tier; 0: the node does not answer
	Responder string // the address at which others ping the node
	Detector  string // the address of the daemon that watches others
	Lack      string // why the node does not answer; empty: it does, or is not to
}

// Watch is what nodes need to watch each other.
type Watch struct {
	Peers []HeartbeatAt // by node
	Tier  uint8         // the worst of all nodes
	// Check says that the node is only to find out whether it reaches the one that it would watch first. A firewall may let no
	// datagrams through: then all would hold each other for dead.
	Check bool
}

// Watcher is a Node that can watch others.
type Watcher interface {
	// Watch begins to watch other nodes, or checks whether it can. It is called before Launch.
	Watch(w Watch) error
}

// The parts of a word of PackEnd: the signal, the exit status, and a bit for each of the rest.
const (
	endSignalBits = 8
	endCodeBits   = 16

	endCore       = 1 << 24
	endOOM        = 1 << 25
	endUnfinished = 1 << 26
	endUnknown    = 1 << 27
)

// PackEnd returns how a PE has ended as the word that nodes send each other. The word has all of it: signals have 8 bits, and
// exit statuses 16.
func PackEnd(e ending.End) uint32 {
	w := uint32(e.Signal)&(1<<endSignalBits-1) | uint32(e.Code)&(1<<endCodeBits-1)<<endSignalBits
	for _, bit := range []struct {
		is   bool
		mask uint32
	}{{e.Core, endCore}, {e.OOM, endOOM}, {e.Unfinished, endUnfinished}, {e.Unknown, endUnknown}} {
		if bit.is {
			w |= bit.mask
		}
	}
	return w
}

// UnpackEnd is the inverse of PackEnd.
func UnpackEnd(w uint32) ending.End {
	return ending.End{
		Signal: int(w & (1<<endSignalBits - 1)), Code: int(w >> endSignalBits & (1<<endCodeBits - 1)),
		Core: w&endCore != 0, OOM: w&endOOM != 0, Unfinished: w&endUnfinished != 0, Unknown: w&endUnknown != 0,
	}
}

// noteStart tells who kills the node from outside of the daemon that a process belongs to it.
func (h *Hooks) noteStart(pid int) {
	if h.Started != nil {
		h.Started(pid)
	}
}

// noteEnd tells that the process has ended.
func (h *Hooks) noteEnd(pid int) {
	if h.Ended != nil {
		h.Ended(pid)
	}
}

// NodeLost makes the loss of another node known on this one: that of its PEs, of all jobs that the step knows, as FarFailed
// does. What was told of a PE before is not told again.
func (s *Step) NodeLost(node int) {
	for _, f := range s.table.pesOf(node) {
		if err := s.FarFailed(f); err != nil {
			s.cfg.Logger.Error().Err(err).Msg("loss of another node")
		}
	}
}

// pesOf returns the loss of a node for each job that has PEs there.
func (t *table) pesOf(node int) (all []FarFailure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.inOrder() {
		if !j.share.spans() {
			continue
		}
		f := FarFailure{Job: j.number, NodeLost: true}
		for pe, home := range j.share.Homes {
			if home == node && !j.isNear(pe) {
				f.PEs = append(f.PEs, pe)
			}
		}
		if len(f.PEs) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// EndNode kills all PEs and the agent, because others hold the node for dead. Nothing begins here any more. Close is still to
// be called.
func (s *Step) EndNode() {
	s.Refuse(false)
	s.agent.closing.Store(true)
	s.agent.kill()
	s.signals.send(syscall.SIGKILL)
}
