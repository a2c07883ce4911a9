// Package tree knows the trees along which collective operations and agreement
// travel: who is whose parent, and what a subtree holds. [Knomial] is the one that
// programs use, [Levels] are those of Margolin and Barak's paper, which the
// simulator reproduces.
package tree
