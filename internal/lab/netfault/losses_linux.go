//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package netfault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Losses are programs that lose packets.
type Losses struct{ all []*loser }

// loser is the program of one interface.
type loser struct {
	programs *ebpf.Collection
	link     link.Link
}

// losses is struct losses of lose.bpf.c.
type losses struct{ Seed, Below, From, To, Seen, Lost uint64 }

// Start begins to lose packets.
//
//   - Rights: CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and CAP_SYS_ADMIN for the network of another process.
//   - Lifetime: until Close, or the end of this process.
func Start(c Config) (*Losses, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	l := &Losses{}
	attach := func() error {
		for i, name := range c.Interfaces {
			if err := l.attach(&c, i, name); err != nil {
				return fmt.Errorf("interface %s: %w", name, err)
			}
		}
		return nil
	}
	var err error
	if c.Process == 0 {
		err = attach()
	} else {
		err = xunix.InNetworkOf(c.Process, attach)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Interfaces returns the names of the interfaces in the network of a process.
func Interfaces(process int) (names []string, err error) {
	err = xunix.InNetworkOf(process, func() error {
		all, err := net.Interfaces()
		for i := range all {
			names = append(names, all[i].Name)
		}
		return err
	})
	return names, err
}

// attach loads a program for an interface, and attaches it.
func (l *Losses) attach(c *Config, number int, name string) error {
	spec, err := loadLose()
	if err != nil {
		return err
	}
	x := &loser{}
	l.all = append(l.all, x)
	if x.programs, err = kernel.LoadPrograms(spec, zerolog.Nop()); err != nil {
		return err
	}
	s := losses{
		Seed: c.Seed + uint64(number)<<32, Below: c.threshold(),
		From: word(c.From, binary.NativeEndian.Uint32), To: word(c.To, binary.NativeEndian.Uint32),
	}
	if err := x.programs.Maps[loseMapState].Put(uint32(0), s); err != nil {
		return err
	}
	at, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	x.link, err = link.AttachTCX(link.TCXOptions{
		Interface: at.Index, Program: x.programs.Programs[loseProgLose], Attach: ebpf.AttachTCXIngress, Anchor: link.Head(),
	})
	return err
}

// Counts says what has happened to packets so far, by interface.
func (l *Losses) Counts() ([]Count, error) {
	var counts []Count
	for _, x := range l.all {
		var s losses
		if err := x.programs.Maps[loseMapState].Lookup(uint32(0), &s); err != nil {
			return nil, err
		}
		counts = append(counts, Count{s.Seen, s.Lost})
	}
	return counts, nil
}

// Close lets all packets pass again.
func (l *Losses) Close() (err error) {
	for _, x := range l.all {
		if x.link != nil {
			err = measure.FirstError(err, x.link.Close())
		}
		if x.programs != nil {
			x.programs.Close()
		}
	}
	l.all = nil
	return err
}
