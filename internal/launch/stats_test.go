package launch

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
)

// A PE counts even if the kernel did not report its usage.
func TestCountWithoutUsage(t *testing.T) {
	const status = 1
	r := &run{}
	r.countUsage(daemon.Event{Kind: daemon.Exited, PID: 7, End: ending.End{Code: status}})
	if len(r.stats) != 1 || r.stats[0].Status != status || r.stats[0].MaxRSS != 0 {
		t.Errorf("counted %+v, want one PE of status %d that has used nothing", r.stats, status)
	}
}

// For a small PE, the kernel's peak is the memory of oshrun.
func TestMaxRSS(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		counted uint64
		memory  daemon.Memory
		want    uint64
	}{
		"large":               {100 * mib, daemon.Memory{Peak: 90 * mib, Floor: 15 * mib}, 100 * mib},
		"large, never seen":   {100 * mib, daemon.Memory{Floor: 15 * mib}, 100 * mib},
		"small":               {15 * mib, daemon.Memory{Peak: 6 * mib, Floor: 15 * mib}, 6 * mib},
		"small, never seen":   {15 * mib, daemon.Memory{Floor: 15 * mib}, 0},
		"about the same":      {15*mib + 100, daemon.Memory{Floor: 15 * mib}, 0},
		"about, and was seen": {15*mib + 100, daemon.Memory{Peak: 15*mib + 50, Floor: 15 * mib}, 15*mib + 50},
	} {
		if got := maxRSS(c.counted, c.memory); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// The last counts of an agent count, in whatever order the ends of its PEs are told.
func TestAgentCounts(t *testing.T) {
	late, early := daemon.Traffic{Batches: 9, Sent: 90, Received: 900}, daemon.Traffic{Batches: 2, Sent: 20, Received: 200}
	c := agentCounts{}
	for _, x := range []daemon.Traffic{early, late, early} {
		c.keep(2, x)
	}
	c.keep(0, early)
	got := c.stats([]plan.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	if want := []AgentStats{{"a", early}, {"c", late}}; !slices.Equal(got, want) {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
