// Package tree has the trees along which collective operations and agreements travel: each node's
// parent and children, and what a subtree holds. Programs use [Knomial]. [Levels] are the trees of
// Margolin and Barak's paper, which the simulator reproduces.
package tree
