package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/detector/responder"
	"github.com/goshmem/goshmem/internal/nodes"
)

// heartbeatFlags are the flags about how nodes watch each other.
type heartbeatFlags struct {
	period    string
	tier      string
	partition string
}

const (
	heartbeatOff  = "off"      // of --heartbeat-period: nodes do not watch each other
	heartbeatBest = "best"     // of --heartbeat-tier: what works
	partEnds      = "end"      // of --partition
	partGoesOn    = "continue" // of --partition

	leastPeriod = time.Millisecond
	mostPeriod  = time.Minute
)

// heartbeatTiers are the values of --heartbeat-tier.
var heartbeatTiers = []string{heartbeatBest, responder.Kernel.String(), responder.Process.String(), responder.User.String()}

func (f *heartbeatFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.period, "heartbeat-period", heartbeatOff, "how often the nodes of a job ask each other whether they live: `time` such as 100ms; off: a node is lost when its\nconnection with oshrun is. Not in jobs of one node, of nodes that are added, or with --control stdio")
	fs.StringVar(&f.tier, "heartbeat-tier", heartbeatBest, "what answers for a node: `best` that works; kernel, process or user")
	fs.StringVar(&f.partition, "partition", partEnds, "what oshrun does when it does not reach most nodes any more: `end` the job, or continue with those that it reaches")
}

// set sets what the flags say.
func (f *heartbeatFlags) set(cfg *nodes.Config) (err error) {
	if f.period == "" { // of a command without these flags
		return nil
	}
	if f.period != heartbeatOff {
		if cfg.Heartbeat, err = time.ParseDuration(f.period); err != nil || cfg.Heartbeat < leastPeriod || cfg.Heartbeat > mostPeriod {
			return usagef("--heartbeat-period 100ms", "--heartbeat-period: %q, want off or a duration from %v to %v, such as 100ms", f.period, leastPeriod, mostPeriod)
		}
	}
	if f.tier != heartbeatBest {
		if cfg.Tier, err = responder.ParseTier(f.tier); err != nil {
			return usagef("--heartbeat-tier best", "--heartbeat-tier: %q, want %s", f.tier, strings.Join(heartbeatTiers, ", "))
		}
	}
	switch f.partition {
	case partEnds:
	case partGoesOn:
		cfg.PartGoesOn = true
	default:
		return usagef("--partition end; there is no queue whose partition could be chosen", "--partition: %q, want %s or %s", f.partition, partEnds, partGoesOn)
	}
	return nil
}
