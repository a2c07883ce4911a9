//go:build !linux

package xunix

import (
	"net/netip"
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

// SetLinksDown is not supported here.
func SetLinksDown(int, []string) error { return ErrNotSupported }

// InNetworkOf is not supported here.
func InNetworkOf(int, func() error) error { return ErrNotSupported }
