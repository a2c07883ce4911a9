// Package netif finds network interfaces of a machine. It is no part of xunix: package net, which it imports, would link
// programs of shmem and mpi with libc.
package netif

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Interface is a network interface of this machine.
type Interface struct {
	Name     string
	Up       bool
	Loopback bool
	Addrs    []netip.Addr
	Networks []netip.Prefix // of the addresses
}

// Interfaces returns the network interfaces of this machine.
func Interfaces() ([]Interface, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var all []Interface
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of interface %s: %w", i.Name, err)
		}
		local := Interface{Name: i.Name, Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				local.Addrs, local.Networks = append(local.Addrs, p.Addr()), append(local.Networks, p)
			}
		}
		all = append(all, local)
	}
	return all, nil
}

// Filter chooses interfaces: by name, or by a network that has an address of theirs.
type Filter struct {
	name    string
	network netip.Prefix // valid: the name does not count
}

// ParseFilter parses the name of an interface, or a network like 10.0.0.0/8.
func ParseFilter(text string) (f Filter, err error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return f, fmt.Errorf("interface %q is no network, want one like 10.0.0.0/8", text)
		}
		return Filter{network: p.Masked()}, nil
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return f, fmt.Errorf("interface %q, want one name like eth0, or a network like 10.0.0.0/8", text)
	}
	return Filter{name: text}, nil
}

// Has says whether an interface is meant, by one of its addresses.
func (f *Filter) Has(i *Interface, a netip.Addr) bool {
	if f.network.IsValid() {
		return f.network.Contains(a)
	}
	return i.Name == f.name
}

// Check says whether an interface of a list has the name that is meant, if one is.
func (f *Filter) Check(all []Interface) error {
	if f.network.IsValid() || slices.ContainsFunc(all, func(i Interface) bool { return i.Name == f.name }) {
		return nil
	}
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	return fmt.Errorf("there is no interface %q; this machine has %s", f.name, strings.Join(names, ", "))
}

// Choose returns the names of the interfaces that are up and have an address that is meant; at least one.
func (f *Filter) Choose(all []Interface) (names []string, err error) {
	if err := f.Check(all); err != nil {
		return nil, err
	}
	var seen []string // what is wrong with those that it would have been
	for i := range all {
		here := &all[i]
		means := slices.ContainsFunc(here.Addrs, func(a netip.Addr) bool { return f.Has(here, a) })
		switch {
		case means && here.Up:
			names = append(names, here.Name)
		case means:
			seen = append(seen, here.Name+" is down")
		case here.Name == f.name:
			seen = append(seen, here.Name+" has no address")
		case !f.network.IsValid(): // another name
		default:
			seen = append(seen, fmt.Sprintf("%s has %v", here.Name, here.Addrs))
		}
	}
	if len(names) > 0 {
		return names, nil
	}
	if f.network.IsValid() {
		return nil, fmt.Errorf("no interface that is up has an address in %s: %s", f.network, strings.Join(seen, ", "))
	}
	return nil, fmt.Errorf("interface %s cannot be used: %s", f.name, strings.Join(seen, ", "))
}

// RDMADevices returns the devices for remote memory access below a network interface, as "mlx5_0:1": a name and a port.
func RDMADevices(name string) []string { return rdmaDevices("/sys/class/net", name) }

// rdmaDevices reads the files of the kernel under root.
func rdmaDevices(root, name string) (devices []string) {
	found, _ := filepath.Glob(filepath.Join(root, name, "device/infiniband/*")) // none, or a name with the signs of a pattern
	port := 0
	if text, err := os.ReadFile(filepath.Join(root, name, "dev_port")); err == nil {
		port, _ = strconv.Atoi(strings.TrimSpace(string(text))) // 0: the first
	}
	for _, dir := range found {
		devices = append(devices, filepath.Base(dir)+":"+strconv.Itoa(port+1))
	}
	return devices
}
