package daemon

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
)

// progress returns the words by which a PE of the first job says how it gets on.
func (s *testStep) progress(pe int) symheap.Vitals {
	m := &s.table.job(0).memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vitals[pe]
}

// A PE that has joined and calls nothing is found hung by what its words and the kernel say, and found to go on when it
// calls again. One that waits for others, or is not in its job, does not hang.
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
		t.Errorf("event %+v, want that PE 0 hangs", e)
	}
	atomic.AddUint64(&s.progress(0).Progress.Count, 1)
	if e := s.next(Changed); e.PE != 0 || e.State != "goes on" {
		t.Errorf("event %+v, want that PE 0 goes on", e)
	}
	s.Suspend() // while the job is stopped, nobody hangs
	awaitState(t, s.pe(0).pid, "stopped", stopped)
	h := &hangWatch{table: s.table, ailments: s.ailments, atMost: time.Nanosecond}
	for range 3 {
		h.lookAtAll()
	}
	s.events.emit(Event{Kind: Dropped})
	s.next(Dropped)
}

// A look at a process that is not the PE's program any more when it would count is ignored, and so is one that is older than the
// end of a suspension.
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
