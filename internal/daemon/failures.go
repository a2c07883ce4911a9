package daemon

import (
	"errors"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/daemon/life"
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

// died takes the end of a PE's own process, of which only the first news counts. The caller holds the lock.
func (s *Step) died(p *proc, n news) {
	if p.life.Dead() {
		return
	}
	p.last = n
	s.carryOut(p, n, p.life.Die(n.end, p.memberIsGone()))
}

// memberIsGone says whether the process that had joined for a PE is known to have been reaped. Of the PE's own process
// nobody asks that, and of one whose number is unknown nobody knows it. The caller holds the lock.
func (p *proc) memberIsGone() bool {
	return p.member != 0 && p.member != p.pid() && errors.Is(xunix.Kill(p.member, 0), syscall.ESRCH)
}

// killRest kills what is left of the PE when its own process has died. The caller
// holds the lock.
func (p *proc) killRest() {
	if p.life.Ended() {
		_ = p.leash.Close()
	} else {
		p.signal(syscall.SIGKILL)
	}
	if p.life.MemberWatched() {
		_ = xunix.Kill(p.member, syscall.SIGKILL)
	}
}

// hasFailed says whether a PE's failure is known to everybody.
func (s *Step) hasFailed(p *proc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.life.Failed()
}

// carryOut does what the news n of a PE's life asks for. The caller holds the lock.
//
// A failure is made known in the order in which somebody waits for it: the page, which all waits of PEs look at; the
// bells, for those who sleep; callbacks of PEs; PMIx clients; and the user.
func (s *Step) carryOut(p *proc, n news, o life.Outcome) {
	if o.KillRest {
		p.killRest()
	}
	if !o.Fails {
		return
	}
	if o.ByOwn {
		n = p.last
	}
	n.end.Unfinished, p.learnt = o.Unfinished, n.tier
	if p.job.failed || p.job.page == nil {
		return // it never began, or is over
	}
	by := p.wished(n.end)
	if !s.cfg.EndsFirst || by != "" {
		s.publish(p, n)
	}
	s.tellExit(p, n.end)
	s.emit(Event{
		Kind: Failed, ID: p.id, PID: p.pid(), End: n.end, Tier: n.tier, GoesOn: !p.life.Dead(), By: by, Said: p.said(),
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
		var o life.Outcome
		is, o = p.life.Forsake()
		s.carryOut(p, news{pid: p.pid()}, o)
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
			if p.orders != nil && p.orders.replied && !p.life.Failed() {
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
