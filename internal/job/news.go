package job

import (
	"slices"
	"sync"
	"time"

	"github.com/goshmem/goshmem/failure"
)

// news calls listeners with the deaths in the job, on a goroutine of its own. The step's
// OrderNews and Noticed wake the goroutine.
type news struct {
	view *failure.View
	wake chan struct{} // holds at most one signal, which stands for all deaths so far
	over chan struct{} // closed by stop
	end  sync.Once

	mu        sync.Mutex
	listeners []*listener
	after     []chan struct{} // closed when all listeners have been called with the deaths on the page
}

// listener is a function that was given to OnFailure.
type listener struct {
	call func(all []failure.Failure, epoch uint64)
	seen uint64         // the epoch up to which it was called; this and told are used by the goroutine alone
	told map[int]uint32 // by PE: the incarnation with whose death it was called
}

// keepNew returns those of some deaths with which the listener was not called, and notes them. The page has the death of a PE
// once more if the PE's node is lost later (failure.Page.PublishLoss).
func (h *listener) keepNew(all []failure.Failure) []failure.Failure {
	all = slices.DeleteFunc(all, func(f failure.Failure) bool { return h.told[f.PE] >= f.Incarnation })
	for i := range all {
		h.told[all[i].PE] = all[i].Incarnation
	}
	return all
}

// startNews starts the goroutine. Without a page it starts none.
func startNews(v *failure.View) *news {
	n := &news{view: v, wake: make(chan struct{}, 1), over: make(chan struct{})}
	if v != nil {
		go n.callListeners()
	}
	return n
}

// callListeners calls the listeners after every wake-up.
func (n *news) callListeners() {
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
			all, epoch := n.view.Since(h.seen)
			h.seen = epoch
			if all = h.keepNew(all); len(all) > 0 && n.isListening(h) {
				h.call(all, epoch)
			}
		}
		for _, done := range after {
			close(done)
		}
	}
}

// isListening reports whether a listener is still registered and news not stopped.
func (n *news) isListening(h *listener) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.over:
		return false
	default:
		return slices.Contains(n.listeners, h)
	}
}

// stop ends the goroutine. No further call of a listener begins.
func (n *news) stop() {
	if n != nil {
		n.end.Do(func() { close(n.over) })
	}
}

// awaitListeners waits until all listeners have been called with the deaths on the page and
// have returned. It returns after limit in any case, because a listener may call it.
func (n *news) awaitListeners(limit time.Duration) {
	if n.view.Epoch() == 0 {
		return
	}
	done := make(chan struct{})
	n.mu.Lock()
	n.after = append(n.after, done)
	n.mu.Unlock()
	n.wakeUp()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-n.over:
	}
}

// wakeUp makes the goroutine read the page, without waiting for it.
func (n *news) wakeUp() {
	if n == nil {
		return
	}
	select {
	case n.wake <- struct{}{}:
	default: // a signal is pending already
	}
}

// OnFailure has listen called with the new deaths in the job, in the order of PEs. The
// first call includes the deaths before OnFailure. One goroutine of the job calls all
// listeners, one after the other, in the order of registration. A listener may wait; the
// others wait for it. After cancel has returned, no further call begins. A Job that Acquire did
// not return calls nobody.
func (j *Job) OnFailure(listen func(all []failure.Failure, epoch uint64)) (cancel func()) {
	n, h := j.news, &listener{call: listen, told: map[int]uint32{}}
	if n == nil {
		return func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = append(n.listeners, h)
	n.wakeUp()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if i := slices.Index(n.listeners, h); i >= 0 {
			n.listeners = slices.Delete(n.listeners, i, i+1)
		}
	}
}

// listenersTimeout bounds the wait of AwaitListeners.
const listenersTimeout = 250 * time.Millisecond

// AwaitListeners waits until all listeners of OnFailure have been called with the deaths that
// are known, but at most a quarter of a second.
func (j *Job) AwaitListeners() { j.news.awaitListeners(listenersTimeout) }

// Alert registers f, which Noticed calls before it returns. It is for layers that must know of
// a death before the program's next call. f must not wait, and must do nothing if there is no
// new death. Remove unregisters f.
func (j *Job) Alert(f func()) (remove func()) { return j.alerts.Add(f) }

// Noticed reports that this process has seen a new epoch of the failure page. It calls the
// functions of Alert, and wakes the goroutine that calls the listeners of OnFailure.
func (j *Job) Noticed() {
	for _, f := range j.alerts.All() {
		(*f)()
	}
	j.news.wakeUp()
}
