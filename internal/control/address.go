package control

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goshmem/goshmem/internal/netif"
)

// PortRange is the ports from Low to High. The zero value leaves the choice to the kernel.
type PortRange struct{ Low, High uint16 }

// ParsePortRange parses LOW-HIGH, or a single port.
func ParsePortRange(text string) (PortRange, error) {
	low, high, two := strings.Cut(text, "-")
	if !two {
		high = low
	}
	l, err := parsePort(low)
	if err != nil {
		return PortRange{}, fmt.Errorf("port range %q: %w", text, err)
	}
	h, err := parsePort(high)
	if err != nil {
		return PortRange{}, fmt.Errorf("port range %q: %w", text, err)
	}
	if l > h {
		return PortRange{}, fmt.Errorf("port range %q: it ends before it begins, want LOW-HIGH", text)
	}
	return PortRange{l, h}, nil
}

func parsePort(text string) (uint16, error) {
	p, err := strconv.ParseUint(text, 10, 16)
	if err != nil || p == 0 {
		return 0, fmt.Errorf("%q is no port, want 1 to 65535", text)
	}
	return uint16(p), nil
}

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.Low, r.High) }

// listenAt listens at an address and one of the ports. It begins somewhere in the range: many processes of a machine
// may look for a port at the same time.
func listenAt(addr netip.Addr, ports PortRange) (net.Listener, error) {
	network := "tcp6"
	if addr.Is4() {
		network = "tcp4"
	}
	n := int(ports.High) - int(ports.Low) + 1
	start := rand.IntN(n)
	var last error
	for i := range n {
		port := ports.Low + uint16((start+i)%n)
		l, err := net.Listen(network, netip.AddrPortFrom(addr, port).String())
		switch {
		case err == nil:
			return l, nil
		case ports == PortRange{} || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES):
			return nil, fmt.Errorf("listen at %v: %w", addr, err)
		}
		last = err
	}
	return nil, fmt.Errorf("listen at %v: none of the %d ports %v can be had: %w", addr, n, ports, last)
}

// ListenDatagrams opens a UDP socket at an address and one of the ports.
func ListenDatagrams(addr netip.Addr, ports PortRange) (*net.UDPConn, error) {
	network := "udp6"
	if addr.Is4() {
		network = "udp4"
	}
	n := int(ports.High) - int(ports.Low) + 1
	start := rand.IntN(n)
	var last error
	for i := range n {
		port := ports.Low + uint16((start+i)%n)
		c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
		switch {
		case err == nil:
			return c, nil
		case ports == PortRange{} || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES):
			return nil, fmt.Errorf("datagrams at %v: %w", addr, err)
		}
		last = err
	}
	return nil, fmt.Errorf("datagrams at %v: none of the %d ports %v can be had: %w", addr, n, ports, last)
}

// ListenAny opens a UDP socket from which datagrams reach an address: at loopback for one of loopback, otherwise at any
// address of this machine.
func ListenAny(to netip.Addr, ports PortRange) (*net.UDPConn, error) {
	at := netip.IPv6Unspecified()
	switch {
	case to.IsLoopback():
		at = to
	case to.Unmap().Is4():
		at = netip.IPv4Unspecified()
	}
	return ListenDatagrams(at, ports)
}

// LocalAddresses returns the addresses of this machine by which others may reach it, those of the first interface first.
//
// Left out are loopback, interfaces that are down, networks of local containers and virtual machines (docker*, virbr*),
// and link-local addresses, which mean nothing elsewhere. A filter, if not empty, is the name of an interface or a
// network like 10.0.0.0/8: then all of that interface or in that network are meant, docker* included. With loopback the
// result is the loopback addresses alone, for processes of one machine.
func LocalAddresses(filter string, loopback bool) ([]netip.Addr, error) {
	all, err := netif.Interfaces()
	if err != nil {
		return nil, err
	}
	return chooseAddresses(all, filter, loopback)
}

// isInner says whether an interface is that of a network of local containers or virtual machines.
func isInner(name string) bool {
	return strings.HasPrefix(name, "docker") || strings.HasPrefix(name, "virbr")
}

// NearestFirst puts the addresses of another machine that are in a network of this one before the others.
func NearestFirst(addrs []netip.AddrPort) []netip.AddrPort {
	interfaces, _ := netif.Interfaces() // none: any order does
	var networks []netip.Prefix
	for _, i := range interfaces {
		if i.Up && !isInner(i.Name) {
			networks = append(networks, i.Networks...)
		}
	}
	return sortByNetworks(addrs, networks)
}

// sortByNetworks is NearestFirst without the machine.
func sortByNetworks(addrs []netip.AddrPort, networks []netip.Prefix) []netip.AddrPort {
	near := func(a netip.AddrPort) int {
		if slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a.Addr()) }) {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(addrs)
	slices.SortStableFunc(sorted, func(a, b netip.AddrPort) int { return near(a) - near(b) })
	return sorted
}

// chooseAddresses is LocalAddresses without the machine.
func chooseAddresses(all []netif.Interface, filter string, loopback bool) ([]netip.Addr, error) {
	var wanted netif.Filter
	if filter != "" {
		var err error
		if wanted, err = netif.ParseFilter(filter); err != nil {
			return nil, err
		}
		if err := wanted.Check(all); err != nil {
			return nil, err
		}
	}
	var chosen, seen []netip.Addr
	for _, i := range all {
		for _, a := range i.Addrs {
			seen = append(seen, a)
			ok := i.Up
			switch {
			case loopback:
				ok = ok && a.IsLoopback()
			case filter != "":
				ok = ok && wanted.Has(&i, a)
			default:
				ok = ok && !isInner(i.Name) &&
					!a.IsLoopback() && !a.IsLinkLocalUnicast()
			}
			if ok && (a.Is4() || !a.IsLinkLocalUnicast()) { // another machine would need a zone of its own for it
				chosen = append(chosen, a)
			}
		}
	}
	if len(chosen) == 0 {
		what := "for other machines"
		switch {
		case loopback:
			what = "of loopback"
		case filter != "":
			what = fmt.Sprintf("of %q", filter)
		}
		return nil, fmt.Errorf("this machine has no address %s; it has %v", what, seen)
	}
	return chosen, nil
}
