package ftco

import (
	"fmt"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/sim/logp"
)

// Options describe one experiment. Fields have the names of oshrun's flags in JSON.
type Options struct {
	Nodes      int    `json:"nodes"`
	Radix      int    `json:"radix"`      // 0: the one from 2 to 20 with the least latency
	Topology   string `json:"topology"`   // knomial or kary
	Roots      string `json:"roots"`      // single or multi
	Collective string `json:"collective"` // allreduce, reduce or bcast
	Latency    int    `json:"latency"`    // L, in steps
	Overhead   int    `json:"overhead"`   // o, in steps
	Service    string `json:"service"`    // rsd, disd or none
	Spread     int    `json:"spread"`     // nodes start in steps from 0 up to this
	Dist       string `json:"dist"`       // uniform or normal
	Inactive   int    `json:"inactive"`   // nodes that never take part
	Online     int    `json:"online"`     // nodes that fail while the collective runs
	Runs       int    `json:"runs"`
	Seed       uint64 `json:"seed"`
	Config     string `json:"config"`    // published or shipped
	Detection  int    `json:"detection"` // shipped: steps from a death to its news
	Parallel   int    `json:"-"`         // runs at a time; 0: one
}

// Words are the words that each option takes.
var Words = map[string][]string{
	"topology":   {"knomial", "kary"},
	"roots":      {"single", "multi"},
	"collective": {"allreduce", "reduce", "bcast"},
	"service":    {"rsd", "disd", "none"},
	"dist":       {"uniform", "normal"},
	"config":     {"published", "shipped"},
}

// Defaults returns the defaults: the paper's largest system, and the model's L and o.
func Defaults() Options {
	return Options{
		Nodes: 65536, Radix: 0, Topology: "knomial", Roots: "multi", Collective: "allreduce",
		Latency: 10, Overhead: 1, Service: "rsd", Dist: "uniform", Runs: 1, Seed: 1, Config: "published", Detection: 100,
	}
}

// Limits of experiments. Beyond them nodes do not fit into memory, or numbers overflow.
const (
	mostNodes = 1 << 22
	mostSteps = 1 << 20
	mostRuns  = 1 << 20
	mostRoots = 1 << 12
)

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	if err := logp.CheckOptions([]logp.Number{
		{Name: "nodes", Value: o.Nodes, Low: 1, High: mostNodes},
		{Name: "latency", Value: o.Latency, Low: 1, High: mostSteps},
		{Name: "overhead", Value: o.Overhead, Low: 1, High: mostSteps},
		{Name: "spread", Value: o.Spread, Low: 0, High: mostSteps},
		{Name: "inactive", Value: o.Inactive, Low: 0, High: o.Nodes - 1},
		{Name: "online", Value: o.Online, Low: 0, High: o.Nodes - 1},
		{Name: "runs", Value: o.Runs, Low: 1, High: mostRuns},
		{Name: "detection", Value: o.Detection, Low: 1, High: mostSteps},
	}, []logp.Word{
		{Name: "topology", Value: o.Topology, Words: Words["topology"]},
		{Name: "roots", Value: o.Roots, Words: Words["roots"]},
		{Name: "collective", Value: o.Collective, Words: Words["collective"]},
		{Name: "service", Value: o.Service, Words: Words["service"]},
		{Name: "dist", Value: o.Dist, Words: Words["dist"]},
		{Name: "config", Value: o.Config, Words: Words["config"]},
	}); err != nil {
		return err
	}
	if err := logp.CheckLatency(o.Latency, o.Overhead); err != nil {
		return err
	}
	return o.checkTogether()
}

// checkTogether checks options that depend on each other.
func (o *Options) checkTogether() error {
	if o.Service == "none" && o.Inactive+o.Online > 0 {
		return logp.BadOption("service", o.Service, "rsd or disd if nodes fail")
	}
	low, high := 2, o.Nodes
	if o.Topology == "kary" && o.Roots == "single" {
		low = 1
	}
	if o.Roots == "single" {
		high = max(2, high)
	}
	if o.Radix != 0 && (o.Radix < low || o.Radix > high) {
		return logp.BadOption("radix", fmt.Sprint(o.Radix), fmt.Sprintf("0 (the best), or %d to %d", low, high))
	}
	if o.Nodes == 1 && o.Roots == "multi" {
		return logp.BadOption("roots", o.Roots, "single with one node")
	}
	if k := o.Radix; o.Config == "published" && o.Roots == "multi" && k > mostRoots {
		return logp.BadOption("radix", fmt.Sprint(k), fmt.Sprintf("at most %d with --roots multi: each root keeps a set of all others", mostRoots))
	}
	return o.checkShipped()
}

// checkShipped checks options that the machine of programs does not have.
func (o *Options) checkShipped() error {
	switch {
	case o.Config != "shipped":
	case o.Topology != "knomial":
		return logp.BadOption("topology", o.Topology, "knomial with --config shipped, which has no other")
	case o.Roots != "single":
		return logp.BadOption("roots", o.Roots, "single with --config shipped, which has no other")
	}
	return nil
}

// shape returns the topology for package tree.
func (o *Options) shape() tree.Shape {
	if o.Topology == "kary" {
		return tree.KAry
	}
	return tree.KNomial
}

// kind returns the collective for package coll/ftco.
func (o *Options) kind() ftco.Kind {
	switch o.Collective {
	case "reduce":
		return ftco.Reduce
	case "bcast":
		return ftco.Bcast
	}
	return ftco.Allreduce
}

// service returns the service distance for package coll/ftco.
func (o *Options) service() ftco.ServiceDistance {
	switch o.Service {
	case "disd":
		return ftco.DISD
	case "none":
		return ftco.NoService
	}
	return ftco.RSD
}
