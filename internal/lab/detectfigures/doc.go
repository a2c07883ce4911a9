// Package detectfigures makes the figures of a paper on failure detection, ours beside the published values. This is
// oshrun detect-figures.
//
//   - The paper: Zhong, Bouteiller, Luo and Bosilca, General Failure Detection and Propagation in HPC and Distributed
//     Systems, Figures 7 to 16.
//   - Emulated rows are real jobs of package detectbench, on nodes that this machine stands for.
//   - Simulated rows are package sim/detect: the same machines in virtual time, or the paper's algorithm as printed. With
//     one member for each PE that stands for ULFM, whose ring has processes as members.
//   - Rows of SWIM are read from a report of bench/cmd/swimbench: oshrun does not depend on memberlist.
//   - Published rows are the numbers in the paper's text (paper.go). Its plots have no numbers, so they are not read.
//
// A figure is a list of experiments (experiments.go). Figures share experiments: each is done once. Samples of all
// emulated experiments are mixed in time.
package detectfigures
