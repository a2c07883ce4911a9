// Package plan decides where the PEs of a job run. It is given all it needs as data, and does
// nothing by itself. It has two parts:
//
//   - Job.Lay spreads the PEs over hosts. ParseHostList, ParseHostfile and Slurm read which hosts
//     there are, ParseMapBy and ParseRank in which order they are filled and numbered.
//   - Topology.Assign says for the PEs of one node which of its processors each may use.
//
// The words are mpirun's. PEs are mapped, in order, to places; binding says how
// much around its place a PE may use: its core, or the NUMA node of that core.
package plan
