package daemon

import (
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/daemon/pulse"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// hangLooks is how often a PE is looked at in the time that it may take.
const hangLooks = 8

// hangWatch looks whether PEs go on: whether they call the library, or wait in it
// for others. It is only asked for where both is to be expected all the time. The lock of the table guards the pulses.
type hangWatch struct {
	table    *table
	ailments *ailments
	atMost   time.Duration // how long a PE may go without a call
}

// run looks at all PEs again and again until closing is closed.
func (h *hangWatch) run(closing <-chan struct{}) {
	tick := time.NewTicker(max(h.atMost/hangLooks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.lookAtAll()
		case <-closing:
			return
		}
	}
}

// hangLook is a look at one PE.
type hangLook struct {
	pulse.Look
	p   *localPE
	pid int // of its program
}

// lookAtAll looks at all PEs once. Their words are read under the lock of the table, because the memory goes with the job.
// What the kernel says of their processes is looked up without it, for those whose word stands still: their threads, too.
func (h *hangWatch) lookAtAll() {
	looks, stand := h.readAll()
	for i := range looks {
		x := &looks[i]
		used, _ := xunix.ProcessTimeOf(x.pid) // of a process that is gone: Running says so
		x.Used = int64(used)
		if stand[i] {
			ready, ok := xunix.Running(x.pid)
			x.Ready, x.Waits = ready, !ok // what is ending does not hang
		}
	}
	h.addLooks(looks)
}

// addLooks lets looks count. The one at a PE of which another process is the program by then, or that was looked at later, is
// ignored.
func (h *hangWatch) addLooks(looks []hangLook) {
	h.table.mu.Lock()
	for _, x := range looks {
		if h.canHang(x.p) && x.p.programPID() == x.pid && !x.p.pulse.IsOld(x.Look) {
			h.addLook(x)
		}
	}
	h.table.mu.Unlock()
	h.ailments.events.deliver()
}

// readAll reads the words of all PEs that can hang, and begins anew with the others. Stand says which of the looks find
// that nothing was called.
func (h *hangWatch) readAll() (looks []hangLook, stand []bool) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	for _, p := range h.table.started() {
		if !h.canHang(p) {
			p.pulse = pulse.Pulse{}
			continue
		}
		x, ok := p.job.memory.readProgress(p.job.local(p.id.PE))
		if !ok {
			continue // the job is over
		}
		x.At = int64(xunix.Monotonic())
		looks, stand = append(looks, hangLook{Look: x, p: p, pid: p.programPID()}), append(stand, p.pulse.Stands(x))
	}
	return looks, stand
}

// canHang says whether a PE is to be looked at. The caller holds the lock of the table.
func (h *hangWatch) canHang(p *localPE) bool {
	return p.debug == notDebugged && !h.ailments.suspended && p.ailment.kind == 0 && !p.life.Dead() && p.life.Inside()
}

// addLook adds a look to a PE's pulse and reports what has changed. The
// caller holds the lock of the table, and has the announcement delivered when it does not hold it any more.
func (h *hangWatch) addLook(x hangLook) {
	moved, hung := x.p.pulse.Beat(x.Look, int64(h.atMost))
	switch {
	case hung:
		h.ailments.reportIll(x.p, x.p.pid, "hangs: no call of the library but Put for "+h.atMost.String())
	case moved:
		h.ailments.reportWell(x.p, x.p.pid, "goes on")
	}
}

// readProgress reads the words of a PE, and makes it mark its calls anew.
func readProgress(v symheap.Vitals) pulse.Look {
	x := pulse.Look{Count: atomic.LoadUint64(&v.Progress.Count), Calls: atomic.LoadUint64(&v.Progress.Calls) != 0}
	if x.Calls {
		atomic.StoreUint64(&v.Progress.Calls, 0) // a call between the two counts for this look
	}
	asleep := atomic.LoadUint32(&v.Bell.Sleeping)&layout.BellAsleep != 0
	meets := atomic.LoadUint64(&v.Progress.Meets) != 0
	x.Waits = asleep || meets || x.Count == 0
	return x
}
