package ring

import (
	"errors"
	"fmt"
	"math"

	"github.com/goshmem/goshmem/detector/bmg"
)

// ErrConfig reports a Config that no machine can have.
var ErrConfig = errors.New("no such ring")

// Timing is how long a machine waits for what, in nanoseconds.
type Timing struct {
	Period int64 // from ping to ping
	Margin int64 // at least, for which an answer may be late
	Verify int64 // from a suspicion to the accusation
	Daemon int64 // for which a daemon's tick may stand still
	Direct int64 // for which a member may answer by way of others only
	Probes int   // pings in Verify, and as many by way of others
	Window int   // members that are verified together at first
}

const (
	millisecond = int64(1e6)
	second      = int64(1e9)
)

// Tier is who answers pings. It decides the timing.
type Tier uint8

// The tiers. Their times are measured: answers of a program in the kernel took at most 0.3 ms beside busy loops, those of
// a process under SCHED_FIFO came with gaps up to 50 ms, and those of an ordinary process with gaps up to 283 ms.
const (
	Kernel Tier = 1 + iota
	Process
	User
)

// TimingOf returns the timing of a tier, with the period between pings.
func TimingOf(t Tier, period int64) Timing {
	timing := Timing{Period: period, Margin: 20 * millisecond, Verify: 10 * millisecond, Daemon: 10 * second, Direct: 2 * second, Probes: 20, Window: 4}
	switch t {
	case Kernel:
	case Process:
		timing.Verify = 50 * millisecond
	case User:
		timing.Margin, timing.Verify = 500*millisecond, 500*millisecond
	}
	return timing
}

// Config shapes a machine. All members use the same Config, apart from Me.
type Config struct {
	N, Me  int
	Incs   []uint32 // the members' incarnations at the beginning; nil: all 1
	Stride int      // g: member i watches i - g modulo N; it has no divisor in common with N
	Timing Timing
}

// Stride returns a distance between neighbors in the ring of n members: near 0.618 n, and without a divisor in common
// with n. Multiples of such a distance are spread as evenly as can be.
func Stride(n int) int {
	near := int(math.Round(float64(n) * (math.Sqrt(5) - 1) / 2))
	for d := range n {
		for _, g := range [2]int{near - d, near + d} {
			if g > 0 && g < n && gcd(g, n) == 1 {
				return g
			}
		}
	}
	return 1 // of at most two members
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// shared is what the machines of a ring share.
type shared struct {
	n       Node
	stride  int64
	inverse int64 // of stride, modulo n
	timing  Timing
	helpers []Node // distances to the members that may be asked to ping
}

// shared returns what the machines of a ring share.
func (c *Config) shared() (*shared, error) {
	t := &c.Timing
	switch {
	case c.N < 1 || c.N > 1<<30:
		return nil, fmt.Errorf("%w: %d members, want 1 to %d", ErrConfig, c.N, 1<<30)
	case c.Incs != nil && len(c.Incs) != c.N:
		return nil, fmt.Errorf("%w: %d incarnations of %d members", ErrConfig, len(c.Incs), c.N)
	case c.Stride < 1 || gcd(c.Stride, c.N) != 1:
		return nil, fmt.Errorf("%w: stride %d, want one from 1 on without a divisor in common with %d", ErrConfig, c.Stride, c.N)
	case t.Period < 1 || t.Margin < 1 || t.Daemon < 1 || t.Direct < directPings || t.Verify < 1:
		return nil, fmt.Errorf("%w: timing %+v, want times of 1 ns or more, and %d or more to answer directly", ErrConfig, *t, directPings)
	case t.Probes < 1 || t.Probes > 100 || t.Verify < int64(t.Probes)+1:
		return nil, fmt.Errorf("%w: %d probes in %d ns, want 1 to 100 in as many ns", ErrConfig, t.Probes, t.Verify)
	case t.Window < 1:
		return nil, fmt.Errorf("%w: a window of %d, want 1 or more", ErrConfig, t.Window)
	}
	return &shared{
		n: Node(c.N), stride: int64(c.Stride % c.N), inverse: inverse(int64(c.Stride), int64(c.N)), timing: c.Timing,
		helpers: bmg.Offsets(c.N),
	}, nil
}

// inverse returns the x from 0 to n-1 for which a x is 1 modulo n. a and n have no divisor in common.
func inverse(a, n int64) int64 {
	x, y, r, s := int64(0), int64(1), n, a%n
	for s != 0 {
		q := r / s
		x, y = y, x-q*y
		r, s = s, r-q*s
	}
	return (x%n + n) % n
}

// before returns the member that is k places before p in the ring.
func (s *shared) before(p Node, k int64) Node {
	n := int64(s.n)
	return Node(((int64(p)-k%n*s.stride)%n + n) % n)
}

// distance returns how many places p is before me in the ring: from 1 for the first to n-1, and 0 for me.
func (s *shared) distance(me, p Node) int64 {
	n := int64(s.n)
	return (int64(me) - int64(p) + n) % n * s.inverse % n
}
