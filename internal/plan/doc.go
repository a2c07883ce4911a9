// Package plan decides where the PEs of a job run on a node: it is given the
// node's processors as data and says which of them each PE may use.
//
// The words are mpirun's. PEs are mapped, in order, to places; binding says how
// much around its place a PE may use: its core, or the NUMA node of that core.
package plan
