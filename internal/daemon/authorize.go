package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// authorizer decides who may connect to the PMIx server. It looks at sockets and processes, and holds no lock meanwhile.
type authorizer struct {
	table    *table
	private  *private
	reporter *reporter
	census   census
	refusals atomic.Int64 // connections that were refused
}

// authorize decides whether a connection to the PMIx server may claim a PE:
// the process that holds its other end must be the PE's or come from it. Any
// user of the machine can reach the port, so that a name alone proves nothing.
func (a *authorizer) authorize(conn net.Conn, claim pmix.Proc) (pid int, err error) {
	if pid, err = a.findHolder(conn, claim); err != nil {
		return 0, a.explainRefusal(conn, err)
	}
	a.private.provideFor(pid, a.reporter)
	return pid, nil
}

// mostRefusals bounds how many refused connections the user is told of: any user of the
// machine can make as many as they like.
const mostRefusals = 8

// explainRefusal adds the refused process to the cause of a refusal, and tells the user. The user is not told of a client
// that has hung up already, such as a PE that was killed while it connected.
func (a *authorizer) explainRefusal(conn net.Conn, cause error) error {
	sock, _, err := peerSocket(conn)
	if err != nil || sock.Inode == 0 {
		return cause // it has hung up
	}
	who, own := fmt.Sprintf("a process of user %d", sock.UID), int(sock.UID) == os.Geteuid()
	told := a.refusals.Add(1)
	if told > mostRefusals {
		return fmt.Errorf("%w: %s", cause, who)
	}
	pid := holderOf(sock)
	if pid > 0 {
		who = fmt.Sprintf("process %d of user %d", pid, sock.UID)
	}
	err = fmt.Errorf("%w: %s", cause, who)
	if pid > 0 || !own {
		a.reporter.notice("a client of the PMIx server is refused: %v", err)
	}
	if told == mostRefusals {
		a.reporter.notice("of further clients that are refused only the log tells: -v")
	}
	return err
}

// holderOf returns a process of the machine that holds a socket, 0 if none is seen.
func holderOf(sock xunix.Socket) int {
	link := linkTo(sock)
	for pid := range lookAround() {
		if holdsFile(pid, link) {
			return pid
		}
	}
	return 0
}

// findHolder returns the process of the PE that holds the other end of a connection.
func (a *authorizer) findHolder(conn net.Conn, claim pmix.Proc) (pid int, err error) {
	j := a.table.jobOf(claim.Nspace)
	if j == nil || int64(claim.Rank) >= int64(j.npes()) {
		return 0, fmt.Errorf("job %q, PE %d: want a job of this step and one of its PEs", claim.Nspace, claim.Rank)
	}
	p := a.table.awaitStart(j, int(claim.Rank)) // it may be quick to connect
	if p == nil {
		return 0, fmt.Errorf("PE %v is not started yet", ID{j.number, int(claim.Rank)})
	}
	if a.table.hasFailed(p) {
		return 0, fmt.Errorf("PE %v has failed: nothing of it can join any more", p.id)
	}
	sock, remote, err := peerSocket(conn)
	if err != nil {
		return 0, err
	}
	link := linkTo(sock)
	if holdsFile(p.pid, link) { // it nearly always is
		return p.pid, nil
	}
	for _, pid := range a.census.survey()[link] {
		if p.descends(pid) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process of PE %v (pid %d) holds the socket %v of the connection", p.id, p.pid, remote)
}

// authorizeTool decides whether a connection to the PMIx server may attach as a
// tool: it must be of the user that this process runs as.
func (a *authorizer) authorizeTool(conn net.Conn) (pid int, err error) {
	sock, remote, err := peerSocket(conn)
	if err != nil {
		return 0, err
	}
	if int(sock.UID) != os.Geteuid() {
		return 0, a.explainRefusal(conn, fmt.Errorf("tool at %v is of user %d, want user %d", remote, sock.UID, os.Geteuid()))
	}
	return holderOf(sock), nil // who it is matters less than whose
}

// isForeign says whether a connection is of another user than this process, or of
// nobody any more.
func isForeign(conn net.Conn) bool {
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

// addrPort returns a TCP address as FindSocket wants it.
func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// lowFDs is how many descriptors are looked at before they are listed.
const lowFDs = 10

// holdsFile says whether a process has a file open, by what its link in /proc says.
func holdsFile(pid int, link string) bool {
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
