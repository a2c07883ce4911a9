//go:build linux

package kernel

import (
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// events is a socket of a test at the process connector. The kernel sends to the youngest socket
// first, so what an older socket has received, all younger ones have received.
type events struct {
	*connector
	t    *testing.T
	poll *xunix.Poller
}

// listenFirst opens the socket. It is called before a watch is opened.
func listenFirst(t *testing.T) *events {
	t.Helper()
	fd, err := xunix.ProcessEvents()
	if err != nil {
		t.Skip(err)
	}
	ev := &events{connector: &connector{fd: fd}, t: t}
	t.Cleanup(func() { xunix.CloseFD(fd) })
	var missing *TierError
	if err := ev.subscribe(); errors.As(err, &missing) {
		t.Skip(err)
	}
	if ev.poll, err = xunix.NewPoller(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ev.poll.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := ev.poll.Watch(fd, 1, !closeOnce); err != nil {
		t.Fatal(err)
	}
	return ev
}

// await returns the next end of a thread of a process.
func (ev *events) await(pid int) notice {
	ev.t.Helper()
	for over := time.Now().Add(tooLong); time.Now().Before(over); {
		n, err := xunix.ReadPacket(ev.fd, ev.packet[:])
		if errors.Is(err, xunix.ErrAgain) {
			_, err = ev.poll.Wait(over)
			n = 0
		}
		if err != nil {
			ev.t.Fatal(err)
		}
		if n == 0 {
			continue
		}
		told, err := parseNotice(ev.packet[:n])
		if err != nil {
			ev.t.Fatal(err)
		}
		if told.what == procExit && int(told.process) == pid {
			return told
		}
	}
	ev.t.Fatalf("no end of a thread of %d in %v", pid, tooLong)
	return notice{}
}

// hold keeps a watch from reading notices until release is called.
func hold(w *Watch) (release func()) {
	w.reporting.Lock()
	w.mu.Lock()
	return func() {
		w.mu.Unlock()
		w.reporting.Unlock()
	}
}

// TestLateReader: notices that are read long after a process has ended report how its last thread
// ended, not the one that ended before.
func TestLateReader(t *testing.T) {
	for _, tier := range []Tier{BPF, ProcConn} {
		for name, reaped := range map[string]bool{"child": false, "reaped": true} {
			t.Run(tier.String()+"/"+name, func(t *testing.T) { lateReader(t, tier, reaped) })
		}
	}
}

func lateReader(t *testing.T, tier Tier, reaped bool) {
	t.Helper()
	ev := listenFirst(t)
	w, l := open(t, Config{Tier: tier})
	v := spawn(t, "leader later", "5")
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	release := hold(w)
	v.act()
	v.ready()
	first := ev.await(v.pid())
	before := xunix.Monotonic()
	v.act()
	last := ev.await(v.pid())
	if int(first.thread) != v.pid() || last.thread == first.thread {
		t.Errorf("threads %d and %d ended, want %d and then another one", first.thread, last.thread, v.pid())
	}
	const status = syscall.WaitStatus(5 << 8)
	if reaped { // it is too late to look up how it ended
		if got := v.reap(); got != status {
			t.Errorf("status %#x, want %#x", got, status)
		}
	}
	release()
	dead, released := l.awaitEnd(t, 1)
	wantStatus(t, dead, status)
	wantStatus(t, released, status)
	if dead.At < before || dead.At > last.at || tier == ProcConn && dead.At != last.at {
		t.Errorf("Dead has the time %v, threads ended at %v and %v, and the process was told to end after %v", dead.At, first.at, last.at, before)
	}
}

// TestLostPackets: if the kernel had no room for notices, the threads are listed again.
func TestLostPackets(t *testing.T) {
	ev := listenFirst(t)
	w, l := open(t, Config{Tier: ProcConn})
	c, ok := w.source.(*connector)
	if !ok {
		t.Fatalf("source %T", w.source)
	}
	v := spawn(t, "leader later", "5")
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	release := hold(w)
	room := func(bytes int) {
		if err := syscall.SetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes); err != nil {
			t.Fatal(err)
		}
	}
	room(1)
	for range 10 { // fills the socket
		other := spawn(t, "exit", "0")
		other.act()
		other.reap()
	}
	v.act() // the start of its second thread and the end of the first are lost
	v.ready()
	ev.await(v.pid())
	room(1 << 20)
	if err := c.drainEvents(w); err != nil {
		t.Fatal(err)
	}
	if now := w.byPID[v.pid()].threads; len(now) != 1 || maps.Equal(now, threads{uint32(v.pid()): {}}) || maps.Equal(now, threads{unlisted: {}}) {
		t.Errorf("got threads %v of process %d, want the second one", now, v.pid())
	}
	release()
	before := xunix.Monotonic()
	v.act()
	last := ev.await(v.pid())
	dead, _ := l.awaitEnd(t, 1)
	wantStatus(t, dead, v.reap())
	if dead.At != last.at && !mayLackTime(w, dead, before, last.at) {
		t.Errorf("Dead has the time %v, want %v", dead.At, last.at)
	}
}

// TestLastThread: in whatever order the notices of threads are read, those of the last thread give
// the time of the process's end. If notices are missing, there is no time.
func TestLastThread(t *testing.T) {
	const p = 1 // stands for the process's own number
	begins := func(thread uint32, at time.Duration) notice { return notice{what: procFork, at: at, thread: thread} }
	ends := func(thread uint32, at time.Duration) notice { return notice{what: procExit, at: at, thread: thread} }
	execs := func(at time.Duration) notice { return notice{what: procExec, at: at, thread: p} }
	for name, c := range map[string]struct {
		listed []uint32
		told   []notice
		want   time.Duration
	}{
		"single":                {[]uint32{p}, []notice{ends(p, 10)}, 10},
		"first thread first":    {[]uint32{p, 2}, []notice{ends(p, 10), ends(2, 20)}, 20},
		"first thread last":     {[]uint32{p, 2}, []notice{ends(2, 10), ends(p, 20)}, 20},
		"first thread before":   {[]uint32{2, 3}, []notice{ends(p, 10), ends(3, 20), ends(2, 30)}, 30},
		"begun later":           {[]uint32{p}, []notice{begins(2, 5), ends(p, 10), ends(2, 20)}, 20},
		"begun when listed":     {[]uint32{p, 2}, []notice{begins(2, 5), ends(p, 10), ends(2, 20)}, 20},
		"ended before listed":   {[]uint32{p}, []notice{begins(2, 5), ends(2, 6), ends(3, 7), ends(p, 10)}, 10},
		"exec before":           {[]uint32{2}, []notice{execs(2), ends(2, 10)}, 10},
		"begun before":          {[]uint32{p}, []notice{begins(2, 1), ends(p, 10)}, 10},
		"exec":                  {[]uint32{p, 2, 3}, []notice{ends(3, 5), ends(p, 6), execs(7), begins(4, 8), ends(p, 10), ends(4, 20)}, 20},
		"exec exchanged":        {[]uint32{p, 2}, []notice{ends(2, 6), execs(7), ends(p, 10)}, 10},
		"exec first":            {[]uint32{p, 2}, []notice{execs(7), ends(2, 8), ends(p, 10)}, 10},
		"exec first, exchanged": {[]uint32{p, 2}, []notice{execs(7), ends(p, 6), ends(p, 10)}, 10},
		"exec, not listed":      {[]uint32{unlisted}, []notice{ends(2, 5), execs(7), ends(p, 10)}, 10},
		"not listed":            {[]uint32{unlisted}, []notice{ends(p, 10), ends(2, 20)}, 0},
		"one notice lost":       {[]uint32{p, 2, 3}, []notice{ends(3, 5), ends(p, 10)}, 0},
		"no notice":             {[]uint32{p}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := open(t, Config{Tier: ProcConn})
			source, ok := w.source.(*connector)
			if !ok {
				t.Fatalf("source %T", w.source)
			}
			v := spawn(t, "exit", "7")
			if err := w.Add(v.pid(), 1); err != nil {
				t.Fatal(err)
			}
			release := hold(w)
			defer release()
			v.act()
			if err := xunix.WaitExited(v.pid()); err != nil {
				t.Fatal(err)
			}
			number := func(thread uint32) uint32 {
				if thread == p {
					return uint32(v.pid())
				}
				return thread
			}
			e := w.byPID[v.pid()]
			clear(e.threads)
			e.since = 3 // the time of the list
			for _, thread := range c.listed {
				e.threads[number(thread)] = struct{}{}
			}
			w.queued = w.queued[:0]
			for i, told := range c.told {
				if len(w.queued) > 0 {
					t.Fatalf("got reports %+v after %d of %d notices", w.queued, i, len(c.told))
				}
				told.thread, told.process = number(told.thread), uint32(v.pid())
				source.handleNotice(w, told)
			}
			if last := len(w.queued) > 0; last != (c.want != 0) {
				t.Errorf("got reports %+v after all notices", w.queued)
			}
			if c.want == 0 {
				source.handleOver(w, e)
				source.expireWaiting(w, time.Now().Add(noticeTimeout))
			}
			if len(w.queued) != 2 || w.queued[0].Kind != Dead || w.queued[1].Kind != Released {
				t.Fatalf("got reports %+v, want Dead and Released", w.queued)
			}
			if w.queued[0].At != c.want {
				t.Errorf("Dead has the time %v, want %v", w.queued[0].At, c.want)
			}
			wantStatus(t, w.queued[0], 7<<8)
		})
	}
}

// TestLiving: the listed threads are those whose ends are still to come.
func TestLiving(t *testing.T) {
	v := spawn(t, "threads", "17")
	all := listLiveThreads(v.pid())
	if _, ok := all[uint32(v.pid())]; len(all) != 18 || !ok {
		t.Errorf("got threads %v of process %d, want its own and 17 more", slices.Collect(maps.Keys(all)), v.pid())
	}
	v = spawn(t, "leader", "5")
	all = listLiveThreads(v.pid())
	if _, ok := all[uint32(v.pid())]; len(all) != 1 || ok {
		t.Errorf("got threads %v of process %d, want only another one", all, v.pid())
	}
	v.act()
	if err := xunix.WaitExited(v.pid()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // of a process that has ended, and of a number without a process
		if all := listLiveThreads(v.pid()); !maps.Equal(all, threads{unlisted: {}}) {
			t.Errorf("got threads %v of a process that has ended", all)
		}
		if v.ProcessState == nil {
			v.reap()
		}
	}
}
