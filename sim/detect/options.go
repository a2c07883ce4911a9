package detect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/sim/logp"
)

// Options describe one experiment. Fields have the names of oshrun's flags in JSON.
type Options struct {
	Nodes    int           `json:"nodes"`
	Fail     string        `json:"fail"`  // none, contiguous:K, random:K, or a list of nodes
	Death    string        `json:"death"` // node, daemon or pe
	Period   time.Duration `json:"heartbeat-period"`
	Tier     string        `json:"tier"` // kernel, process or user
	Order    string        `json:"order"`
	Literal  bool          `json:"literal"`  // the paper's algorithm
	PRRTE    bool          `json:"prrte"`    // the paper's algorithm as PRRTE 2.0 had it
	PEs      int           `json:"pes"`      // literal: members of a node
	Loss     float64       `json:"loss"`     // percent
	Duration time.Duration `json:"duration"` // at least, after the deaths
	Samples  int           `json:"samples"`
	Seed     uint64        `json:"seed"`
	Latency  time.Duration `json:"latency"`
	Jitter   time.Duration `json:"jitter"`
	Overhead time.Duration `json:"overhead"`
	Parallel int           `json:"-"` // samples at a time; 0: one
}

// Words are the words that each option takes.
var Words = map[string][]string{
	"death": {"node", "daemon", "pe"},
	"tier":  {"kernel", "process", "user"},
	"order": {"permuted", "plain"},
}

// Defaults returns the defaults.
func Defaults() Options {
	return Options{
		Nodes: 1024, Fail: "random:1", Death: "node", Period: 100 * time.Millisecond, Tier: "kernel", Order: "permuted", PEs: 1,
		Samples: 20, Seed: 1, Latency: 20 * time.Microsecond, Jitter: 10 * time.Microsecond, Overhead: 5 * time.Microsecond,
	}
}

// Limits of experiments. Beyond them nodes do not fit into memory, or numbers overflow.
const (
	mostNodes   = 1 << 18
	mostPEs     = 1 << 10
	mostSamples = 1 << 20
	longest     = time.Hour
)

// isLiteral reports whether the paper's algorithm runs.
func (o *Options) isLiteral() bool { return o.Literal || o.PRRTE }

// members returns the number of members of the ring.
func (o *Options) members() int {
	if o.isLiteral() {
		return o.Nodes * o.PEs
	}
	return o.Nodes
}

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	if err := logp.CheckOptions([]logp.Number{
		{Name: "nodes", Value: o.Nodes, Low: 2, High: mostNodes},
		{Name: "pes", Value: o.PEs, Low: 1, High: mostPEs},
		{Name: "samples", Value: o.Samples, Low: 1, High: mostSamples},
	}, []logp.Word{
		{Name: "death", Value: o.Death, Words: Words["death"]},
		{Name: "tier", Value: o.Tier, Words: Words["tier"]},
		{Name: "order", Value: o.Order, Words: Words["order"]},
	}); err != nil {
		return err
	}
	for _, d := range []struct {
		name             string
		value, low, high time.Duration
	}{
		{"heartbeat-period", o.Period, time.Millisecond, time.Minute},
		{"duration", o.Duration, 0, longest},
		{"latency", o.Latency, time.Microsecond, time.Second},
		{"jitter", o.Jitter, 0, time.Second},
		{"overhead", o.Overhead, time.Nanosecond, time.Second},
	} {
		if d.value < d.low || d.value > d.high {
			return logp.BadOption(d.name, d.value.String(), fmt.Sprintf("%v to %v", d.low, d.high))
		}
	}
	switch {
	case o.Latency%o.Overhead != 0 || o.Latency/o.Overhead > 1<<20:
		return logp.BadOption("latency", o.Latency.String(), fmt.Sprintf("a multiple of the overhead, %v, at most a million times", o.Overhead))
	case !(o.Loss >= 0 && o.Loss <= 90):
		return logp.BadOption("loss", strconv.FormatFloat(o.Loss, 'g', -1, 64), "0 to 90")
	case o.members() > mostNodes:
		return logp.BadOption("pes", strconv.Itoa(o.PEs), fmt.Sprintf("at most %d with %d nodes", mostNodes/o.Nodes, o.Nodes))
	}
	return o.checkTogether()
}

// checkTogether checks options that depend on each other.
func (o *Options) checkTogether() error {
	switch {
	case o.PEs > 1 && !o.isLiteral():
		return logp.BadOption("pes", strconv.Itoa(o.PEs), "1, or --literal; otherwise a member is a node, whatever runs on it")
	case o.Literal && o.PRRTE:
		return logp.BadOption("prrte", "true", "no --literal: it is the other version of the paper's algorithm")
	case o.isLiteral() && (o.Tier != "kernel" || o.Death == "daemon" || o.Order != "permuted"):
		return logp.BadOption("literal", "true", "no --tier, --death daemon or --order: the paper's algorithm has none of them")
	case o.Death == "daemon" && o.Tier != "kernel":
		return logp.BadOption("death", o.Death, "--tier kernel: no one else answers for a dead daemon")
	}
	_, err := o.victims(rand.New(rand.NewPCG(0, 0)))
	return err
}

// victims draws the nodes that die, in ascending order.
func (o *Options) victims(r *rand.Rand) ([]int32, error) {
	bad := func(want string) error { return logp.BadOption("fail", o.Fail, want) }
	kind, number, ok := strings.Cut(o.Fail, ":")
	if o.Fail == "none" {
		return nil, nil
	}
	if !ok {
		return o.listed()
	}
	k, err := strconv.Atoi(number)
	if err != nil || k < 1 || k > o.Nodes-1 {
		return nil, bad(fmt.Sprintf("a number from 1 to %d after the colon", o.Nodes-1))
	}
	var list []int32
	switch kind {
	case "contiguous":
		first := r.IntN(o.Nodes)
		for i := range k {
			list = append(list, int32((first+i)%o.Nodes))
		}
	case "random":
		for _, p := range r.Perm(o.Nodes)[:k] {
			list = append(list, int32(p))
		}
	default:
		return nil, bad("none, contiguous:K, random:K, or a list like 3,5,9")
	}
	slices.Sort(list)
	return list, nil
}

// listed returns the nodes of a list.
func (o *Options) listed() (list []int32, err error) {
	for word := range strings.SplitSeq(o.Fail, ",") {
		p, err := strconv.Atoi(word)
		if err != nil || p < 0 || p >= o.Nodes || slices.Contains(list, int32(p)) {
			return nil, logp.BadOption("fail", o.Fail, fmt.Sprintf("none, contiguous:K, random:K, or a list of different nodes from 0 to %d", o.Nodes-1))
		}
		list = append(list, int32(p))
	}
	if len(list) == o.Nodes {
		return nil, logp.BadOption("fail", o.Fail, "a survivor")
	}
	slices.Sort(list)
	return list, nil
}

// tier returns the tier for package ring.
func (o *Options) tier() ring.Tier {
	switch o.Tier {
	case "process":
		return ring.Process
	case "user":
		return ring.User
	}
	return ring.Kernel
}

// stride returns the distance of neighbors in the ring.
func (o *Options) stride() int {
	if o.Order == "plain" {
		return 1
	}
	return ring.Stride(o.Nodes)
}
