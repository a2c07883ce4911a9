package daemon

import (
	"net"
	"slices"
	"sync"
)

// mostStrangers is how many connections from outside the job are open at a time.
const mostStrangers = 64

// visitors has the open connections to the attach socket.
type visitors struct {
	mu        sync.Mutex
	closed    bool
	open      map[*net.UnixConn]struct{}
	strangers []*net.UnixConn // of them, those from outside the job, in order
}

// add takes a connection, or closes it when the step is closing. A flood of
// strangers pushes out its own oldest members, and no PE.
func (v *visitors) add(conn *net.UnixConn, stranger bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		_ = conn.Close() // there is nobody to tell
		return false
	}
	if v.open == nil {
		v.open = map[*net.UnixConn]struct{}{}
	}
	v.open[conn] = struct{}{}
	if !stranger {
		return true
	}
	if len(v.strangers) == mostStrangers {
		_ = v.strangers[0].Close() // its talk ends by that
		v.strangers = slices.Delete(v.strangers, 0, 1)
	}
	v.strangers = append(v.strangers, conn)
	return true
}

func (v *visitors) remove(conn *net.UnixConn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, conn)
	if i := slices.Index(v.strangers, conn); i >= 0 {
		v.strangers = slices.Delete(v.strangers, i, i+1)
	}
	_ = conn.Close() // as above
}

// close closes all connections: a silent one must not hold up the end of the step.
func (v *visitors) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	for conn := range v.open {
		_ = conn.Close() // as above
	}
}
