// Package teams drives the collectives of teams whose PEs are on several nodes, on one of these nodes: package span decides, and
// this package reads and writes the words of the node's PEs (layout.Upper) and exchanges messages with the same package on
// other nodes. The agent of a node runs it. It has no goroutine and knows no clock.
//
// # How a team becomes known here
//
// A member describes its team, and announces it, before it enters the step of the parent that makes the team. So whoever uses the
// team may rely on this: each node that has members has a description in the memory of each of them, also if all of them
// have died since. The package looks there when a message names a team that it does not know. The first team of all PEs is known
// from the start.
//
// # When a team is forgotten
//
// Other nodes may ask for the result of the last step while they have not delivered it. A node that has tells the others so
// when a member says that the team has ended (UpperPart.Ended), or when all its members that live have described other teams in
// their words. A node that has heard that of all nodes that live has nothing more to say of the team, and says so. It forgets the team
// when it has heard that as well: what a node had said before, answers to late questions among it, has come by then. A team that its members have broken has no last
// step; it stays until the words are used again, and with it what answers late questions.
//
// Some nodes may have described a team, and others not, because they could not make it. A node says that the team has ended when the step of
// the parent has a result, in which the team is made. All members have described the team before they entered that step, or never
// do. So a node that does not know the team then answers that it never will, and drops what has come for it. What others say of
// the team until they have that answer, it drops when they say that they have no more to say.
//
// # Memory that is used again
//
// Words of an ended or broken team become those of another one. The package reads UpperPart.Start behind each arrival word: as
// long as it is what the member began with, the word is of the team that the package knows. If not, the member has given the
// team up. Results are written only for the latest team with an id here.
package teams
