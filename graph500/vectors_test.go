package graph500

import (
	"encoding/json"
	"os"
	"testing"
)

// vectors are the known answers in testdata, which were made with the unmodified reference
// generator and checked against the reference program. The file itself has the definitions.
type vectors struct {
	Scales map[string]*scaleVector `json:"scales"`
}

type scaleVector struct {
	NVerts      uint64      `json:"nverts"`
	NEdges      uint64      `json:"nedges"`
	Seed        []uint64    `json:"seed"`
	Val0        uint64      `json:"val0,string"`
	Val1        uint64      `json:"val1,string"`
	First       [][3]uint64 `json:"first16"`
	Last        [][3]uint64 `json:"last4"`
	DirectedSum uint64      `json:"directed_sum,string"`
	DirectedXor uint64      `json:"directed_xor,string"`

	UndirectedSum         uint64 `json:"undirected_sum,string"`
	UndirectedXor         uint64 `json:"undirected_xor,string"`
	OrderedFNV            uint64 `json:"ordered_fnv1a64,string"`
	WeightedSum           uint64 `json:"weighted_sum,string"`
	WeightedXor           uint64 `json:"weighted_xor,string"`
	WeightedUndirectedSum uint64 `json:"weighted_undirected_sum,string"`

	SelfLoops        uint64 `json:"self_loops"`
	MaxDegree        uint64 `json:"max_degree_noloops_multi"`
	MaxDegreeVertex  uint64 `json:"max_degree_vertex"`
	MaxDegreeUnique  uint64 `json:"max_degree_distinct"`
	VerticesWithEdge uint64 `json:"vertices_degree_gt0"`
	UniqueEdges      uint64 `json:"distinct_undirected_edges_noloops"`

	LargestVertices      uint64      `json:"largest_component_vertices"`
	LargestEdges         uint64      `json:"largest_component_edges_v3"`
	LargestEdgesAndLoops uint64      `json:"largest_component_edges_with_selfloops"`
	RootsExhaustedAt     int         `json:"roots_exhausted_at"`
	Roots                []uint64    `json:"roots"`
	Runs                 []runVector `json:"runs"`
}

type runVector struct {
	Root          uint64   `json:"root"`
	Depth         int      `json:"depth"`
	Reached       uint64   `json:"reached"`
	Edges         uint64   `json:"edges_v3"`
	EdgesAndLoops uint64   `json:"edges_with_selfloops"`
	LevelCounts   []uint64 `json:"level_counts"`
	LevelChecksum uint64   `json:"level_checksum,string"`
}

// knownRoots returns the roots that a run has to use: those before the candidates ran out.
func (v *scaleVector) knownRoots() []uint64 {
	if v.RootsExhaustedAt > 0 {
		return v.Roots[:v.RootsExhaustedAt]
	}
	return v.Roots
}

func loadVectors(t testing.TB) map[string]*scaleVector {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v.Scales
}

func splitmix64(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// pairHash is h(u,v) of the vectors' definitions.
func pairHash(u, v uint64) uint64 { return splitmix64(u)*31 + splitmix64(v) }
