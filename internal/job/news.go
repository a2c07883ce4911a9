package job

import (
	"slices"
	"sync"
	"time"

	"github.com/goshmem/goshmem/failure"
)

// news tells those who asked for it of deaths in the job, on one goroutine of its
// own, which the step's order or a look at the failure page wakes.
type news struct {
	view *failure.View
	wake chan struct{} // has room for one, which stands for all that has happened
	over chan struct{}
	end  sync.Once

	mu        sync.Mutex
	listeners []*listener
	after     []chan struct{} // to be closed when all listeners were told of what is on the page now
}

// listener is a function that OnFailure was given, and the epoch up to which it was told.
type listener struct {
	tell func(all []failure.Failure, epoch uint64)
	told uint64 // belongs to the goroutine
}

// startNews begins to tell of what a page says. Without a page nothing ever happens,
// and nothing is begun.
func startNews(v *failure.View) *news {
	n := &news{view: v, wake: make(chan struct{}, 1), over: make(chan struct{})}
	if v != nil {
		go n.run()
	}
	return n
}

func (n *news) run() {
	for {
		select {
		case <-n.over:
			return
		case <-n.wake:
		}
		n.mu.Lock()
		listeners, after := slices.Clone(n.listeners), n.after
		n.after = nil
		n.mu.Unlock()
		for _, h := range listeners {
			all, epoch := n.view.Since(h.told)
			if len(all) > 0 && n.has(h) {
				h.told = epoch
				h.tell(all, epoch)
			}
		}
		for _, done := range after {
			close(done)
		}
	}
}

// has says whether a listener still wants news.
func (n *news) has(h *listener) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.over:
		return false
	default:
		return slices.Contains(n.listeners, h)
	}
}

// stop ends it: nobody is told anything any more.
func (n *news) stop() {
	if n != nil {
		n.end.Do(func() { close(n.over) })
	}
}

// settle returns when all listeners were told of what is on the page, and have returned,
// but after limit in any case: it may be a listener that calls it.
func (n *news) settle(limit time.Duration) {
	if n.view.Epoch() == 0 {
		return
	}
	done := make(chan struct{})
	n.mu.Lock()
	n.after = append(n.after, done)
	n.mu.Unlock()
	n.look()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-n.over:
	}
}

// look makes the goroutine look at the page. It does not wait for that.
func (n *news) look() {
	select {
	case n.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// OnFailure has tell called with the deaths in the job, those before the call
// included, once for each epoch in which there are new ones, in the order of PEs. It
// is called on a goroutine of the job's, one call after the other, in the order of
// registration; it may take its time, for which others wait. After cancel has
// returned, no further call begins.
func (j *Job) OnFailure(tell func(all []failure.Failure, epoch uint64)) (cancel func()) {
	n, h := j.news, &listener{tell: tell}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = append(n.listeners, h)
	n.look()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if i := slices.Index(n.listeners, h); i >= 0 {
			n.listeners = slices.Delete(n.listeners, i, i+1)
		}
	}
}

// settleAtMost is how long Settle waits for what OnFailure was given.
const settleAtMost = 250 * time.Millisecond

// Settle lets those be told of all deaths that are known who wait for that: it
// returns when they have, or after a quarter of a second.
func (j *Job) Settle() { j.news.settle(settleAtMost) }

// Alert makes Noticed call f before it returns, for what has to know of a death before the
// program's next call. f does nothing when there is nothing new, and waits for nobody. Several
// functions may be given; remove takes f away again.
func (j *Job) Alert(f func()) (remove func()) { return j.alerts.Add(f) }

// Noticed says that somebody has seen a new epoch of the failure page, so that
// those are told who wait for that.
func (j *Job) Noticed() {
	for _, f := range j.alerts.All() {
		(*f)()
	}
	j.news.look()
}
