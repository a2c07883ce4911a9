package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
)

// Stats is what a job has used.
type Stats struct {
	Wall   time.Duration // from the start of the job, before that of its nodes, to the last end
	Status int
	Tier   string       // by which ends of PEs were learnt of
	PEs    []PEStats    // in the order of their numbers
	Agents []AgentStats // of nodes whose PEs have used them, in the order of the nodes; none in a job of one node
}

// AgentStats is what the agent of a node has exchanged with those of other nodes, until the node's last PE ended.
type AgentStats struct {
	Host    string
	Traffic daemon.Traffic
}

// PEStats is what a PE has used, together with the processes that it has started
// and waited for.
type PEStats struct {
	ID          string
	PID         int
	Status      int // of its exit; 128 plus the signal's number if that killed it
	Wall        time.Duration
	User        time.Duration
	System      time.Duration
	MaxRSS      uint64         // bytes; 0: not known
	Voluntary   int64          // context switches: it waited
	Involuntary int64          // context switches: another one had its turn
	Far         daemon.Traffic // with other nodes

	id daemon.ID
}

// countUsage keeps what a PE has used that has ended.
func (r *run) countUsage(e daemon.Event) {
	r.last = max(r.last, e.At) // nodes do not report in the order of time
	p := PEStats{id: e.ID, ID: e.String(), PID: e.PID, Status: e.End.Code, Wall: e.Ran}
	if e.End.Signal != 0 {
		p.Status = StatusSignal + e.End.Signal
	}
	p.User, p.System = e.Usage.User, e.Usage.System
	p.Voluntary, p.Involuntary = e.Usage.Voluntary, e.Usage.Involuntary
	p.MaxRSS = maxRSS(e.Usage.MaxRSS, e.Memory)
	p.Far = e.Far
	r.stats = append(r.stats, p)
	if e.Agent != (daemon.Traffic{}) {
		r.agents.keep(r.cluster.home(e.ID), e.Agent)
	}
}

// agentCounts is what the agents of nodes have counted, by node.
type agentCounts map[int]daemon.Traffic

// keep keeps what the agent of a node has counted. Ends may be told in another order than they came in.
func (c agentCounts) keep(node int, now daemon.Traffic) {
	was := c[node]
	c[node] = daemon.Traffic{Batches: max(was.Batches, now.Batches), Sent: max(was.Sent, now.Sent), Received: max(was.Received, now.Received)}
}

// stats returns what the agents of all nodes have counted.
func (c agentCounts) stats(hosts []plan.Host) (all []AgentStats) {
	for _, node := range slices.Sorted(maps.Keys(c)) {
		all = append(all, AgentStats{Host: hosts[node].Name, Traffic: c[node]})
	}
	return all
}

// countSlack is how far two of the kernel's counts of memory may be apart that are made at the same
// time: the kernel adds up only now and then what each processor has counted.
const countSlack = 1 << 20

// maxRSS returns the most memory that a PE had, by what the kernel has counted at its end; 0 if
// that may be the memory of this process, and nobody has looked at the PE's own.
func maxRSS(counted uint64, m daemon.Memory) uint64 {
	if counted > m.Floor+countSlack {
		return counted
	}
	return m.Peak
}

// printStats prints what the job has used, as Options.Stats formats it.
func (r *run) printStats() {
	if r.o.Stats == nil {
		return
	}
	slices.SortFunc(r.stats, func(a, b PEStats) int {
		return cmp.Or(cmp.Compare(a.id.Job, b.id.Job), cmp.Compare(a.id.PE, b.id.PE))
	})
	text, err := r.o.Stats(&Stats{Wall: r.last, Status: r.status, Tier: r.tier, PEs: r.stats, Agents: r.agents.stats(r.o.span().Hosts)})
	if err != nil {
		text = fmt.Appendf(text, "oshrun: --stats: %v\n", err)
		if r.status == StatusOK {
			r.status = StatusError
		}
	}
	r.out.printLines(text)
}
