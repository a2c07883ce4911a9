package responder

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
)

// maxVictims is how many processes a fence can kill.
const maxVictims = 504

// pageSize is the size of a page in bytes.
const pageSize = 8192

// victim is a process that a fence kills.
type victim struct {
	start  atomic.Uint64 // ticks since boot; 0: unknown
	pid    atomic.Uint32 // 0: the entry is free
	unused uint32
}

// page is the memory that the daemon shares with who answers. The package documentation says who writes what. The kernel
// program has the same layout.
type page struct {
	job        uint64
	key        [2]uint64
	node       uint32
	inc        uint32
	address    [4]byte
	port       [2]byte // big endian
	spare      uint16  // 1: a fence leaves the daemon alone
	daemon     uint32  // number of its process
	tick       atomic.Uint32
	ended      atomic.Uint32 // 1: the daemon has ended
	fences     atomic.Uint32 // that have come; 0: the node is not fenced
	used       atomic.Uint32 // entries of victims from here on are free
	stillTick  uint32        // the kernel program's
	stillSince uint64        // the kernel program's: when stillTick was seen first
	answers    uint64        // the kernel program's: how many it has sent
	begun      uint64        // start time of the daemon; 0: unknown
	unused     [5]uint64
	victims    [maxVictims]victim
}

// set sets the page's identity.
func (p *page) set(cfg *Config, at netip.AddrPort, daemon int, begun uint64) {
	p.job = cfg.Job
	p.key = [2]uint64{binary.LittleEndian.Uint64(cfg.Key[:]), binary.LittleEndian.Uint64(cfg.Key[8:])}
	p.node, p.inc = uint32(cfg.Node), cfg.Inc
	if ip := at.Addr().Unmap(); ip.Is4() {
		p.address = ip.As4()
	}
	binary.BigEndian.PutUint16(p.port[:], at.Port())
	if cfg.SpareDaemon {
		p.spare = 1
	}
	p.daemon, p.begun = uint32(daemon), begun
}

// parse parses a datagram of the page's job.
func (p *page) parse(b []byte) (packet.Packet, error) {
	key := p.packetKey()
	return packet.Parse(b, p.job, &key)
}

func (p *page) packetKey() (key packet.Key) {
	binary.LittleEndian.PutUint64(key[:], p.key[0])
	binary.LittleEndian.PutUint64(key[8:], p.key[1])
	return key
}

// add enters a process. It returns false if there is no room. A process that is entered already with another start time
// has ended: its entry is used again.
func (p *page) add(pid uint32, start uint64) bool {
	free := -1
	for i := range p.victims {
		v := &p.victims[i]
		switch v.pid.Load() {
		case pid:
			v.start.Store(start)
			return true
		case 0:
			if free < 0 {
				free = i
			}
		}
	}
	if free < 0 {
		return false
	}
	v := &p.victims[free]
	v.start.Store(start)
	v.pid.Store(pid) // last: who finds it finds the start time
	if uint32(free) >= p.used.Load() {
		p.used.Store(uint32(free) + 1)
	}
	return true
}

// remove removes a process.
func (p *page) remove(pid uint32) {
	for i := range p.victims {
		if v := &p.victims[i]; v.pid.Load() == pid {
			v.pid.Store(0)
		}
	}
}

// mind is what the keeper or the goroutine of the user tier answers by.
type mind struct {
	*page
	starved    func() bool                       // nil: never
	kill       func(pid int, start uint64) error // kills the process that began at that time; nil if it is gone
	killDaemon bool                              // a fence also kills the daemon, unless page.spare is set
	out        [packet.Size]byte
}

// respond returns the answer to a datagram, nil if it gets none. The answer is valid until the next call.
//
//   - Cost: it allocates nothing, but for a fence.
func (m *mind) respond(b []byte) []byte {
	q, err := m.parse(b)
	if err != nil || q.Of != ring.Node(m.node) {
		return nil
	}
	a := packet.Packet{For: q.For, Of: q.Of, At: q.At, Job: q.Job, From: q.Of, Inc: m.inc, Tick: m.tick.Load()}
	switch q.Kind {
	case packet.Ping:
		a.Kind = packet.Answer
		a.Starved = m.starved != nil && m.starved()
	case packet.Fence:
		if q.Inc != m.inc || !m.fence() {
			return nil
		}
		a.Kind = packet.Fenced
	default:
		return nil
	}
	if m.ended.Load() != 0 {
		a.DaemonDead, a.Starved = true, false
	}
	a.Fenced = m.fences.Load() != 0
	key := m.packetKey()
	return a.Append(m.out[:0], &key)
}

// fence kills all registered processes, and the daemon if it is to. It returns false if one could not be killed: the fence is then not acknowledged.
func (m *mind) fence() bool {
	m.fences.Add(1)
	all := true
	for i := range m.used.Load() {
		v := &m.victims[i]
		if pid := v.pid.Load(); pid != 0 && m.kill(int(pid), v.start.Load()) != nil {
			all = false
		}
	}
	if m.killDaemon && m.spare == 0 && m.ended.Load() == 0 && m.kill(int(m.daemon), m.begun) != nil {
		all = false
	}
	return all
}
