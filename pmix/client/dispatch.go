package client

import (
	"slices"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxCached bounds how many events are kept for handlers that come later.
const maxCached = 512

// events are a client's handlers, and the events on their way to them.
//
// Every event meets every handler that wants it once: it is either delivered to the chain that the handler is in, or it
// is in the cache when the handler comes; both happen under the lock.
type events struct {
	register turn // one registration at a time talks to the server

	mu      sync.Mutex
	chain   chain
	lastID  HandlerID
	codes   map[wire.Status]int // handlers a code that the server knows of; StatusMaxErrConstant: default handlers
	cache   []cached
	queue   []delivery
	arrived uint64 // events so far
	running bool   // a goroutine empties the queue
	closed  bool
}

type cached struct {
	ev    *Event
	until time.Time // zero: it does not age
}

// delivery is an event for the whole chain, or for one handler that came after it.
type delivery struct {
	ev     *Event
	number uint64 // in the order of arrival
	only   *registration
}

func newEvents() *events {
	return &events{register: newTurn(), codes: map[wire.Status]int{}}
}

// add puts a handler into the chain. Until open, what it wants is kept for it.
func (e *events) add(r *registration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrFinalized
	}
	e.lastID++
	r.id, r.since = e.lastID, e.arrived
	if err := e.chain.insert(r); err != nil {
		return err
	}
	if r.opts.Fresh {
		return nil
	}
	now := time.Now()
	for _, old := range e.cache {
		if !old.stale(now) && r.wants(old.ev) {
			r.backlog = append(r.backlog, old.ev)
		}
	}
	return nil
}

func (k *cached) stale(now time.Time) bool { return !k.until.IsZero() && now.After(k.until) }

// open begins to call a handler, with what it has missed first.
func (e *events) open(r *registration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	missed := make([]delivery, 0, len(r.backlog)+len(e.queue))
	for _, ev := range r.backlog {
		missed = append(missed, delivery{ev: ev, only: r})
	}
	r.pending, r.backlog = false, nil
	e.queue = append(missed, e.queue...)
	e.run()
}

// drop takes a handler out.
func (e *events) drop(id HandlerID) *registration {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.chain.remove(id)
	if r != nil {
		r.gone = true
	}
	return r
}

// count adds a handler to or takes it from those of its codes, and returns the codes of which the server has to hear.
func (e *events) count(r *registration, by int) []wire.Status {
	if r.opts.Range == wire.RangeProcLocal {
		return nil
	}
	codes := r.codes
	if len(codes) == 0 {
		codes = []wire.Status{wire.StatusMaxErrConstant}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var changed []wire.Status
	for _, code := range codes {
		before := e.codes[code]
		e.codes[code] += by
		if e.codes[code] <= 0 {
			delete(e.codes, code)
		}
		if before == 0 || before+by == 0 {
			changed = append(changed, code)
		}
	}
	return changed
}

// pushed takes a frame that the server sent without being asked.
func (e *events) pushed(body []byte) {
	n, err := wire.DecodeNotification(body)
	if err != nil {
		return // a server that sends what is no event has none to tell
	}
	if ev, err := wire.ParseEvent(n); err == nil {
		e.deliver(&Event{Event: ev})
	}
}

// deliver hands an event to the handlers without waiting.
func (e *events) deliver(ev *Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.arrived++
	e.queue = append(e.queue, delivery{ev: ev, number: e.arrived})
	e.run()
}

// close drops what has not been delivered. A handler that runs is the last one.
func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.queue, e.cache = true, nil, nil
}

// run sees to it that a goroutine empties the queue; there is one at most.
func (e *events) run() {
	if !e.running && !e.closed && len(e.queue) > 0 {
		e.running = true
		go e.empty()
	}
}

func (e *events) empty() {
	for {
		ev, handlers, ok := e.next()
		if !ok {
			return
		}
		e.walk(ev, handlers)
	}
}

// next takes a delivery from the queue and finds the handlers for it.
func (e *events) next() (*Event, []*registration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.queue) == 0 {
		e.running = false
		return nil, nil, false
	}
	d := e.queue[0]
	e.queue = e.queue[1:]
	if d.only != nil {
		return d.ev, []*registration{d.only}, true
	}
	e.keep(d.ev)
	var handlers []*registration
	for _, r := range e.chain.matching(d.ev) {
		if r.opts.Fresh && d.number <= r.since {
			continue
		}
		if r.pending {
			r.backlog = append(r.backlog, d.ev)
			continue
		}
		handlers = append(handlers, r)
	}
	return d.ev, handlers, true
}

// keep puts an event into the cache. Declared models stay, other events make room for newer ones.
func (e *events) keep(ev *Event) {
	if ev.NoCache {
		return
	}
	now := time.Now()
	e.cache = slices.DeleteFunc(e.cache, func(k cached) bool { return k.stale(now) })
	if len(e.cache) >= maxCached {
		at := slices.IndexFunc(e.cache, func(k cached) bool { return k.ev.Status != wire.StatusModelDeclared })
		e.cache = slices.Delete(e.cache, max(at, 0), max(at, 0)+1)
	}
	k := cached{ev: ev}
	if ev.Timeout > 0 {
		k.until = now.Add(time.Duration(min(ev.Timeout, 1<<31)) * time.Second)
	}
	e.cache = append(e.cache, k)
}

// walk calls the handlers one after the other until one says that the event is dealt with.
func (e *events) walk(ev *Event, handlers []*registration) {
	var results []wire.Info
	for _, r := range handlers {
		if !e.begin(r) {
			continue
		}
		result := r.fn(&Event{Event: ev.Event, Handler: r.opts.Name, Results: slices.Clip(results)})
		results = append(results, wire.Info{Key: r.opts.Name, Value: wire.StatusValue(result.Status)})
		results = append(results, result.Info...)
		if result.Status == wire.StatusEventActionComplete {
			return
		}
	}
}

// begin reports whether a handler is to be called; one that is called once is not called again.
func (e *events) begin(r *registration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.gone || e.closed {
		return false
	}
	if r.opts.OneShot {
		r.gone = true
		e.chain.remove(r.id)
	}
	return true
}
