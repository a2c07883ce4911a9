package daemon

import (
	"os"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// memoryMeter looks how much memory the programs of PEs have, for Event.Memory. What it finds is noted without a lock: the
// most that was seen.
type memoryMeter struct {
	table *table
	on    bool
}

// measure looks at the memory of a PE's program, which may be about to end. The caller holds no lock. The PE's own number
// is that of its process until life.PE.Ended, so a look after which that is not so counts.
func (m *memoryMeter) measure(p *localPE) {
	if !m.on {
		return
	}
	m.table.mu.Lock()
	pid, over := p.programPID(), p.life.Ended()
	m.table.mu.Unlock()
	if over {
		return
	}
	peak, ok := xunix.PeakMemory(pid)
	m.table.mu.Lock()
	over = p.life.Ended() || p.programPID() != pid
	m.table.mu.Unlock()
	if !ok || over {
		return
	}
	for was := p.memory.peak.Load(); peak > was && !p.memory.peak.CompareAndSwap(was, peak); {
		was = p.memory.peak.Load()
	}
}

// measureAll looks at the memory of all programs.
func (m *memoryMeter) measureAll() {
	if !m.on {
		return
	}
	for _, p := range m.table.allStarted() {
		m.measure(p)
	}
}

// ownMemory returns the most memory that this process has had.
func (m *memoryMeter) ownMemory() uint64 {
	if !m.on {
		return 0
	}
	peak, _ := xunix.PeakMemory(os.Getpid())
	return peak
}

const (
	firstMeasure = time.Millisecond // a program has mostly its libraries by then
	mostMeasure  = time.Second
)

// follow looks at the memory of a PE's program again and again, more and more seldom, until
// it has ended: the kernel's own count at the end has the memory of this process in it.
func (m *memoryMeter) follow(p *localPE) {
	pause := time.NewTimer(firstMeasure)
	defer pause.Stop()
	for next := firstMeasure; ; next = min(2*next, mostMeasure) {
		select {
		case <-pause.C:
		case <-p.reaped:
			return
		}
		m.measure(p)
		pause.Reset(next)
	}
}
