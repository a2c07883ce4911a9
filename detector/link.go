package detector

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/internal/xunix"
)

// link is a UDP socket with the addresses of all nodes. One goroutine at a time calls its methods.
type link struct {
	conn   *net.UDPConn
	raw    syscall.RawConn
	peers  []addresses // by node
	key    packet.Key
	job    uint64
	logger zerolog.Logger
	lose   func() bool // see Config

	out    []byte
	told   map[syscall.Errno]bool // errors that have been logged
	failed atomic.Uint64          // datagrams that could not be sent or received
}

// addresses are those of a Peer.
type addresses struct{ responder, detector xunix.SocketAddress }

// open looks up the addresses of peers. Those of the node me are not used.
func (l *link) open(conn *net.UDPConn, peers []Peer, me ring.Node) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("socket of the detector: %w", err)
	}
	var six bool
	if cerr := raw.Control(func(fd uintptr) { six, err = xunix.IsIPv6(int(fd)) }); cerr != nil || err != nil {
		return fmt.Errorf("socket of the detector: %w", errors.Join(cerr, err))
	}
	l.conn, l.raw, l.peers, l.told = conn, raw, make([]addresses, len(peers)), map[syscall.Errno]bool{}
	for i := range peers {
		if ring.Node(i) == me {
			continue
		}
		a := &l.peers[i]
		if a.responder, err = socketAddress(peers[i].Responder, six); err == nil {
			a.detector, err = socketAddress(peers[i].Detector, six)
		}
		if err != nil {
			return fmt.Errorf("%w: node %d: %w", ErrConfig, i, err)
		}
	}
	return nil
}

// socketAddress returns an address as the socket takes it.
func socketAddress(addr netip.AddrPort, six bool) (xunix.SocketAddress, error) {
	zone := addr.Addr().Zone()
	if zone == "" {
		return xunix.NewSocketAddress(addr, 0, six)
	}
	if index, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return xunix.NewSocketAddress(addr, uint32(index), six)
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return xunix.SocketAddress{}, fmt.Errorf("address %s: interface %q: %w", addr, zone, err)
	}
	return xunix.NewSocketAddress(addr, uint32(i.Index), six)
}

// send sends a datagram. Like the network, it may lose the datagram.
func (l *link) send(fd int, p *packet.Packet, to *xunix.SocketAddress) {
	p.Job = l.job
	l.out = p.Append(l.out[:0], &l.key)
	if l.lose != nil && l.lose() {
		return
	}
	err := xunix.SendTo(fd, l.out, to)
	if errors.Is(err, syscall.ECONNREFUSED) { // it tells of a datagram before, in place of sending this one
		err = xunix.SendTo(fd, l.out, to)
	}
	if err != nil {
		l.note("send", err)
	}
}

// receive receives one datagram into b. It returns ErrAgain if there is none, and -1 for one that brought an error.
func (l *link) receive(fd int, b []byte, from *xunix.SocketAddress) (int, error) {
	n, err := xunix.ReceiveFrom(fd, b, from)
	if err == nil || errors.Is(err, xunix.ErrAgain) {
		return n, err
	}
	l.note("receive", err)
	return -1, nil
}

// note counts an error, and logs it unless it is known. No error is an end: a peer that is gone refuses datagrams, a
// firewall that changes forbids them, and a full queue drops them. Pings that are not answered say what matters.
func (l *link) note(what string, err error) {
	l.failed.Add(1)
	var errno syscall.Errno
	errors.As(err, &errno)
	if !l.told[errno] {
		l.told[errno] = true
		l.logger.Warn().Err(err).Msgf("detector: cannot %s a datagram; further errors of this kind are counted only", what)
	}
}
