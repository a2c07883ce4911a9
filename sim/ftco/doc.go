// Package ftco repeats the simulated experiments of Margolin and Barak's paper (Figures 7 to 10, Table
// 2). An experiment is many runs of one collective in the LogP model, with late nodes, inactive nodes
// and failures drawn at random. Equal options give equal results, however many runs are made at a
// time.
package ftco
