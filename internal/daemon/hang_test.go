package daemon

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
)

// progress returns the words in which a PE of the first job publishes its progress.
func (s *testStep) progress(pe int) symheap.Vitals {
	m := &s.table.job(0).memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vitals[pe]
}

// A PE that has joined and makes no calls hangs, by its words and by what the kernel says. It goes on when it calls
// again. A PE that waits for others, or that has not joined, does not hang.
func TestHangIsFound(t *testing.T) {
	s := startTest(t, []App{shell(3, "exec sleep 1000")}, func(c *settings) {
		c.Watchdog = Watchdog{Off: true, Hang: 40 * time.Millisecond}
	})
	host := pmixHost{s.clients}
	for pe := range 3 {
		v := s.progress(pe)
		atomic.StoreUint64(&v.Progress.Count, 1)
		if pe == 1 {
			atomic.StoreUint64(&v.Progress.Meets, 1) // it waits
		}
	}
	host.ClientConnected(s.name(0), s.pe(0).pid)
	host.ClientConnected(s.name(1), s.pe(1).pid)
	if e := s.next(Changed); e.PE != 0 || e.State != "hangs: no call of the library but Put for 40ms" {
		t.Errorf("event %+v, want PE 0 to hang", e)
	}
	atomic.AddUint64(&s.progress(0).Progress.Count, 1)
	if e := s.next(Changed); e.PE != 0 || e.State != "goes on" {
		t.Errorf("event %+v, want PE 0 to go on", e)
	}
	s.Suspend() // no PE hangs while the job is stopped
	awaitState(t, s.pe(0).pid, "stopped", stopped)
	h := &hangWatch{table: s.table, ailments: s.ailments, atMost: time.Nanosecond}
	for range 3 {
		h.lookAtAll()
	}
	s.events.emit(Event{Kind: Dropped})
	s.next(Dropped)
}

// A look is ignored if the process is no longer the PE's program when the look is used, or if the look is older than
// the end of a suspension.
func TestOldLooksAreIgnored(t *testing.T) {
	s := startTest(t, []App{shell(2, "exec sleep 1000")}, func(c *settings) { c.Watchdog.Off = true })
	h := &hangWatch{table: s.table, ailments: s.ailments, atMost: time.Nanosecond}
	host := pmixHost{s.clients}
	atomic.StoreUint64(&s.progress(0).Progress.Count, 1)
	host.ClientConnected(s.name(0), s.pe(0).pid)
	h.lookAtAll()
	looks, stand := h.readAll()
	if len(looks) != 1 || !stand[0] {
		t.Fatalf("looks %+v, want one at PE 0, which has called nothing since the last", looks)
	}
	host.ClientConnected(s.name(0), s.pe(1).pid) // as a shell's next program would
	h.addLooks(looks)
	looks[0].pid = s.pe(1).pid
	looks[0].At = 1 // long ago
	h.addLooks(looks)
	s.events.emit(Event{Kind: Dropped})
	s.next(Dropped)
	looks[0].At = int64(xunix.Monotonic())
	h.addLooks(looks)
	s.next(Changed)
}
