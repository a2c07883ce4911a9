package responder

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
)

// ErrFenced is the cause of a failed Add: the node is fenced, and the process has been killed.
var ErrFenced = errors.New("the node is fenced")

// Tier is who answers. Lower values are better.
type Tier uint8

// The tiers.
const (
	Kernel  Tier = iota + 1 // a program in the kernel
	Process                 // the keeper
	User                    // a goroutine of the daemon
)

var tierNames = []string{Kernel: "kernel", Process: "process", User: "user"}

// String returns the name that ParseTier accepts.
func (t Tier) String() string {
	if t >= Kernel && t <= User {
		return tierNames[t]
	}
	return fmt.Sprintf("Tier(%d)", uint8(t))
}

// ParseTier returns the tier of a name: "kernel", "process" or "user".
func ParseTier(text string) (Tier, error) {
	if i := slices.Index(tierNames, text); i > 0 {
		return Tier(i), nil
	}
	return 0, fmt.Errorf("tier %q, want one of %s", text, strings.Join(tierNames[Kernel:], ", "))
}

// Ports is a range of ports. The zero value leaves the port to the kernel.
type Ports struct{ Low, High uint16 }

// Config says for whom to answer, and how.
type Config struct {
	Tier   Tier // the tier to use; 0: the best one that works
	Key    packet.Key
	Job    uint64
	Node   ring.Node
	Inc    uint32
	Listen netip.Addr // the address that others send to; the kernel tier needs that of one interface
	Ports  Ports

	Keeper []string      // the command of the keeper; nil: none, so no process tier, and no answers once the daemon has ended
	TTL    time.Duration // how long the keeper outlives the daemon; 0: DefaultTTL

	// Fenced is called once if the node is fenced and this process still runs: in the user tier, or with SpareDaemon.
	// It is called by a goroutine of the responder. In the user tier, this process is killed when it returns.
	Fenced func()
	// SpareDaemon lets this process live when the node is fenced.
	SpareDaemon bool

	Logger zerolog.Logger
}

// DefaultTTL is how long the keeper outlives the daemon by default. Others ping ten times a second.
const DefaultTTL = 3 * time.Second

// TierError says why a tier does not work here.
type TierError struct {
	Tier    Tier
	Missing string // the capability ("CAP_NET_ADMIN"), the feature of the kernel or the setting that is missing
	Err     error  // the kernel's error; nil: no call was made
}

func (e *TierError) Error() string {
	text := fmt.Sprintf("answer pings by the tier %v: missing: %s", e.Tier, e.Missing)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *TierError) Unwrap() error { return e.Err }

// check returns what is wrong with a configuration.
func (c *Config) check() error {
	switch {
	case c.Tier > User:
		return fmt.Errorf("responder: tier %v, want %v to %v, or 0", c.Tier, Kernel, User)
	case !c.Listen.IsValid() || c.Listen.IsMulticast():
		return fmt.Errorf("responder: address %v, want that of an interface", c.Listen)
	case c.Ports.Low > c.Ports.High, c.Ports.Low == 0 && c.Ports.High != 0:
		return fmt.Errorf("responder: ports %d to %d, want 1 to 65535 in this order, or 0 and 0", c.Ports.Low, c.Ports.High)
	case c.TTL < 0:
		return fmt.Errorf("responder: TTL %v, want 0 or more", c.TTL)
	}
	return nil
}
