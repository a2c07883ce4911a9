package daemon

import (
	"errors"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
)

// incarnation is that of all PEs: none is started again.
const incarnation = 1

// news is how a process ended, and how that was learnt.
type news struct {
	end  ending.End
	pid  int
	at   time.Duration // the kernel's own time of it, 0 if that is not known
	tier string        // of the watch; empty: it was there to be reaped
}

// died takes the end of a PE's own process, the first time that it is told. The
// caller holds the lock.
//
// A program that a shell has started may go on without it. If the shell ended
// well, so may the program, and its own end is the PE's; otherwise it is killed, and
// the PE is dead when both are: after the news of its death nothing of it touches
// memory of others. A shell that has waited for its program, whose end the watch may
// tell of later or may not know, has said how the PE ends.
func (s *Step) died(p *proc, n news) {
	if p.dead {
		return
	}
	p.dead, p.last = true, n
	if p.connected && !p.isSettled() && p.member != p.pid() {
		switch {
		case n.end.Judge() != ending.Well:
			p.killRest()
			if p.memberWatched {
				return // it comes to memberDied
			}
		case p.memberLives():
			return // judged when its program has ended
		}
	}
	s.judge(p, n)
}

// memberLives says whether the process that had joined for a PE may be there still:
// only one that was reaped is not. The caller holds the lock.
func (p *proc) memberLives() bool {
	return p.member == 0 || !errors.Is(xunix.Kill(p.member, 0), syscall.ESRCH)
}

// memberDied takes the end of the process that had joined for a PE and was not the
// PE's own. The caller holds the lock.
//
// After one that exited with status 0, or nobody knows how, but without a farewell,
// its shell may start another: that is the launcher's to judge, see Forsake.
func (s *Step) memberDied(p *proc, n news) {
	p.memberWatched = false
	switch {
	case p.dead && p.last.end.Judge() != ending.Well:
		s.judge(p, p.last) // which has waited for this
	case p.unfinished() && (p.dead || n.end.Judge() != ending.Well):
		s.judge(p, n)
	}
}

// killRest kills what is left of the PE when its own process has died. The caller
// holds the lock.
func (p *proc) killRest() {
	if p.ended {
		_ = p.leash.Close()
	} else {
		p.signal(syscall.SIGKILL)
	}
	if p.memberWatched {
		_ = xunix.Kill(p.member, syscall.SIGKILL)
	}
}

// hasFailed says whether a PE's failure is known to everybody.
func (s *Step) hasFailed(p *proc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.failed
}

// unfinished says whether a PE has joined its job and left it without a farewell,
// or not yet. The caller holds the lock.
func (p *proc) unfinished() bool { return p.connected && (!p.isSettled() || p.lost) }

// judge makes an end known that is a failure, once for each PE. The caller holds
// the lock.
//
// The order is that in which somebody waits for it: the page, which all waits of
// PEs look at; the bells, for those who sleep; callbacks of PEs; PMIx clients; and
// the user.
func (s *Step) judge(p *proc, n news) {
	n.end.Unfinished = p.unfinished()
	if p.failed || n.end.Judge() == ending.Well {
		return
	}
	p.failed, p.learnt = true, n.tier
	if p.job.failed || p.job.page == nil {
		return // it never began, or is over
	}
	by := p.wished(n.end)
	if !s.cfg.EndsFirst || by != "" {
		s.publish(p, n)
	}
	s.tellExit(p, n.end)
	s.emit(Event{
		Kind: Failed, ID: p.id, PID: p.pid(), End: n.end, Tier: n.tier, GoesOn: !p.dead, By: by, Said: p.said(),
	})
}

// publish writes a failure on the page of its job and has all PEs look. The caller
// holds the lock.
//
// It lets them go first: what the step does next (PMIx, output) may take longer than
// a PE takes to return from its call, and on a busy node the PE would wait for the
// processor that the step is on. On two processors, of which the dead process holds
// one with the release of its memory, PEs learn of a death in two thirds of the time.
func (s *Step) publish(p *proc, n news) {
	p.job.page.Publish(p.id.PE, incarnation, causeOf(n.end), n.at)
	for _, v := range p.job.vitals {
		rma.Rouse(v.Bell)
	}
	p.job.stirred, p.job.failures = true, p.job.failures+1
	s.stir()
	s.yielder.GiveWay()
}

// tellExit tells the servers how a PE has ended.
func (s *Step) tellExit(p *proc, e ending.End) {
	s.pmix.ProcExited(p.name(), server.Exit{Code: e.Code, Signal: e.Signal, Unfinished: e.Unfinished})
	s.pmi.ProcExited(p.name())
}

// Forsake declares a PE failed that has joined its job and left it without a
// farewell, and nothing of which has joined again since; false if that is not so.
func (s *Step) Forsake(id ID) (is bool) {
	s.with(id, func(p *proc) {
		if is = p.lost; is {
			s.judge(p, news{pid: p.pid()})
		}
	})
	return is
}

// causeOf says in the words of the failure page how a PE failed.
func causeOf(e ending.End) failure.Cause {
	switch e.Judge() {
	case ending.Killed:
		return failure.BySignal(syscall.Signal(e.Signal), e.Core, e.OOM)
	case ending.Exited:
		return failure.ByExit(e.Code)
	case ending.Unfinished:
		if e.Unknown {
			return failure.Of(failure.Left)
		}
		return failure.ByLeaving(e.Code)
	default:
		return failure.Of(failure.Unknown)
	}
}

// stir has spreadNews look.
func (s *Step) stir() {
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}

// spreadNews tells PEs that there is something new on their page, so that those
// hear of it that are not waiting for anything.
func (s *Step) spreadNews() {
	packet := (&wire.OrderPacket{Order: wire.OrderNews}).Append(nil)
	for {
		select {
		case <-s.stirred:
		case <-s.closing:
			return
		}
		for _, t := range s.toStir() {
			// One that has no room has unread news.
			if err := xunix.SendAtOnce(t.conn, packet); err != nil && !errors.Is(err, syscall.EAGAIN) {
				s.cfg.Logger.Debug().Err(err).Msg("news")
			}
		}
	}
}

// toStir returns who takes orders among the PEs of jobs that have news.
func (s *Step) toStir() (takers []*taker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if !j.stirred {
			continue
		}
		j.stirred = false
		for _, p := range j.started() {
			if p.orders != nil && p.orders.replied && !p.failed {
				takers = append(takers, p.orders)
			}
		}
	}
	return takers
}

// makePage makes the page on which a job's failures are written, and maps the
// words by which its PEs are woken.
func (j *job) makePage() (err error) {
	if j.page, err = failure.Create(j.key, j.npes()); err != nil {
		return err
	}
	j.pageFD = int(j.page.File().Fd())
	for _, f := range j.heaps {
		v, err := symheap.MapVitals(f)
		if err != nil {
			return err
		}
		j.vitals = append(j.vitals, v)
	}
	return nil
}

// freePage gives it back, and the words. Failures are not told any more.
func (s *Step) freePage(j *job) error {
	s.mu.Lock()
	page, vitals := j.page, j.vitals
	j.page, j.vitals = nil, nil
	s.mu.Unlock()
	var errs []error
	for _, v := range vitals {
		errs = append(errs, v.Unmap())
	}
	if page != nil {
		errs = append(errs, page.Close())
	}
	return errors.Join(errs...)
}
