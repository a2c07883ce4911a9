package detector

import "sync"

// teller calls functions in order, one at a time, on a goroutine of its own.
type teller struct {
	mu     sync.Mutex
	more   sync.Cond
	list   []func()
	closed bool
	done   chan struct{}
}

// start starts the goroutine.
func (t *teller) start() {
	t.more.L = &t.mu
	t.done = make(chan struct{})
	go t.run()
}

// tell queues a call.
func (t *teller) tell(call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, call)
	t.more.Signal()
}

// close waits until all calls have returned.
func (t *teller) close() {
	t.mu.Lock()
	t.closed = true
	t.more.Signal()
	t.mu.Unlock()
	<-t.done
}

func (t *teller) run() {
	defer close(t.done)
	for {
		list := t.next()
		if list == nil {
			return
		}
		for _, call := range list {
			call()
		}
	}
}

// next waits for calls. It returns nil at the end.
func (t *teller) next() (list []func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.list) == 0 && !t.closed {
		t.more.Wait()
	}
	list, t.list = t.list, nil
	return list
}
