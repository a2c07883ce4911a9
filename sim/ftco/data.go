package ftco

import (
	_ "embed" // the data
	"encoding/json"
	"fmt"
)

//go:embed testdata/published.json
var publishedData []byte

// Data has the published figures, with which tests and plots compare ours. Keys are numbers in
// decimal, for example of nodes or failures.
type Data struct {
	Source string `json:"source"`

	// Figure 7. Multi has the multi-root k-nomial trees by nodes and k: latency, output spread,
	// messages of all nodes, longest queue. BestLine has their published line of the best k. Best has
	// the least latencies of all kinds of trees.
	Multi    map[string]map[string][4]int `json:"figure7_knomial_multi"`
	BestLine map[string]BestLine          `json:"figure7_published_best"`
	Best     map[string]BestTrees         `json:"figure7_best"`

	// Table2 has latency, work, output spread and longest queue by distribution and spread.
	Table2 map[string]map[string][4]float64 `json:"table2"`

	// Faults has Figures 8 to 10 by nodes, kind (inactive or online) and failures.
	Faults map[string]map[string]map[string]FaultRow `json:"figures8_to_10"`
}

// BestTrees has the least latency of an allreduce for each kind of tree, and the k that gives it. The
// k of MultiKnomial is in BestLine.
type BestTrees struct {
	MultiKnomial       int `json:"lat_multi"`
	SingleKnomial      int `json:"lat_single"`
	SingleKnomialRadix int `json:"ks"`
	MultiKary          int `json:"kary_multi"`
	MultiKaryRadix     int `json:"kary_multi_k"`
	SingleKary         int `json:"kary_single"`
	SingleKaryRadix    int `json:"kary_single_k"`
}

// BestLine is the published row of the best k.
type BestLine struct {
	Radix     int `json:"k"`
	Latency   int `json:"steps"`
	OutSpread int `json:"out_spread"`
	Work      int `json:"msgs"` // messages of all nodes
	MaxQueue  int `json:"max_queue"`
}

// FaultRow has means over runs with failures.
type FaultRow struct {
	Latency float64 `json:"latency"`
	Work    float64 `json:"work"`
}

// PublishedData returns the data, which are part of the program.
func PublishedData() (*Data, error) {
	var d Data
	if err := json.Unmarshal(publishedData, &d); err != nil {
		return nil, fmt.Errorf("published data: %w", err)
	}
	return &d, nil
}
