package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goshmem/goshmem/internal/xunix"
)

// authorize decides whether a connection to the PMIx server may claim a PE:
// the process that holds its other end must be the PE's or come from it. Any
// user of the machine can reach the port, so that a name alone proves nothing.
func (s *Step) authorize(conn net.Conn, nspace string, rank uint32) (pid int, err error) {
	if nspace != s.nspace || int64(rank) >= int64(s.cfg.NPEs) {
		return 0, fmt.Errorf("job %q, PE %d: want this job and a PE below %d", nspace, rank, s.cfg.NPEs)
	}
	pe := int(rank)
	s.mu.Lock() // a PE that is quick to connect waits here until its start is noted
	p := s.procs[pe]
	s.mu.Unlock()
	if p == nil {
		return 0, fmt.Errorf("PE %d is not started yet", pe)
	}
	local, remote := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	inode, err := xunix.SocketInode(remote, local)
	if err != nil {
		return 0, fmt.Errorf("process behind %v: %w", remote, err)
	}
	link := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	if holds(p.pid(), link) { // it nearly always is
		return p.pid(), nil
	}
	all := lookAround()
	for pid := range tree(all, os.Getpid()) {
		if pid != os.Getpid() && holds(pid, link) && s.descends(pid, p.pid(), pe) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process of PE %d (pid %d) holds the socket %v of the connection", pe, p.pid(), remote)
}

func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// holds says whether a process has a file open, by what its link in /proc says.
func holds(pid int, link string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
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
