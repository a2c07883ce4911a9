package agree

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrConfig reports a Config that no machine can have.
var ErrConfig = errors.New("no such agreement")

// Algorithm is the way in which a group agrees.
type Algorithm uint8

// The algorithms.
const (
	Linear         Algorithm = iota + 1 // two-phase commit, all others below the coordinator
	Log                                 // two-phase commit along a tree
	EarlyReturning                      // an allreduce along a tree; it never blocks
)

// Config shapes a machine. All members of a group use the same Config, apart from Me.
type Config struct {
	Algorithm Algorithm
	N, Me     int
	Radix     int      // of the k-nomial tree; 0: 2, a binomial tree. Linear has none.
	Incs      []uint32 // the members' incarnations; nil: all 1
	Rebalance bool     // after a decision that lists new dead, the tree holds the other members only

	// Combine combines src into dst. It should be associative: votes are combined in the order of
	// the tree, each once. If Combine is nil, the decision has the payload of the coordinator, or
	// of the lowest member that voted.
	Combine func(dst, src *Payload)

	// Unite unites the bodies of two votes that are not both empty, under the same rule. If Unite is nil, bodies are dropped.
	Unite func(a, b string) string

	AskAll  bool // two-phase: an uncertain member asks all others
	Promote bool // two-phase: a member that would block is UNDECIDED instead
	Durable bool // early-returning: no member returns before every living one holds the decision
	Ticks   int  // early-returning: a KEEPALIVE goes out after this many ticks without progress; 0: never
}

// check returns what is wrong with the configuration, and fills in defaults.
func (c *Config) check() error {
	switch {
	case c.N < 1:
		return fmt.Errorf("%w: %d members, want 1 or more", ErrConfig, c.N)
	case c.Me < 0 || c.Me >= c.N:
		return fmt.Errorf("%w: member %d, want 0 to %d", ErrConfig, c.Me, c.N-1)
	case c.Incs != nil && len(c.Incs) != c.N:
		return fmt.Errorf("%w: %d incarnations of %d members", ErrConfig, len(c.Incs), c.N)
	case c.Algorithm == Linear:
		c.Radix = max(c.N, 2)
	case c.Radix == 0:
		c.Radix = 2
	}
	return nil
}

// incarnation returns the incarnation of member p.
func (c *Config) incarnation(p Node) uint32 {
	if c.Incs == nil {
		return 1
	}
	return c.Incs[p]
}

// isPeer reports whether p is a member other than the local one.
func (c *Config) isPeer(p Node) bool { return p >= 0 && int(p) < c.N && int(p) != c.Me }

// unite returns the bodies of two votes in one.
func (c *Config) unite(a, b string) string {
	if c.Unite == nil || a == "" && b == "" {
		return ""
	}
	return c.Unite(a, b)
}

// Machine is one member's part in the agreements of a group. One of its fields is set, by the
// algorithm.
type Machine struct {
	two   *twoPhase
	early *earlyReturning
}

// New makes a machine at rest.
func New(cfg Config) (*Machine, error) {
	var m Machine
	var err error
	switch cfg.Algorithm {
	case Linear, Log:
		m.two, err = newTwoPhase(cfg)
	case EarlyReturning:
		m.early, err = newEarly(cfg)
	default:
		err = fmt.Errorf("%w: algorithm %d, want %d to %d", ErrConfig, cfg.Algorithm, Linear, EarlyReturning)
	}
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// Step handles one event and appends to out what the driver is to do.
func (m *Machine) Step(ev Event, out []Action) []Action {
	if m.two != nil {
		return m.two.Step(ev, out)
	}
	return m.early.Step(ev, out)
}

// Sum adds payloads as four little-endian 64-bit numbers.
func Sum(dst, src *Payload) {
	for i := 0; i < len(dst); i += 8 {
		a, b := binary.LittleEndian.Uint64(dst[i:]), binary.LittleEndian.Uint64(src[i:])
		binary.LittleEndian.PutUint64(dst[i:], a+b)
	}
}
