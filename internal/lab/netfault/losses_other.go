//go:build !linux || !(386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64)

package netfault

import "errors"

var errNotHere = errors.New("packets are lost by a program in the kernel of Linux, on a little-endian processor")

// Losses are programs that lose packets.
type Losses struct{}

// Start is not supported here.
func Start(Config) (*Losses, error) {
	return nil, errNotHere
}

// Counts is not supported here.
func (*Losses) Counts() ([]Count, error) { return nil, nil }

// Close is not supported here.
func (*Losses) Close() error { return nil }

// Interfaces is not supported here.
func Interfaces(int) ([]string, error) { return nil, errNotHere }
