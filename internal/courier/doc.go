// Package courier carries questions, answers and news between the PMIx servers of a job's nodes, and to the board that the
// front end has, beside the names that processes publish by PMI-1. A [Courier] is the [server.Peers] of one node's
// server. A [Root] is the board's side.
//
//	what          kind of frame       from  to
//	a question    wire.KindQuestion   node  node or root
//	its answer    wire.KindReply            the node that has asked
//	news          wire.KindTell       node  node, root, or all other nodes
//
// Frames between two nodes go by way of the front end, in order. So what a node tells arrives before anything that follows
// from it: an event is there before the fence ends that its sender has entered after it.
//
// Each question has one answer. If the node that was asked dies, the courier answers for it.
package courier
