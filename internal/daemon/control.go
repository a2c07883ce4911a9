package daemon

import (
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// terminateGrace is the time between asking a PE to end and killing it, when
// another one wants it to end.
const terminateGrace = time.Second

// wish is what another PE has asked for: a PE's end by it is none that ends the
// job.
type wish struct {
	by  string         // who, as for messages
	sig syscall.Signal // the end is by this signal; 0: any end
}

// Abort ends the whole step if a PE asks for the end of its own job, in one word
// or PE by PE. Others are only killed.
func (h host) Abort(from pmix.Proc, procs []pmix.Proc, status int, msg string) {
	by := h.s.called(from)
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	victims := h.s.targets(from, procs)
	if own := h.s.named(from); own != nil && (len(procs) == 0 || covers(victims, own.job)) {
		h.s.abort(own, status, msg)
		return
	}
	for _, p := range victims {
		p.kill(by)
	}
}

// Control signals, stops, continues or ends PEs for another one.
func (h host) Control(from pmix.Proc, targets []pmix.Proc, action server.ControlAction) {
	by := h.s.called(from)
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for _, p := range h.s.targets(from, targets) {
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
			h.s.terminate(p, by)
		}
		if action.Kill {
			p.kill(by)
		}
	}
}

// kill ends a PE at the wish of somebody. The caller holds the lock.
func (p *proc) kill(by string) {
	p.wish = wish{by: by}
	p.signal(syscall.SIGKILL)
	if p.life.GoesOn() {
		_ = p.leash.Close()
		p.noteLeave()
	}
}

// terminate asks a PE to end, and ends it if it does not. The caller holds the
// lock.
func (s *Step) terminate(p *proc, by string) {
	p.wish = wish{by: by}
	p.signal(syscall.SIGTERM)
	p.signal(xunix.SIGCONT)
	time.AfterFunc(terminateGrace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.signal(syscall.SIGKILL)
	})
}

// wished returns who wanted a PE to end as it did, empty if nobody. The caller
// holds the lock.
func (p *proc) wished(e ending.End) string {
	if p.wish.sig == 0 {
		return p.wish.by
	}
	if e.Signal == int(p.wish.sig) {
		return p.wish.by
	}
	return ""
}

// targets returns the processes that names stand for and that have been started:
// a wildcard for a whole job, no names for that of from. The caller holds the
// lock.
func (s *Step) targets(from pmix.Proc, names []pmix.Proc) (all []*proc) {
	if len(names) == 0 {
		names = []pmix.Proc{{Nspace: from.Nspace, Rank: pmix.RankWildcard}}
	}
	seen := map[*proc]bool{}
	for _, name := range names {
		found := []*proc{s.named(name)}
		if j := s.jobNamed(name.Nspace); j != nil && name.Rank == pmix.RankWildcard {
			found = j.started()
		}
		for _, p := range found {
			if p != nil && !seen[p] {
				seen[p], all = true, append(all, p)
			}
		}
	}
	return all
}

// named returns the process with a name, nil if there is none. The caller holds
// the lock.
func (s *Step) named(name pmix.Proc) *proc {
	j := s.jobNamed(name.Nspace)
	if j == nil || int64(name.Rank) >= int64(j.npes()) {
		return nil
	}
	return j.procs[name.Rank]
}

// covers says whether processes are all of a job that have not ended. The caller
// holds the lock.
func covers(procs []*proc, j *job) bool {
	among := map[*proc]bool{}
	for _, p := range procs {
		among[p] = true
	}
	for _, p := range j.procs {
		if p != nil && !p.life.Ended() && !among[p] {
			return false
		}
	}
	return true
}
