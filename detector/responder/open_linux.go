package responder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Responder answers for a node.
//
//   - Concurrent calls: any goroutine may call any method.
type Responder struct {
	cfg    Config
	tier   Tier
	passed []error // a *TierError for each better tier that does not work here
	socket *net.UDPConn
	addr   netip.AddrPort
	source source
	told   sync.Once // that the node is fenced

	mu   sync.Mutex
	page *page // nil: closed
}

// source is a tier at work.
type source interface {
	// shared returns the page of who answers.
	shared() *page
	// startOf returns when a process began, as who answers knows it; 0: not known.
	startOf(pid int) (uint64, error)
	// owns says whether a child of this process is the keeper.
	owns(pid int) bool
	// close ends the answers, and unmaps the page.
	close() error
}

// Open begins to answer, by the best tier that works here.
func Open(cfg Config) (*Responder, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Listen = cfg.Listen.Unmap()
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	r := &Responder{cfg: cfg}
	first, last := Kernel, User
	if cfg.Tier != 0 {
		first, last = cfg.Tier, cfg.Tier
	}
	var err error
	if r.socket, err = listen(cfg.Listen, cfg.Ports); err != nil {
		return nil, err
	}
	r.addr = r.socket.LocalAddr().(*net.UDPAddr).AddrPort() //nolint:errcheck // a UDP socket has such an address
	r.addr = netip.AddrPortFrom(r.addr.Addr().Unmap(), r.addr.Port())
	for tier := first; tier <= last; tier++ {
		if err = r.begin(tier); err == nil {
			return r, nil
		}
		r.passed = append(r.passed, err)
	}
	_ = r.socket.Close() // nobody uses it
	return nil, errors.Join(r.passed...)
}

// begin begins to answer by one tier.
func (r *Responder) begin(tier Tier) (err error) {
	switch tier {
	case Kernel:
		r.source, err = openKernel(r)
	case Process:
		r.source, err = openProcess(r)
	case User:
		r.source, err = openUser(r)
	}
	if err != nil {
		return err
	}
	r.tier, r.page = tier, r.source.shared()
	return nil
}

// listen returns a socket at an address and one of the ports. It begins somewhere in the range: many processes of a
// machine may look for a port at the same time.
func listen(addr netip.Addr, ports Ports) (*net.UDPConn, error) {
	network := "udp6"
	if addr.Is4() {
		network = "udp4"
	}
	n := int(ports.High) - int(ports.Low) + 1
	start := rand.IntN(n)
	for i := range n {
		port := ports.Low + uint16((start+i)%n)
		socket, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
		if err == nil {
			return socket, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("socket of the responder: %w", err)
		}
	}
	return nil, fmt.Errorf("socket of the responder: all ports of %v from %d to %d are in use", addr, ports.Low, ports.High)
}

// Tier returns who answers.
func (r *Responder) Tier() Tier { return r.tier }

// Passed returns a *TierError for each better tier that does not work here.
func (r *Responder) Passed() []error { return r.passed }

// Addr returns the address that others send pings and fences to.
func (r *Responder) Addr() netip.AddrPort { return r.addr }

// Tick says that the daemon runs. Its detector calls it on each turn. While the tick stands still, who answers looks
// whether the daemon is starved.
func (r *Responder) Tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page == nil {
		return
	}
	r.page.tick.Add(1)
	if r.tier != User && r.page.fences.Load() != 0 { // in the tier User, who kills the processes says so then: this one may end by it
		r.noteFence()
	}
}

// noteFence tells once that the node is fenced.
func (r *Responder) noteFence() {
	r.told.Do(func() {
		go func() {
			if r.cfg.Fenced != nil {
				r.cfg.Fenced()
			}
			if !r.cfg.SpareDaemon {
				xunix.KillSelf()
			}
		}()
	})
}

// Add registers a process that a fence kills.
//
//   - Errors: ErrFenced if the node is fenced; the process has then been killed.
func (r *Responder) Add(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("register process %d with the responder: no number of a process", pid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page == nil {
		return fmt.Errorf("register process %d with the responder: %w", pid, net.ErrClosed)
	}
	start, err := r.source.startOf(pid)
	if err != nil {
		return fmt.Errorf("register process %d with the responder: %w", pid, err)
	}
	if !r.page.add(uint32(pid), start) {
		return fmt.Errorf("register process %d with the responder: it has %d, and room for no more", pid, maxVictims)
	}
	if r.page.fences.Load() == 0 {
		return nil // a fence that comes from now on finds the process
	}
	begun, err := xunix.StartTime(pid)
	if err == nil {
		err = killProcess(pid, begun)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil // it has ended
	}
	return errors.Join(ErrFenced, err)
}

// Remove ends the registration of a process. It must come before the process is reaped only where another process of the
// user with the same number and start time could come: the start time is told in ticks of 10 ms.
func (r *Responder) Remove(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page != nil && pid > 0 {
		r.page.remove(uint32(pid))
	}
}

// Owns says whether a child of this process is the keeper: the responder waits for it.
func (r *Responder) Owns(pid int) bool { return r.source.owns(pid) }

// IsFenced says whether a fence has come.
func (r *Responder) IsFenced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.page != nil && r.page.fences.Load() != 0
}

// Close ends the answers, and the keeper with them.
func (r *Responder) Close() error {
	r.mu.Lock()
	closed := r.page == nil
	r.page = nil
	r.mu.Unlock()
	if closed {
		return nil
	}
	err := r.socket.Close() // first: the user tier's goroutine ends by it
	return errors.Join(err, r.source.close())
}

// killProcess kills the process that had a number at a time. A process that has ended is no error.
func killProcess(pid int, start uint64) error {
	same := func() bool {
		now, err := xunix.StartTime(pid)
		return err == nil && (start == 0 || start == now)
	}
	if err := xunix.KillSame(pid, same, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
