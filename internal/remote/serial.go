package remote

import "sync"

// serial calls functions one after the other, in the order in which they come. Whoever adds one
// never waits. It has a goroutine only while there is something to call.
type serial struct {
	mu    sync.Mutex
	queue []func()
	runs  bool // the goroutine is there
}

// add adds a function. The goroutine, if it is to be started, is counted in all.
func (s *serial) add(all *sync.WaitGroup, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	if !s.runs {
		s.runs = true
		all.Go(s.run)
	}
}

// run calls the functions until none is left.
func (s *serial) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.runs, s.queue = false, nil
			s.mu.Unlock()
			return
		}
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
	}
}
