package netfault

import (
	"fmt"
	"net/netip"
)

// Config says what is lost.
type Config struct {
	// Process is one in whose network the interfaces are; 0: this one.
	Process    int
	Interfaces []string
	Percent    float64    // of the packets: 0 to 100
	From, To   netip.Addr // only packets with these IPv4 addresses; none: all
	Seed       uint64     // of the draws; each interface has draws of its own
}

// Count is what has happened to packets.
type Count struct {
	Seen uint64 // packets of the addresses
	Lost uint64 // of those
}

// check checks the configuration.
func (c *Config) check() error {
	if len(c.Interfaces) == 0 {
		return fmt.Errorf("interfaces: none, want at least one")
	}
	if !(c.Percent >= 0 && c.Percent <= 100) {
		return fmt.Errorf("losses: %v %%, want 0 to 100", c.Percent)
	}
	for _, a := range []netip.Addr{c.From, c.To} {
		if a.IsValid() && !a.Is4() {
			return fmt.Errorf("address %v, want one of IPv4", a)
		}
	}
	return nil
}

// threshold returns the draw, of 2^32, below which a packet is lost.
func (c *Config) threshold() uint64 { return uint64(c.Percent / 100 * (1 << 32)) }

// word returns an address as packets have it, in a number of this machine.
func word(a netip.Addr, number func([]byte) uint32) uint64 {
	if !a.IsValid() {
		return 0
	}
	b := a.As4()
	return uint64(number(b[:]))
}
