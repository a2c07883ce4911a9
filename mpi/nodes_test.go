package mpi_test

// Causes why a test is for one node.
const (
	needsSplit   = "makes communicators of ranks on several nodes, which are not supported yet"
	needsLanes   = "fills lanes of this node, or looks into them"
	needsMemory  = "is about the copying between processes of one node"
	needsLook    = "looks into the buffer of a receive that is under way, which the race detector refuses where this process copies"
	needsChecks  = "is about GOSHMEM_CHECK=collectives; steps between nodes compare what they do in any case, and say less"
	needsPieces  = "counts how often a large reduction of one node calls its operator"
	needsSegment = "receives from the segment of a dead sender, which only this node has"
)

// oneNode has the tests whose jobs run on one node, whatever the flag -nodes says, and why. All others run on the nodes of the flag.
var oneNode = map[string]string{
	"TestSplit":                   needsSplit,
	"TestSplitColor":              needsSplit,
	"TestSplitFails":              needsSplit,
	"TestMismatch":                needsSplit,
	"TestMismatchEndsForAll":      needsSplit,
	"TestDirectNext":              needsSplit,
	"TestPendingAtFree":           needsSplit,
	"TestSharesAfterFree":         needsSplit,
	"TestFreedAfterDeath":         needsSplit,
	"TestFreeTimedOut":            needsSplit,
	"TestDeathElsewhere":          needsSplit,
	"TestStoppedSender":           needsLook,
	"TestSharesOfWindow":          needsMemory,
	"TestDeathInReduce":           needsPieces,
	"TestPairRefused":             needsMemory,
	"TestFinalizedAfterDeath":     needsLanes,
	"TestCheckDifferences":        needsChecks,
	"TestSymmetricOutlivesSender": needsSegment,
}
