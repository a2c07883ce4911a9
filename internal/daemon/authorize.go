package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// authorize decides whether a connection to the PMIx server may claim a PE:
// the process that holds its other end must be the PE's or come from it. Any
// user of the machine can reach the port, so that a name alone proves nothing.
func (s *Step) authorize(conn net.Conn, claim pmix.Proc) (pid int, err error) {
	if pid, err = s.holder(conn, claim); err != nil {
		return 0, s.refused(conn, err)
	}
	s.provide(pid)
	return pid, nil
}

// mostRefusals bounds how many refused connections the user is told of: any user of the
// machine can make as many as they like.
const mostRefusals = 8

// refused adds to the cause of a refusal who it is that was refused, and tells the user. A
// client whose end came first, as of a PE that was killed as it connected, is no news.
func (s *Step) refused(conn net.Conn, cause error) error {
	sock, _, err := peerSocket(conn)
	if err != nil || sock.Inode == 0 {
		return cause // it has hung up
	}
	who, own := fmt.Sprintf("a process of user %d", sock.UID), int(sock.UID) == os.Geteuid()
	told := s.refusals.Add(1)
	if told > mostRefusals {
		return fmt.Errorf("%w: %s", cause, who)
	}
	pid := holderOf(sock)
	if pid > 0 {
		who = fmt.Sprintf("process %d of user %d", pid, sock.UID)
	}
	err = fmt.Errorf("%w: %s", cause, who)
	if pid > 0 || !own {
		s.notice("a client of the PMIx server is refused: %v", err)
	}
	if told == mostRefusals {
		s.notice("of further clients that are refused only the log tells: -v")
	}
	return err
}

// holderOf returns a process of the machine that holds a socket, 0 if none is seen.
func holderOf(sock xunix.Socket) int {
	link := linkTo(sock)
	for pid := range lookAround() {
		if holds(pid, link) {
			return pid
		}
	}
	return 0
}

// holder returns the process of the PE that holds the other end of a connection.
func (s *Step) holder(conn net.Conn, claim pmix.Proc) (pid int, err error) {
	j := s.jobOf(claim.Nspace)
	if j == nil || int64(claim.Rank) >= int64(j.npes()) {
		return 0, fmt.Errorf("job %q, PE %d: want a job of this step and one of its PEs", claim.Nspace, claim.Rank)
	}
	s.mu.Lock() // a PE that is quick to connect waits here until its start is noted
	p := j.procs[claim.Rank]
	s.mu.Unlock()
	if p == nil {
		return 0, fmt.Errorf("PE %v is not started yet", ID{j.number, int(claim.Rank)})
	}
	if s.hasFailed(p) {
		return 0, fmt.Errorf("PE %v has failed: nothing of it can join any more", p.id)
	}
	sock, remote, err := peerSocket(conn)
	if err != nil {
		return 0, err
	}
	link := linkTo(sock)
	if holds(p.pid(), link) { // it nearly always is
		return p.pid(), nil
	}
	for _, pid := range s.census.take()[link] {
		if s.descends(pid, p) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process of PE %v (pid %d) holds the socket %v of the connection", p.id, p.pid(), remote)
}

// authorizeTool decides whether a connection to the PMIx server may attach as a
// tool: it must be of the user that this process runs as.
func (s *Step) authorizeTool(conn net.Conn) (pid int, err error) {
	sock, remote, err := peerSocket(conn)
	if err != nil {
		return 0, err
	}
	if int(sock.UID) != os.Geteuid() {
		return 0, s.refused(conn, fmt.Errorf("tool at %v is of user %d, want user %d", remote, sock.UID, os.Geteuid()))
	}
	return holderOf(sock), nil // who it is matters less than whose
}

// foreign says whether a connection is of another user than this process, or of
// nobody any more.
func foreign(conn net.Conn) bool {
	sock, _, err := peerSocket(conn)
	return err != nil || int(sock.UID) != os.Geteuid()
}

// peerSocket returns the socket at the other end of a connection on this
// machine, and its address.
func peerSocket(conn net.Conn) (xunix.Socket, netip.AddrPort, error) {
	local, remote := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	sock, err := xunix.FindSocket(remote, local)
	if err != nil {
		return sock, remote, fmt.Errorf("process behind %v: %w", remote, err)
	}
	return sock, remote, nil
}

// linkTo is what a link in /proc/PID/fd says of a socket.
func linkTo(s xunix.Socket) string {
	return "socket:[" + strconv.FormatUint(uint64(s.Inode), 10) + "]"
}

func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// lowFDs is how many descriptors are looked at before they are listed.
const lowFDs = 10

// holds says whether a process has a file open, by what its link in /proc says.
func holds(pid int, link string) bool {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	for fd := range lowFDs { // one that has just been opened mostly is one of these
		if to, err := os.Readlink(dir + strconv.Itoa(fd)); err == nil && to == link {
			return true
		}
	}
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && to == link {
			return true
		}
	}
	return false
}

// census finds out which of this process's descendants hold which sockets. It
// takes milliseconds on a machine with many processes, so everybody who asks while
// one is under way shares the next one: a stranger whose claims are all false costs
// no more time than that, however many it makes.
type census struct {
	turn sync.Mutex // held while one is taken
	mu   sync.Mutex
	next *survey // that has not begun; nil: nobody has asked for one
}

// survey is the result of one census.
type survey struct {
	done    chan struct{}
	holders map[string][]int // process numbers by what their links say
}

// take returns who holds what at a time after the call.
func (c *census) take() map[string][]int {
	c.mu.Lock()
	s := c.next
	first := s == nil
	if first {
		s = &survey{done: make(chan struct{})}
		c.next = s
	}
	c.mu.Unlock()
	if first {
		c.turn.Lock()
		c.mu.Lock()
		c.next = nil // who asks from now on may mean a socket that has been looked for already
		c.mu.Unlock()
		s.holders = holders()
		c.turn.Unlock()
		close(s.done)
	}
	<-s.done
	return s.holders
}

// holders returns the sockets of all that descends from this process.
func holders() map[string][]int {
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
