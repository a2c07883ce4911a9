package hook

import "sync"

// Teller calls functions in order, one at a time, on a goroutine of its own.
type Teller struct {
	mu     sync.Mutex
	more   sync.Cond
	list   []func()
	closed bool
	done   chan struct{}
}

// Start starts the goroutine.
func (t *Teller) Start() {
	t.more.L = &t.mu
	t.done = make(chan struct{})
	go t.run()
}

// Tell queues a call. After Close it may do nothing.
func (t *Teller) Tell(call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, call)
	t.more.Signal()
}

// Close waits until all calls have returned.
func (t *Teller) Close() {
	t.mu.Lock()
	t.closed = true
	t.more.Signal()
	t.mu.Unlock()
	<-t.done
}

func (t *Teller) run() {
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
func (t *Teller) next() (list []func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.list) == 0 && !t.closed {
		t.more.Wait()
	}
	list, t.list = t.list, nil
	return list
}
