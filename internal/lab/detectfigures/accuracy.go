package detectfigures

import (
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// noDeath is the case in which nothing fails.
const noDeath = "none"

// oursUser is our detector where daemons answer by themselves.
const oursUser = "goshmem, tier user"

// observed is the virtual time in which any report is false.
const observed = time.Minute

// losses are the percentages of lost messages in the second half of Figure 8.
var losses = []float64{0, 1, 2, 5, 10, 20, 30}

// lossy is the number of simulated samples with losses. Each is a minute of heartbeats.
const lossy = 4

// figure8 lets nothing fail, and then a node, at short periods, while PEs put data to each other. Each job's start is part
// of it: a node that is lost then is a false report.
func figure8(o *Options) (all []experiment) {
	for _, fails := range []string{noDeath, "node"} {
		for _, p := range o.Accuracy {
			all = append(all, experiment{how: Emulated, detector: ours, fails: fails, nodes: slices.Max(o.Nodes), pes: 1, period: p, traffic: true})
		}
	}
	return all
}

// calm is how long a real job runs that loses packets.
const calm = 20 * time.Second

// figure8Loss loses pings, answers and heartbeats at random; in real jobs all packets.
func figure8Loss(o *Options) (all []experiment) {
	for _, loss := range losses {
		all = append(all, experiment{how: Emulated, detector: ours, fails: noDeath, nodes: slices.Max(o.Nodes), pes: 1, period: 100 * time.Millisecond, loss: loss, calm: calm})
	}
	for _, detector := range []string{ours, oursUser, literal} {
		for _, loss := range losses {
			all = append(all, experiment{how: Simulated, detector: detector, fails: noDeath, nodes: paperNodes, pes: 1, period: 100 * time.Millisecond, loss: loss})
		}
	}
	return all
}

// falsePercent returns how many of the living nodes of all samples were reported. A real job has reports of PEs, too: each
// node that is reported has several.
func (r *Row) falsePercent() float64 {
	if r.Samples == 0 {
		return 0
	}
	return min(100, 100*float64(r.False)/float64(r.Nodes*r.Samples))
}

// accuracyTable has no times without a failure.
func accuracyTable(f *Figure) [][]string {
	rows := [][]string{{"HOW", "DETECTOR", "CASE", "NODES", "PERIOD MS", "LOST %", "SAMPLES", "LAST MS", "FALSE", "MISSED"}}
	for _, r := range f.Rows {
		if r.Samples > 0 {
			rows = append(rows, []string{
				r.How, r.Detector, r.Case, fmt.Sprint(r.Nodes), number(r.Period), fmt.Sprint(r.Loss), fmt.Sprint(r.Samples), spread(r.Last), fmt.Sprint(r.False), fmt.Sprint(r.Missed),
			})
		}
	}
	for _, p := range f.Paper {
		rows = append(rows, []string{"paper, " + p.Section, p.Detector, p.Case, number(float64(p.Nodes)), number(p.Period), "-", "-", "-", p.bounds(), "-"})
	}
	return rows
}

// falseOverPeriod draws false reports and misses over the period: as points, which can be seen where there are none.
func falseOverPeriod(f *Figure) *plot.Figure {
	p := f.newPicture("heartbeat period, ms; the paper's detector is accurate from 20 on")
	p.YLabel, p.LogY = "false reports and misses in all jobs", false
	for i, c := range []struct{ fails, name string }{{noDeath, "nothing fails"}, {"node", "a node dies"}} {
		s := plot.Series{}
		jobs := 0
		for _, r := range f.Rows {
			if r.Case != c.fails || r.Samples == 0 {
				continue
			}
			name := number(r.Period)
			if !slices.Contains(p.Names, name) {
				p.Names = append(p.Names, name)
			}
			s.Add(plot.Around(float64(slices.Index(p.Names, name)), i, 2), float64(r.False+r.Missed))
			jobs += r.Samples
		}
		if s.Name = fmt.Sprintf("%s, %d jobs", c.name, jobs); len(s.X) > 0 {
			p.Series = append(p.Series, s)
		}
	}
	return p
}

// falseOverLoss draws how many living nodes are reported over the losses.
func falseOverLoss(f *Figure) *plot.Figure {
	p := f.newPicture("messages lost, %")
	p.Title = fmt.Sprintf("%s (an addition to Zhong et al., Figure 8)", f.Title)
	p.YLabel, p.LogY = "living nodes reported, %", false
	var names []string
	for _, loss := range losses {
		p.Names = append(p.Names, fmt.Sprint(loss))
	}
	for _, r := range f.Rows {
		if r.Samples == 0 {
			continue
		}
		i := slices.Index(names, r.series())
		if i < 0 {
			i = len(names)
			names = append(names, r.series())
			p.Series = append(p.Series, plot.Series{Name: r.series()})
		}
		p.Series[i].Add(float64(slices.Index(losses, r.Loss)), r.falsePercent())
	}
	return p
}
