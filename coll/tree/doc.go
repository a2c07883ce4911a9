// Package tree knows the trees along which collective operations and agreement
// travel: who is whose parent, and what a subtree holds.
package tree
