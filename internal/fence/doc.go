// Package fence carries PMIx fences, and requests for data of processes, between the servers of a job's nodes. A [Driver]
// is the [server.Remote] of one node's server. It talks in frames to the drivers of the other nodes. [Fences], inside, is
// a pure core.
//
// # The machine
//
// Each set of processes ([server.FenceSet]) has a [ftco.Machine] among the nodes of its processes: the code that sim/ftco
// and sim/explore run, unchanged. The n-th fence of the set is the machine's n-th call. It is a uniform Allreduce whose
// values are lists of parts and whose operator appends. Machines of different sets know nothing of each other, because two
// nodes may meet the fences of two sets in different orders.
//
//	input                         what the core does
//	Remote.Fence, a part          calls the fence; enters the machine when it has returned from the one before
//	Remote.Expire                 calls the fence as expired
//	a call                        passes it on; FenceCalled or FenceExpired when the server has handed in the fence before
//	a message of the machine      steps the machine
//	a node's death                calls all open fences again; steps the machine
//	the machine returns           FenceDone
//
// # How a fence ends
//
// The status is the first error of the parts, in the order of nodes. A node that died before its part was counted is
// such an error, PMIX_ERR_PROC_TERM_WO_SYNC, unless the fence spares those who do not join. Else the fence is a success
// with the data of all parts, in the order of nodes. This depends on the machine's decision alone, so it is the same
// on all nodes. A death after the dead node's part was counted does not change it.
//
// # Why uniform
//
// FenceDone lets programs go on: they print, they write files, they begin the next fence. If a node could end a fence and
// die with the only copy of the decision, the survivors might decide otherwise. A uniform call returns when all
// living nodes hold the decision. From that follows what the core builds on:
//
//   - All nodes have handed in fence n when any node ends it. So a node is called for fence n+1 at most.
//   - Nobody needs the data of a fence that has ended somewhere. So a set keeps no data between fences.
//
// # Why it cannot hang
//
// The machine ends on every survivor if every survivor hands in its part. A server hands in a part when its processes have
// joined, or an error when one of them is dead or a deadline has passed. To do so before any of its processes has joined,
// it must hear of the fence. So calls have to reach every living node of the set:
//
//   - A node that learns of a call sends it to its neighbors in the tree of living nodes, but not back to where it came from.
//   - A node that learns of a death sends the calls of all open fences to all neighbors in the tree that is left.
//   - When no more nodes die, all survivors have the same tree. Since its last change, each of them has sent what it knows
//     to all neighbors. The tree is connected, so all know the same.
//
// A call goes to a neighbor before any message of the machine for the same fence, and links keep the order. So a node has
// the machine when a message for it comes. A fence whose processes never join, and never die, ends by its deadline only.
// That is what PMIx says.
//
// # The bounds
//
// A set holds the data of one fence, at most 256 MiB with all parts; a fence with more fails on all nodes alike. It knows
// at most 1,025 open fences: the next one, and those of which a deadline has passed on a node whose server has joined them
// in advance (a server has 1,024 fences of a set under way at most). A message that arrives in pieces is one for each node
// and kind. The machine of a set stays until a job of its processes is over, and somewhat longer, because it has the number
// of the next fence: 8 bytes for each node of the set, and some 2 KiB. Servers bound the number of sets that they call.
package fence
