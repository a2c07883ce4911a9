package xunix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNoSocket reports that the kernel has no socket with these addresses.
var errNoSocket = errors.New("no such socket")

// Socket identifies a socket of this machine.
type Socket struct {
	Inode uint32 // /proc/PID/fd of the process that holds the socket shows this number
	UID   uint32 // user who made the socket
}

// FindSocket finds the TCP socket of this machine that has the given IPv4 addresses. It asks sock_diag first,
// and reads /proc/net/tcp if the kernel has no sock_diag: the table is slow with many sockets.
func FindSocket(local, remote netip.AddrPort) (Socket, error) {
	if !local.Addr().Is4() || !remote.Addr().Is4() {
		return Socket{}, fmt.Errorf("socket %v-%v: want IPv4 addresses", local, remote)
	}
	s, err := socketByDiag(local, remote)
	if err != nil && !errors.Is(err, errNoSocket) {
		s, err = socketByTable(local, remote)
	}
	return s, err
}

// Offsets and sizes of struct inet_diag_req_v2 and struct inet_diag_msg, each of which follows a netlink
// header.
const (
	sockDiagByFamily = 20
	diagRequest      = unix.NLMSG_HDRLEN + 56
	diagID           = unix.NLMSG_HDRLEN + 8
	diagUID          = unix.NLMSG_HDRLEN + 64
	diagInode        = unix.NLMSG_HDRLEN + 68
)

// socketByDiag asks the kernel's sock_diag for one socket.
func socketByDiag(local, remote netip.AddrPort) (Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return Socket{}, fmt.Errorf("socket of sock_diag: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	patience := unix.Timeval{Sec: 1} // a limit only: the kernel answers while the request is sent
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return Socket{}, fmt.Errorf("socket of sock_diag: %w", err)
	}
	if err := unix.Sendto(fd, diagQuestion(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return Socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return Socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	switch kind := binary.NativeEndian.Uint16(answer[4:]); {
	case kind == unix.NLMSG_ERROR && n >= unix.NLMSG_HDRLEN+4:
		errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:])))
		if errno == unix.ENOENT {
			return Socket{}, fmt.Errorf("sock_diag: %v-%v: %w", local, remote, errNoSocket)
		}
		return Socket{}, fmt.Errorf("sock_diag: %v-%v: %w", local, remote, errno)
	case kind != sockDiagByFamily || n < diagInode+4:
		return Socket{}, fmt.Errorf("sock_diag: %v-%v: answer of kind %d and %d bytes, want kind %d and at least %d bytes",
			local, remote, kind, n, sockDiagByFamily, diagInode+4)
	}
	return Socket{Inode: binary.NativeEndian.Uint32(answer[diagInode:]), UID: binary.NativeEndian.Uint32(answer[diagUID:])}, nil
}

// diagQuestion returns the netlink request for the socket with these addresses, in any state.
func diagQuestion(local, remote netip.AddrPort) []byte {
	q := make([]byte, diagRequest)
	binary.NativeEndian.PutUint32(q, diagRequest)
	binary.NativeEndian.PutUint16(q[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST)
	q[unix.NLMSG_HDRLEN], q[unix.NLMSG_HDRLEN+1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(q[unix.NLMSG_HDRLEN+4:], ^uint32(0)) // in any state
	id := q[diagID:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	src, dst := local.Addr().As4(), remote.Addr().As4()
	copy(id[4:], src[:])
	copy(id[20:], dst[:])
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // no cookie
	return q
}

// socketByTable searches /proc/net/tcp for the socket.
func socketByTable(local, remote netip.AddrPort) (Socket, error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return Socket{}, err
	}
	defer func() { _ = f.Close() }()
	want := tableName(local) + " " + tableName(remote) + " "
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// slot: local remote state queues timer retransmissions uid timeout inode ...
		_, rest, _ := strings.Cut(lines.Text(), ": ")
		if fields := strings.Fields(rest); strings.HasPrefix(rest, want) && len(fields) > 8 {
			uid, err := strconv.ParseUint(fields[6], 10, 32)
			inode, ierr := strconv.ParseUint(fields[8], 10, 32)
			return Socket{Inode: uint32(inode), UID: uint32(uid)}, errors.Join(err, ierr)
		}
	}
	return Socket{}, errors.Join(lines.Err(), fmt.Errorf("/proc/net/tcp: %v-%v: %w", local, remote, errNoSocket))
}

// tableName returns an address as /proc/net/tcp writes it: a hexadecimal number in this machine's byte order.
func tableName(a netip.AddrPort) string {
	ip := a.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())
}
