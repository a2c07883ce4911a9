//go:build !linux

package xunix

import (
	"net"
	"net/netip"
	"os"
	"syscall"
)

// NetworkAttr has no attributes here.
func NetworkAttr(bool) *syscall.SysProcAttr { return nil }

// HostAttr has no attributes here.
func HostAttr() *syscall.SysProcAttr { return nil }

// DropAmbientRights is not supported here.
func DropAmbientRights() error { return ErrNotSupported }

// AddBridge is not supported here.
func AddBridge(string, netip.Prefix) error { return ErrNotSupported }

// ConnectHost is not supported here.
func ConnectHost(int, string, netip.Prefix, string, string) error { return ErrNotSupported }

// PacketPair is not supported here.
func PacketPair() (*net.UnixConn, *os.File, error) { return nil, nil, ErrNotSupported }

// PacketConn is not supported here.
func PacketConn(uintptr) (*net.UnixConn, error) { return nil, ErrNotSupported }
