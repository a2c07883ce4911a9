package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/netif"
)

// tryNetwork says by which way PEs reach PEs of other nodes: TCP between the agents of the nodes, over which interfaces, and
// what a round trip through this kernel takes at best.
func tryNetwork() finding {
	const hint = "agents of nodes exchange one-sided operations over TCP"
	trip, err := roundTrip("127.0.0.1:0", 200)
	if err != nil {
		return missing(err, hint)
	}
	value := fmt.Sprintf("TCP between agents, %d us there and back over loopback", max(1, trip.Microseconds()))
	addrs, err := control.LocalAddresses("", false)
	if err != nil {
		return noted(value, "only nodes on this machine, by --emulate N: "+err.Error())
	}
	all, err := netif.Interfaces()
	if err != nil {
		return missing(err, hint)
	}
	return fine("%s; other hosts by %s", value, strings.Join(links(all, addrs, "/sys/class/net"), ", "))
}

// links describes the interfaces that have some of the addresses, in the order of these. Sys is the folder in which the kernel
// describes interfaces.
func links(all []netif.Interface, addrs []netip.Addr, sys string) (texts []string) {
	for _, addr := range addrs {
		i := slices.IndexFunc(all, func(i netif.Interface) bool { return slices.Contains(i.Addrs, addr) })
		if i < 0 {
			continue
		}
		parts := []string{addr.String()}
		if mtu, ok := setting(sys, all[i].Name, "mtu"); ok {
			parts = append(parts, fmt.Sprintf("MTU %d", mtu))
		}
		if speed, ok := setting(sys, all[i].Name, "speed"); ok {
			parts = append(parts, fmt.Sprintf("%d Mbit/s", speed))
		}
		if len(netif.RDMADevices(all[i].Name)) > 0 {
			parts = append(parts, "RDMA not used")
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", all[i].Name, strings.Join(parts, ", ")))
	}
	return texts
}

// setting returns a positive number by which the kernel describes an interface. Virtual interfaces have no speed.
func setting(sys, name, what string) (n int, ok bool) {
	text, err := os.ReadFile(filepath.Join(sys, name, what))
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil && n > 0
}

// roundTrip returns the least time in which 8 bytes come back over a connection to an address of this machine.
func roundTrip(addr string, times int) (least time.Duration, err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c) // until the other side closes
			_ = c.Close()
		}
	}()
	c, err := net.DialTimeout("tcp", l.Addr().String(), patience)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	var word [8]byte
	for i := range times {
		began := time.Now()
		if _, err = c.Write(word[:]); err == nil {
			_, err = io.ReadFull(c, word[:])
		}
		if err != nil {
			return 0, err
		}
		if took := time.Since(began); i == 0 || took < least {
			least = took
		}
	}
	return least, nil
}
