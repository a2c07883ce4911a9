package detectfigures

import (
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/plot"
)

// experiment is what a row is made of. Figures that have equal experiments share the samples.
type experiment struct {
	how      string
	detector string
	fails    string // pe, node, contiguous:K or random:K
	nodes    int
	pes      int // of each node
	period   time.Duration
	loss     float64       // percent of pings and answers; of all packets in a real job
	traffic  bool          // PEs put data to each other all the time
	calm     time.Duration // of a real job in which nothing fails; 0: two seconds
}

// rows returns the rows of an experiment, without samples: one, or one for each way in which a hybrid PE learns of a death.
func (e *experiment) rows() (all []*Row) {
	if e.detector != hybrid {
		return []*Row{e.row(e.detector)}
	}
	for _, name := range hybridViews {
		all = append(all, e.row(name))
	}
	return all
}

func (e *experiment) row(detector string) *Row {
	r := &Row{How: e.how, Detector: detector, Case: e.fails, Nodes: e.nodes, PEs: e.nodes * e.pes, Loss: e.loss}
	if e.fails != processDeath { // heartbeats have no part in it
		r.Period = measure.Milliseconds(e.period)
	}
	return r
}

// noiseFigure is the figure whose experiment is that of package noise.
const noiseFigure = "7"

// processDeath is the case in which a PE dies. All others are of nodes.
const processDeath = "pe"

// spec is a figure that can be made.
type spec struct {
	name, title string
	paper       []Published
	experiments func(o *Options) []experiment
	swim        func(o *Options, row *Row) bool // which rows of SWIM belong to the figure; nil: none
	fits        bool                            // whether curves are fitted
	picture     func(f *Figure) *plot.Figure
	table       func(f *Figure) [][]string // nil: that of latencies
}

// specs are all figures, in the paper's order.
var specs = []spec{
	{
		name: noiseFigure, title: "Overhead of heartbeats on messages and collectives",
		paper: published7, experiments: func(*Options) []experiment { return nil }, picture: overBand, table: noiseTable,
	},
	{
		name: "8", title: "Accuracy over the heartbeat period, under traffic",
		paper: published8, experiments: figure8, picture: falseOverPeriod, table: accuracyTable,
	},
	{
		name: "8-loss", title: "Accuracy with messages that are lost",
		experiments: figure8Loss, picture: falseOverLoss, table: accuracyTable,
	},
	{
		name: "9", title: "Detection latency over the number of processes",
		paper: published9, experiments: figure9, picture: overPEs,
		swim: func(o *Options, row *Row) bool { return row.Period == measure.Milliseconds(longest(o.Periods)) },
	},
	{
		name: "10", title: "A node's death over the heartbeat period, beside SWIM",
		paper: published10, experiments: figure10, picture: overPeriod,
		swim: func(o *Options, row *Row) bool { return row.PEs == o.swimMembers() },
	},
	{name: "11", title: "A PE's death over the number of nodes", paper: published11, experiments: figure11, fits: true, picture: overNodes},
	{name: "12", title: "A PE's death on large machines", paper: published12, experiments: figure12, fits: true, picture: overNodes},
	{name: "13", title: "A node's death over the heartbeat period, beside ULFM", paper: published13, experiments: figure13, picture: overPeriod},
	{name: "14", title: "A node's death over the number of nodes", paper: published14, experiments: figure14, picture: overNodes},
	{name: "15", title: "Several nodes die at once", paper: published15, experiments: figure15, picture: overDead},
	{name: "16", title: "Two models in one program learn of a death", paper: published16, experiments: figure16, picture: overModels},
}

// Names returns the numbers of all figures.
func Names() []string {
	var names []string
	for i := range specs {
		names = append(names, specs[i].name)
	}
	return names
}

// longest returns the longest period: 500 ms, unless another list was asked for.
func longest(periods []time.Duration) time.Duration { return slices.Max(periods) }

// crowd is how many PEs each node has in emulated rows of Figure 9.
const crowd = 4

// figure9: more and more processes, at the longest period.
func figure9(o *Options) (all []experiment) {
	p := longest(o.Periods)
	for _, n := range o.Nodes {
		all = append(all, experiment{how: Emulated, detector: ours, fails: "node", nodes: n, pes: crowd, period: p})
	}
	for _, n := range o.SimNodes {
		if n*paperPerNode <= mostMembers {
			all = append(all, experiment{how: Simulated, detector: ours, fails: "node", nodes: n, pes: paperPerNode, period: p})
		}
	}
	for _, n := range o.SimNodes {
		if n*paperPerNode <= mostMembers {
			all = append(all, experiment{how: Simulated, detector: literal, fails: "node", nodes: n, pes: paperPerNode, period: p})
		}
	}
	return all
}

// periods returns the experiments of one node's death at all periods: among the most emulated nodes, and as many
// simulated ones as the paper has.
func (o *Options) periods() (all []experiment) {
	for _, e := range []experiment{
		{how: Emulated, detector: ours, nodes: slices.Max(o.Nodes), pes: 1},
		{how: Simulated, detector: ours, nodes: paperNodes, pes: paperPerNode},
		{how: Simulated, detector: literal, nodes: paperNodes, pes: paperPerNode},
	} {
		for _, p := range o.Periods {
			e.fails, e.period = "node", p
			all = append(all, e)
		}
	}
	return all
}

func figure10(o *Options) []experiment { return o.periods() }

// figure13 has the stand-in for ULFM beside those of Figure 10.
func figure13(o *Options) []experiment {
	all := o.periods()
	for _, p := range o.Periods {
		all = append(all, experiment{how: Simulated, detector: perPE, fails: "node", nodes: paperNodes, pes: paperPerNode, period: p})
	}
	return all
}

// mostMembers is the largest number of members of a literal machine that is simulated.
const mostMembers = 1 << 16

// processDeaths returns the experiments of Figures 11 and 12.
func processDeaths(simulated []int, perNode int) (all []experiment) {
	for _, n := range simulated {
		all = append(all, experiment{how: Simulated, detector: ours, fails: processDeath, nodes: n, pes: perNode, period: 0})
	}
	for _, n := range simulated {
		if n*perNode <= mostMembers {
			all = append(all, experiment{how: Simulated, detector: perPE, fails: processDeath, nodes: n, pes: perNode, period: 0})
		}
	}
	return all
}

func figure11(o *Options) (all []experiment) {
	for _, n := range o.Nodes {
		all = append(all, experiment{how: Emulated, detector: ours, fails: processDeath, nodes: n, pes: 1, period: 0})
	}
	upTo := slices.DeleteFunc(slices.Clone(o.SimNodes), func(n int) bool { return n > paperNodes })
	return append(all, processDeaths(upTo, paperPerNode)...)
}

// figure12 is of the larger machine. No number of emulated nodes stands for it.
func figure12(o *Options) []experiment { return processDeaths(o.SimNodes, coriPerNode) }

func figure14(o *Options) (all []experiment) {
	p := longest(o.Periods)
	for _, n := range o.Nodes {
		all = append(all, experiment{how: Emulated, detector: ours, fails: "node", nodes: n, pes: 1, period: p})
	}
	for _, n := range o.SimNodes {
		all = append(all, experiment{how: Simulated, detector: ours, fails: "node", nodes: n, pes: 1, period: p})
	}
	for _, n := range o.SimNodes {
		if n <= mostMembers/paperPerNode { // as in Figure 9
			all = append(all, experiment{how: Simulated, detector: literal, fails: "node", nodes: n, pes: 1, period: p})
		}
	}
	return all
}

// figure15 lets 1, 2, 4, ... nodes die: up to a quarter of the simulated ones, and fewer than half of the emulated ones,
// which the front end would otherwise take for a network in two parts.
func figure15(o *Options) (all []experiment) {
	p := longest(o.Periods)
	most := slices.Max(o.Nodes)
	for _, kind := range []string{"contiguous", "random"} {
		for _, e := range []struct {
			how, detector string
			nodes, most   int
		}{
			{Emulated, ours, most, (most - 1) / 2},
			{Simulated, ours, paperNodes, paperNodes / 4},
			{Simulated, literal, paperNodes, paperNodes / 4},
		} {
			for k := 1; k <= e.most; k *= 2 {
				all = append(all, experiment{how: e.how, detector: e.detector, fails: fmt.Sprintf("%s:%d", kind, k), nodes: e.nodes, pes: 1, period: p})
			}
		}
	}
	return all
}

// figure16 lets PEs and nodes of hybrid programs die, of which each node has two PEs: one initializes shmem first, the
// other one mpi.
func figure16(o *Options) (all []experiment) {
	for _, n := range o.Nodes {
		all = append(all, experiment{how: Emulated, detector: hybrid, fails: processDeath, nodes: n, pes: 2, period: 0})
	}
	return append(all, experiment{how: Emulated, detector: hybrid, fails: "node", nodes: slices.Max(o.Nodes), pes: 2, period: longest(o.Periods)})
}

// Title is the number of a figure, and what it shows.
type Title struct{ Name, About string }

// Titles returns the titles of all figures.
func Titles() (all []Title) {
	for i := range specs {
		all = append(all, Title{specs[i].name, specs[i].title})
	}
	return all
}
