// Package graph500 is the Graph500 benchmark, kernels 1 and 2, written one-sidedly on the symmetric heap.
//
// The specification is Graph500 3.0: a Kronecker (R-MAT) graph of 2^SCALE vertices and edgefactor*2^SCALE
// edge tuples is generated bit for bit as by the reference code. It is turned into rows once (kernel 1), and
// searched breadth-first from up to 64 keys (kernel 2). Each search is validated against the original tuples.
//
// Vertex v belongs to PE v mod P, for any P. A PE ranks its vertices by descending degree. The flat number
// of a vertex is owner<<shift | rank; it is also the vertex's bit in the frontier bitmaps. What peers read or
// write (bitmaps, parents, inboxes) is in the symmetric heap and used in place through [shmem.Sym.Peer]. What
// only its PE uses (tuples, rows) is ordinary Go memory.
//
// Each step has its files: mrg.go, kronecker.go and roots.go generate, construct.go and rows.go are kernel 1 with
// exchange.go below them, bfs.go, topdown.go and bottomup.go kernel 2, validate.go, levels.go and tuplescan.go
// the validation, stats.go, output.go and report.go what is printed. Run puts them together, Main is the program.
package graph500
