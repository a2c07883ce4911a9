package daemon

import (
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// clients takes what the servers of PMIx and PMI-1 learn about PEs, and what PEs ask for. The servers call it from one
// goroutine each. It needs no lock but that of the table.
type clients struct {
	table    *table
	events   *announcer
	meter    *memoryMeter
	watch    *deathWatch
	input    *input
	spawner  *spawner
	reporter *reporter
	log      func(s Stream, text []byte) // as Config.Log
}

// pmixHost passes on the calls of the PMIx server.
type pmixHost struct{ *clients }

// pmiHost passes on the calls of the PMI-1 server.
type pmiHost struct{ *clients }

// findPE returns a PE, nil if there is none that was started.
func (c *clients) findPE(name pmix.Proc) *localPE {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.table.named(name)
}

// join takes that a process has joined for a PE.
func (c *clients) join(name pmix.Proc) *localPE {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	p := c.table.named(name)
	if p != nil {
		c.table.noteJoin(p)
	}
	return p
}

// ClientConnected takes that process pid, 0 if that is unknown, has joined for a PE.
func (h pmixHost) ClientConnected(name pmix.Proc, pid int) {
	if p := h.join(name); p != nil {
		h.watch.addMember(p, pid)
	}
	h.reporter.logger.Debug().Stringer("pe", name).Dur("at", time.Since(h.events.began)).Msg("connected")
}

// ClientJoined takes that a PE has joined by PMI-1.
func (h pmiHost) ClientJoined(name pmix.Proc) { h.join(name) }

// ClientFinalized takes the farewell of a PE, whose process waits for the answer.
func (c *clients) ClientFinalized(name pmix.Proc) {
	if p := c.findPE(name); p != nil {
		c.leave(p, nil)
	}
}

// leave notes that a PE has left its job, and announces an event with that. The process of the PE waits meanwhile, so its
// memory can be looked at.
func (c *clients) leave(p *localPE, e *Event) {
	c.meter.measure(p)
	c.table.mu.Lock()
	p.noteLeave()
	if e != nil {
		c.events.append(announcement{of: p, event: e, withOut: true})
	}
	c.table.mu.Unlock()
	c.events.deliver()
}

// ClientLost takes the end of a PE's connection that was not announced.
func (c *clients) ClientLost(name pmix.Proc) {
	c.table.mu.Lock()
	if p := c.table.named(name); p != nil {
		if p.life.Lose() {
			close(p.departed)
		}
		c.events.append(announcement{of: p, event: &Event{Kind: Lost, ID: p.id, PID: p.pid}})
	}
	c.table.mu.Unlock()
	c.events.deliver()
}

// Abort ends the whole step if a PE asks for the end of its own job, in one word
// or PE by PE. Others are only killed.
func (h pmixHost) Abort(from pmix.Proc, procs []pmix.Proc, status int, msg string) {
	if own := h.killOthers(from, procs); own != nil {
		h.abort(own, status, msg)
	}
}

// killOthers kills PEs of this node for another one, unless that asks for the end of its own job: then the one that asks is returned.
func (c *clients) killOthers(from pmix.Proc, procs []pmix.Proc) (own *localPE) {
	by := c.table.nameOf(from)
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	victims, far := c.table.targets(from, procs), c.table.farTargets(from, procs)
	if own := c.table.named(from); own != nil && (len(procs) == 0 || own.job.coveredBy(victims, far)) {
		return own
	}
	for _, p := range victims {
		p.killFor(by)
	}
	return nil
}

// Abort ends the whole step.
func (h pmiHost) Abort(name pmix.Proc, status int) {
	if p := h.findPE(name); p != nil {
		h.abort(p, status, "")
	}
}

// abort announces that a PE wants its job to end. It has said its last word with that.
func (c *clients) abort(p *localPE, status int, msg string) {
	c.leave(p, &Event{Kind: Abort, ID: p.id, PID: p.pid, Status: status, Msg: msg})
}

// Control signals, stops, continues or ends PEs of this node for another one. The PMIx servers of other nodes have their
// hosts do the same.
func (h pmixHost) Control(from pmix.Proc, targets []pmix.Proc, action server.ControlAction) {
	by := h.table.nameOf(from)
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	for _, p := range h.table.targets(from, targets) {
		if sig := syscall.Signal(action.Signal); sig > 0 {
			if p.wish.by == "" || p.wish.sig != 0 { // who wants its end wants it still
				p.wish = wish{by, sig}
			}
			p.signal(sig)
		}
		if action.Pause {
			p.signal(xunix.SIGSTOP)
		}
		if action.Resume {
			p.signal(xunix.SIGCONT)
		}
		if action.Terminate {
			h.terminate(p, by)
		}
		if action.Kill {
			p.killFor(by)
		}
	}
}

// terminateGrace is the time between asking a PE to end and killing it, when
// another one wants it to end.
const terminateGrace = time.Second

// terminate asks a PE to end, and ends it if it does not. The caller holds the
// lock of the table.
func (c *clients) terminate(p *localPE, by string) {
	p.wish = wish{by: by}
	p.signal(syscall.SIGTERM)
	p.signal(xunix.SIGCONT)
	time.AfterFunc(terminateGrace, func() {
		c.table.mu.Lock()
		defer c.table.mu.Unlock()
		p.signal(syscall.SIGKILL)
	})
}

// Log passes on what a PE has logged through PMIx.
func (h pmixHost) Log(_ pmix.Proc, toStderr bool, text []byte) {
	if h.log == nil {
		return
	}
	stream := Stdout
	if toStderr {
		stream = Stderr
	}
	h.log(stream, text)
}

// Stdin passes on what a tool has pushed to PEs that read standard input.
func (h pmixHost) Stdin(to []pmix.Proc, data []byte, eof bool) {
	h.table.mu.Lock()
	targets := h.table.targets(pmix.Proc{}, to)
	h.table.mu.Unlock()
	for _, p := range targets {
		h.input.push(p.id, data, eof)
	}
}

// Spawn starts a job for a PMIx client.
func (h pmixHost) Spawn(r *server.SpawnRequest) { h.spawner.spawnByPMIx(r) }

// Spawn starts a job for a PMI-1 client.
func (h pmiHost) Spawn(r *pmi1.SpawnRequest) { h.spawner.spawnByPMI(r) }
