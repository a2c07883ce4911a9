package daemon

import (
	"syscall"
	"testing"
)

// The memory of a PE is measured before it ends: when it leaves, before it is killed, and in between.
func TestMemoryIsMeasured(t *testing.T) {
	s := startTest(t, []App{shell(2, "exec sleep 1000")}, func(c *settings) { c.Memory = true })
	host := pmixHost{s.clients}
	host.ClientConnected(s.name(0), s.pe(0).pid)
	host.ClientFinalized(s.name(0))
	if s.pe(0).memory.peak.Load() == 0 {
		t.Error("the memory of a PE was not measured when it left")
	}
	s.Signal(syscall.SIGKILL)
	for left := 2; left > 0; {
		e := <-s.Events()
		if e.Kind != Exited {
			continue
		}
		left--
		if e.Memory.Peak == 0 || e.Memory.Floor == 0 {
			t.Errorf("event %+v, want the memory of the PE and of this process", e)
		}
	}
	p := s.pe(0)
	p.memory.peak.Store(0)
	m := &memoryMeter{table: s.table, on: true}
	m.measureAll() // their numbers belong to other processes now
	if p.memory.peak.Load() != 0 {
		t.Error("the memory of another process was counted for a PE that has ended")
	}
	off := &memoryMeter{table: s.table}
	off.measureAll()
	if off.ownMemory() != 0 {
		t.Error("memory was measured although it was not asked for")
	}
}
