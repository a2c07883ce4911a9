package mpi

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/wait"
)

// Calls that wait for some of several requests, or test them. A request that a call has returned before, and the zero Request, do not count.

// requestSet is such a call. It has claimed the requests that count.
type requestSet struct {
	op     string
	all    []Request
	counts []int // indexes in all of the requests that count, but for those of atOnce
	atOnce []int // indexes in all of the requests that were complete when they began: nothing is claimed
}

// newRequestSet claims the requests that count.
func newRequestSet(op string, all []Request) (*requestSet, error) {
	s := &requestSet{op: op, all: all}
	for i, q := range all {
		over, _, err := q.claim(op)
		if err != nil && !over { // not the error of a request that a call has returned before
			s.unclaim()
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
		if q.endedAtOnce() {
			s.atOnce = append(s.atOnce, i)
		} else if !over {
			s.counts = append(s.counts, i)
		}
	}
	return s, nil
}

// none reports whether no request counts.
func (s *requestSet) none() bool { return len(s.counts)+len(s.atOnce) == 0 }

// takeAtOnce returns the outcome of the first request that was complete when it began. From now on it does not count.
func (s *requestSet) takeAtOnce() (o Outcome) {
	o.Index, s.atOnce = s.atOnce[0], s.atOnce[1:]
	q := &s.all[o.Index]
	q.gen &^= useKept
	_, o.Status, o.Err = q.claim(s.op) // it is over
	return o
}

// unclaim ends the call for the requests that still count.
func (s *requestSet) unclaim() {
	for _, i := range s.counts {
		s.all[i].unclaim()
	}
	s.counts = nil
}

// engine returns the engine of the requests. At least one counts.
func (s *requestSet) engine() *engine { return s.all[s.counts[0]].r.g.e }

// find returns the place in counts of a request that is complete, or whose wait a death ends. It returns -1 if there is none.
func (s *requestSet) find() int {
	for k, i := range s.counts {
		if r := s.all[i].r; r.isDone() || r.stoppedByDeath() {
			return k
		}
	}
	return -1
}

// polls returns the count of polls in vain: that of the first request that counts, so that it goes on from one test to the next.
func (s *requestSet) polls() *uint32 { return &s.all[s.counts[0]].r.polls }

// Poll makes progress. The wait is over when one of the requests is.
func (s *requestSet) Poll() wait.Look {
	if s.find() >= 0 {
		return wait.Over
	}
	return s.progress()
}

// progress is Poll if none of the requests is complete, or all are waited for.
func (s *requestSet) progress() wait.Look {
	look, e := wait.Nothing, s.engine()
	if e.hasWork() {
		e.mu.Lock()
		if e.progress() {
			look = wait.Moved
		}
		e.unlock()
		if s.find() >= 0 {
			return wait.Over
		}
	}
	if *s.polls()++; *s.polls()%leftEvery == 0 {
		for _, i := range s.counts {
			e.endIfPeerLeft(s.all[i].r)
		}
		if s.find() >= 0 {
			return wait.Over
		}
	}
	return look
}

// Park notes the goroutine that waits for the requests, unless one is complete.
func (s *requestSet) Park(g *wait.Parked) bool {
	e := s.engine()
	e.mu.Lock()
	defer e.unlock()
	if slices.ContainsFunc(s.counts, func(i int) bool { return s.all[i].r.isDone() }) {
		return false
	}
	*s.polls() = leftEvery - 1
	for _, i := range s.counts {
		s.all[i].r.noteSleeper(g)
	}
	return true
}

// Unpark ends what Park has begun.
func (s *requestSet) Unpark() {
	e := s.engine()
	e.mu.Lock()
	defer e.unlock()
	for _, i := range s.counts {
		s.all[i].r.forgetSleeper()
	}
}

// Idle looks now and then for peers that have left.
func (s *requestSet) Idle(slept time.Duration) {
	if s.engine().isLongIdle(slept) {
		*s.polls() = leftEvery - 1
	}
}

// take ends the call for a request that find has found, and returns its index and outcome. A request that goes on after a death counts no more in
// this call.
//
// It returns -1 if the request goes on after all, as another goroutine has acknowledged the death meanwhile.
func (s *requestSet) take(k int) (i int, st Status, err error) {
	i = s.counts[k]
	q := s.all[i]
	err = q.r.deathError()
	done := q.r.isDone()
	if !done && err == nil {
		return -1, emptyStatus, nil
	}
	s.counts = slices.Delete(s.counts, k, k+1)
	if !done {
		g := q.r.g
		q.unclaim()
		return i, emptyStatus, handled(g, markPending(err))
	}
	st, err = q.conclude()
	return i, st, err
}

// await waits until find finds something.
func (s *requestSet) await() error {
	q := s.all[s.counts[0]]
	err := q.r.g.e.job.Waiter.WaitPoll(s, q.ctx)
	switch {
	case errors.Is(err, wait.ErrClosed):
		return usage(s.op, ErrFinalized, finalizedMeanwhile)
	case err != nil:
		return fmt.Errorf("mpi.%s: waiting for one of %d requests: %w", s.op, len(s.counts), err)
	}
	return nil
}

// WaitAny waits until one of the requests is complete. It returns its index and what Wait would. The index is -1 if no request was to
// be waited for: calls have returned all of them before, or they are zero.
//
//   - Completion: of the request with the index. All others go on.
//   - Errors: as Wait; with index -1 the end of the context of the first request that was not complete.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Waitany.
func WaitAny(all []Request) (int, Status, error) {
	s, err := newRequestSet("WaitAny", all)
	if err != nil || s.none() {
		return -1, emptyStatus, err
	}
	defer func() { s.unclaim() }()
	if len(s.atOnce) > 0 {
		o := s.takeAtOnce()
		return o.Index, o.Status, o.Err
	}
	for {
		if err := s.await(); err != nil {
			return -1, emptyStatus, err
		}
		if k := s.find(); k >= 0 {
			if i, st, err := s.take(k); i >= 0 {
				return i, st, err
			}
		}
	}
}

// TestAny makes progress and reports whether one of the requests is complete, or none was to be waited for. It returns its index and what Wait would. The
// index is -1 if all requests were complete before, and while none is complete.
//
//   - Errors: as WaitAny.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Testany.
func TestAny(all []Request) (i int, st Status, done bool, err error) {
	s, err := newRequestSet("TestAny", all)
	if err != nil || s.none() {
		return -1, emptyStatus, err == nil, err
	}
	defer func() { s.unclaim() }()
	if len(s.atOnce) > 0 {
		o := s.takeAtOnce()
		return o.Index, o.Status, true, o.Err
	}
	s.engine().job.Waiter.Beat()
	if s.Poll() != wait.Over {
		return -1, emptyStatus, false, nil
	}
	k := s.find()
	if k < 0 {
		return -1, emptyStatus, false, nil
	}
	i, st, err = s.take(k)
	return i, st, i >= 0, err
}

// Outcome is what became of a request.
type Outcome struct {
	Index  int // of the request
	Status Status
	Err    error
}

// WaitSome waits until at least one of the requests is complete, and returns the outcomes of all that are. It returns none if all requests were complete
// before.
//
//   - Errors: the end of the context of the first request that was not complete; those of requests are in their outcomes.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Waitsome.
func WaitSome(all []Request) ([]Outcome, error) {
	s, err := newRequestSet("WaitSome", all)
	if err != nil || s.none() {
		return nil, err
	}
	defer func() { s.unclaim() }()
	if len(s.atOnce) > 0 {
		return s.takeAll(), nil
	}
	for {
		if err := s.await(); err != nil {
			return nil, err
		}
		if some := s.takeAll(); some != nil {
			return some, nil
		}
	}
}

// TestSome makes progress and returns the outcomes of all requests that are complete now. It does not return those that were complete before.
//
//   - Errors: those of requests are in their outcomes.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Testsome.
func TestSome(all []Request) ([]Outcome, error) {
	s, err := newRequestSet("TestSome", all)
	if err != nil || s.none() {
		return nil, err
	}
	defer func() { s.unclaim() }()
	if len(s.counts) > 0 {
		s.engine().job.Waiter.Beat()
		s.Poll()
	}
	return s.takeAll(), nil
}

// takeAll takes all requests that are complete.
func (s *requestSet) takeAll() (some []Outcome) {
	for len(s.atOnce) > 0 {
		some = append(some, s.takeAtOnce())
	}
	for k := s.find(); k >= 0; k = s.find() {
		var o Outcome
		if o.Index, o.Status, o.Err = s.take(k); o.Index < 0 {
			break
		}
		some = append(some, o)
	}
	slices.SortFunc(some, func(a, b Outcome) int { return a.Index - b.Index })
	return some
}

// TestAll makes progress and reports whether all requests are complete. If they are, it writes the status of request i to statuses[i], if
// statuses has that element, and returns what WaitAll would. Otherwise none of them has ended.
//
//   - Errors: as WaitAll.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Testall.
func TestAll(all []Request, statuses []Status) (done bool, err error) {
	s, err := newRequestSet("TestAll", all)
	if err != nil {
		return false, err
	}
	if len(s.counts) > 0 {
		s.engine().job.Waiter.Beat()
		s.progress() // also if one of them is complete: the others may need it
	}
	ends := make([]bool, len(all)) // requests that count and are complete; the others that count wait for the dead
	for _, i := range s.counts {
		if ends[i] = all[i].r.isDone(); !ends[i] && !all[i].r.stoppedByDeath() {
			s.unclaim()
			return false, nil
		}
	}
	for len(s.atOnce) > 0 {
		s.takeAtOnce()
	}
	var failed []error
	for i, q := range all {
		var st Status
		var err error
		switch {
		case ends[i]:
			st, err = q.conclude()
		case slices.Contains(s.counts, i):
			g := q.r.g
			err = markPending(q.r.deathError())
			q.unclaim()
			st, err = emptyStatus, handled(g, err)
		default:
			_, st, err = q.claim("TestAll") // it is over
		}
		if i < len(statuses) {
			statuses[i] = st
		}
		failed = append(failed, err)
	}
	return true, errors.Join(failed...)
}

// Completed returns the outcomes of requests in the order in which they end, each with the index of its request.
//
//   - Completion: the loop ends when all requests are complete, at the end of the context of one of them (an Outcome with index -1 and the
//     error), and after a request that a death keeps from ending.
func Completed(all []Request) iter.Seq2[int, Outcome] {
	return func(yield func(int, Outcome) bool) {
		for {
			i, st, err := WaitAny(all)
			if i < 0 && err == nil {
				return
			}
			if !yield(i, Outcome{i, st, err}) || i < 0 || errors.Is(err, ErrPending) {
				return
			}
		}
	}
}
