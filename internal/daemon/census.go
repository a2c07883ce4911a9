package daemon

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// census finds out which of this process's descendants hold which sockets. It
// takes milliseconds on a machine with many processes, so everybody who asks while
// one is under way shares the next one: a stranger whose claims are all false costs
// no more time than that, however many it makes.
type census struct {
	mu    sync.Mutex
	next  *survey // that has not begun; nil: nobody has asked for one
	taker bool    // a goroutine takes what is asked for
}

// survey is the result of one census.
type survey struct {
	done    chan struct{}
	holders map[string][]int // process numbers by what their links say
}

// survey returns who holds what at a time after the call.
func (c *census) survey() map[string][]int {
	c.mu.Lock()
	if c.next == nil {
		c.next = &survey{done: make(chan struct{})}
	}
	s := c.next
	if !c.taker {
		c.taker = true
		go c.run()
	}
	c.mu.Unlock()
	<-s.done
	return s.holders
}

// run takes one census after the other until nobody asks for one. Who asks while one is being taken may mean a socket that
// has been looked for already: that one gets the next census. The lock is not held while a census is taken.
func (c *census) run() {
	for s := c.nextSurvey(); s != nil; s = c.nextSurvey() {
		s.holders = socketHolders()
		close(s.done)
	}
}

// nextSurvey returns the census that was asked for, nil if none was: the caller stops.
func (c *census) nextSurvey() *survey {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.next
	c.next, c.taker = nil, s != nil
	return s
}

// socketHolders returns the sockets of all that descends from this process.
func socketHolders() map[string][]int {
	found := map[string][]int{}
	self := os.Getpid()
	for pid := range tree(lookAround(), self) {
		if pid == self {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/fd/", pid)
		fds, _ := os.ReadDir(dir) // none of a process that has ended
		for _, fd := range fds {
			if to, err := os.Readlink(dir + fd.Name()); err == nil && strings.HasPrefix(to, "socket:") {
				found[to] = append(found[to], pid)
			}
		}
	}
	return found
}
