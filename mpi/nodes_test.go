package mpi_test

// Causes why a test is for one node.
const (
	needsLanes   = "fills lanes of this node, or looks into them"
	needsMemory  = "is about the copying between processes of one node"
	needsLook    = "looks into the buffer of a receive that is under way, which the race detector refuses where this process copies"
	needsChecks  = "is about GOSHMEM_CHECK=collectives; steps between nodes compare what they do in any case, and say less"
	needsPieces  = "counts how often a large reduction of one node calls its operator"
	needsTeam    = "is about blocks that go through a team, whose ranks are on one node"
	needsSegment = "receives from the segment of a dead sender, which only this node has"
)

// oneNode has the tests whose jobs run on one node, whatever the flag -nodes says, and why. All others run on the nodes of the flag.
var oneNode = map[string]string{
	"TestStoppedSender":           needsLook,
	"TestGoroutinesInPingPong":    needsLanes,
	"TestSharesAfterFree":         needsMemory,
	"TestSharesOfWindow":          needsMemory,
	"TestDeathInReduce":           needsPieces,
	"TestPairRefused":             needsMemory,
	"TestFinalizedAfterDeath":     needsLanes,
	"TestCheckDifferences":        needsChecks,
	"TestSymmetricOutlivesSender": needsSegment,
	"TestNoAllocationOfBlocks":    needsTeam,
}
