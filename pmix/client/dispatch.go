package client

import (
	"slices"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxCached bounds the number of events that are kept for handlers that come later.
const maxCached = 512

// dispatcher holds a client's handlers and delivers events to them.
//
// Every handler gets every event that it wants exactly once. Either the handler is in the chain when the event leaves
// the queue, or the event is in the cache when the handler is added. Both happen under the lock, so no event falls
// between.
type dispatcher struct {
	register turn // lets one registration at a time talk to the server

	mu      sync.Mutex
	chain   chain
	lastID  HandlerID
	codes   map[codec.Status]int // number of handlers by code registered at the server; StatusMaxErrConstant: default handlers
	cache   []cachedEvent        // delivered events, kept for handlers that come later
	queue   []delivery
	arrived uint64 // number of events so far
	running bool   // a goroutine drains the queue
	closed  bool
}

type cachedEvent struct {
	ev    *Event
	until time.Time // end of the event's use; zero: none
}

// delivery is an event on its way to handlers.
type delivery struct {
	ev     *Event
	number uint64        // number in the order of arrival
	only   *registration // the handler that missed the event; nil: the whole chain
}

func newDispatcher() *dispatcher {
	return &dispatcher{register: newTurn(), codes: map[codec.Status]int{}}
}

// add puts a handler into the chain. Until activate, its events go to its backlog.
func (d *dispatcher) add(r *registration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrFinalized
	}
	d.lastID++
	r.id, r.since = d.lastID, d.arrived
	if err := d.chain.insert(r); err != nil {
		return err
	}
	if r.opts.Fresh {
		return nil
	}
	now := time.Now()
	for _, old := range d.cache {
		if !old.stale(now) && r.wants(old.ev) {
			r.backlog = append(r.backlog, old.ev)
		}
	}
	return nil
}

func (k *cachedEvent) stale(now time.Time) bool { return !k.until.IsZero() && now.After(k.until) }

// activate begins to call a handler, first with the events of its backlog.
func (d *dispatcher) activate(r *registration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	missed := make([]delivery, 0, len(r.backlog)+len(d.queue))
	for _, ev := range r.backlog {
		missed = append(missed, delivery{ev: ev, only: r})
	}
	r.pending, r.backlog = false, nil
	d.queue = append(missed, d.queue...)
	d.startDrain()
}

// remove removes a handler from the chain and returns it; nil if there is none of that number.
func (d *dispatcher) remove(id HandlerID) *registration {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.chain.remove(id)
	if r != nil {
		r.gone = true
	}
	return r
}

// countCodes adds by, 1 or -1, to the number of handlers of each of r's codes. It returns the codes that got their
// first handler or lost their last one: the server must be told of these.
func (d *dispatcher) countCodes(r *registration, by int) []codec.Status {
	if r.opts.Range == codec.RangeProcLocal {
		return nil
	}
	codes := r.codes
	if len(codes) == 0 {
		codes = []codec.Status{codec.StatusMaxErrConstant}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var changed []codec.Status
	for _, code := range codes {
		before := d.codes[code]
		d.codes[code] += by
		if d.codes[code] <= 0 {
			delete(d.codes, code)
		}
		if before == 0 || before+by == 0 {
			changed = append(changed, code)
		}
	}
	return changed
}

// receive handles a frame with an event from the server.
func (d *dispatcher) receive(body []byte) {
	n, err := codec.DecodeNotification(body)
	if err != nil {
		return // a malformed event is dropped
	}
	if ev, err := codec.ParseEvent(n); err == nil {
		d.enqueue(&Event{Event: ev})
	}
}

// enqueue hands an event to the handlers without waiting for them.
func (d *dispatcher) enqueue(ev *Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrived++
	d.queue = append(d.queue, delivery{ev: ev, number: d.arrived})
	d.startDrain()
}

// close drops all events that have not been delivered. No handler is called after the one that runs.
func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.queue, d.cache = true, nil, nil
}

// startDrain starts the goroutine that drains the queue, unless it runs already. The caller holds the lock.
func (d *dispatcher) startDrain() {
	if !d.running && !d.closed && len(d.queue) > 0 {
		d.running = true
		go d.drain()
	}
}

// drain delivers events until the queue is empty.
func (d *dispatcher) drain() {
	for {
		ev, handlers, ok := d.dequeue()
		if !ok {
			return
		}
		d.callHandlers(ev, handlers)
	}
}

// dequeue removes the first delivery from the queue and returns its event and handlers.
func (d *dispatcher) dequeue() (*Event, []*registration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.queue) == 0 {
		d.running = false
		return nil, nil, false
	}
	first := d.queue[0]
	d.queue = d.queue[1:]
	if first.only != nil {
		return first.ev, []*registration{first.only}, true
	}
	d.cacheEvent(first.ev)
	var handlers []*registration
	for _, r := range d.chain.matching(first.ev) {
		if r.opts.Fresh && first.number <= r.since {
			continue
		}
		if r.pending {
			r.backlog = append(r.backlog, first.ev)
			continue
		}
		handlers = append(handlers, r)
	}
	return first.ev, handlers, true
}

// cacheEvent puts an event into the cache. A full cache drops its oldest event that declares no model.
func (d *dispatcher) cacheEvent(ev *Event) {
	if ev.NoCache {
		return
	}
	now := time.Now()
	d.cache = slices.DeleteFunc(d.cache, func(k cachedEvent) bool { return k.stale(now) })
	if len(d.cache) >= maxCached {
		at := slices.IndexFunc(d.cache, func(k cachedEvent) bool { return k.ev.Status != codec.StatusModelDeclared })
		d.cache = slices.Delete(d.cache, max(at, 0), max(at, 0)+1)
	}
	k := cachedEvent{ev: ev}
	if ev.Timeout > 0 {
		k.until = now.Add(time.Duration(min(ev.Timeout, 1<<31)) * time.Second)
	}
	d.cache = append(d.cache, k)
}

// callHandlers calls the handlers one after the other until one returns StatusEventActionComplete.
func (d *dispatcher) callHandlers(ev *Event, handlers []*registration) {
	var results []codec.Info
	for _, r := range handlers {
		if !d.beginCall(r) {
			continue
		}
		result := r.fn(&Event{Event: ev.Event, Handler: r.opts.Name, Results: slices.Clip(results)})
		results = append(results, codec.Info{Key: r.opts.Name, Value: codec.StatusValue(result.Status)})
		results = append(results, result.Info...)
		if result.Status == codec.StatusEventActionComplete {
			return
		}
	}
}

// beginCall reports whether a handler may be called. It removes a one-shot handler from the chain.
func (d *dispatcher) beginCall(r *registration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.gone || d.closed {
		return false
	}
	if r.opts.OneShot {
		r.gone = true
		d.chain.remove(r.id)
	}
	return true
}
