package detectfigures

import "fmt"

// Published is what the text of the paper says of a figure. Times are in milliseconds; 0: the text gives no bound.
type Published struct {
	Detector string  `json:"detector"`
	Case     string  `json:"case"`
	Nodes    int     `json:"nodes,omitempty"`
	PEs      int     `json:"pes,omitempty"`
	Period   float64 `json:"period_ms,omitempty"`
	Least    float64 `json:"least_ms,omitempty"`
	Most     float64 `json:"most_ms,omitempty"`
	Says     string  `json:"says,omitempty"` // what is said without a number
	Section  string  `json:"section"`
}

// The detectors of the paper.
const (
	rdaemon = "RDAEMON#"
	ulfm    = "ULFM"
	paperIs = "SWIM (Go-Memberlist)"
)

// bounds returns the published times as a cell of a table.
func (p *Published) bounds() string {
	switch {
	case p.Says != "":
		return p.Says
	case p.Least == 0:
		return fmt.Sprintf("below %g", p.Most)
	case p.Most == 0:
		return fmt.Sprintf("more than %g", p.Least)
	case p.Most == p.Least:
		return fmt.Sprintf("about %g", p.Most)
	}
	return fmt.Sprintf("%g to %g", p.Least, p.Most)
}

// The text of the paper. 64 nodes have 12 cores each, so 768 processes; section 5.6 says 764. Cori has 32 cores a node.
const (
	paperNodes   = 64
	paperPEs     = 768
	paperPerNode = 12
	coriPerNode  = 32
)

// between returns the published row of RDAEMON# that every time lies between the period and the timeout of two periods.
func between(section, fails string, nodes, pes int, period float64) Published {
	return Published{Detector: rdaemon, Case: fails, Nodes: nodes, PEs: pes, Period: period, Least: period, Most: 2 * period, Section: section}
}

// publishedPeriods has the rows of Figures 10 and 13 for the shortest and the longest period.
func publishedPeriods(section string, pes int) []Published {
	return []Published{between(section, "node", paperNodes, pes, 30), between(section, "node", paperNodes, pes, 500)}
}

// shortest is the shortest period without false reports in Figure 8.
const shortest = 20

var (
	published7 = []Published{
		{Detector: rdaemon, Case: "ping-pong", Nodes: 2, Period: 1, Says: "up to 3", Section: "5.3"},
		{Detector: rdaemon, Case: "collectives", Nodes: paperNodes, Period: 1, Says: "below 8; band of 4", Section: "5.3"},
		{Detector: rdaemon, Case: "both", Nodes: paperNodes, Period: 10, Says: "within the band", Section: "5.3"},
	}
	published8 = []Published{
		{Detector: rdaemon, Case: "none, node", Nodes: paperNodes, PEs: paperPEs, Period: shortest, Says: "accurate from this period on", Section: "5.2"},
		{Detector: rdaemon, Case: "none", Nodes: paperNodes, PEs: paperPEs, Says: "false reports below, at the start of jobs", Section: "5.2"},
	}
	published9 = []Published{
		between("5.4", "node", paperNodes, paperPEs, 500),
		between("5.4", "node", 0, 4096, 500),
		{Detector: paperIs, Case: "node", PEs: 256, Period: 500, Says: "grows with the members; more than 256 crash", Section: "5.4"},
	}
	published10 = append(publishedPeriods("5.4", paperPEs),
		Published{Detector: paperIs, Case: "node", Nodes: paperNodes, PEs: 256, Period: 500, Least: 10 * 500, Section: "5.4"})
	published11 = []Published{
		{Detector: rdaemon, Case: "pe", Nodes: paperNodes, PEs: paperPEs, Most: 5, Section: "5.5"},
		{Detector: ulfm, Case: "pe", Nodes: paperNodes, PEs: paperPEs, Least: 2, Most: 3, Section: "5.5"},
	}
	published12 = []Published{{Detector: rdaemon, Case: "pe", Nodes: 128, PEs: 4096, Least: 10, Most: 10, Section: "5.5"}}
	published13 = publishedPeriods("5.6", 764)
	published14 = []Published{between("5.6", "node", paperNodes, paperPEs, 500)}
	published15 = []Published{
		{Detector: rdaemon, Case: "contiguous:K", Nodes: paperNodes, Period: 500, Says: "K timeouts: grows with K", Section: "5.6"},
		{Detector: rdaemon, Case: "random:K", Nodes: paperNodes, Period: 500, Says: "little more than one node", Section: "5.6"},
	}
	published16 = []Published{{Detector: "MPI and OpenSHMEM", Case: "hybrid", Says: "one event of PMIx for both models", Section: "6"}}
)
