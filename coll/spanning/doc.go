// Package spanning runs the collectives of teams whose members are on several nodes, as one of the members calls them. The
// decisions are made by the agents of the nodes: see package coll/span for how, and internal/agent/teams for the agent's side.
//
// # How a step works
//
// The members of a team on one node are its part there, an ordinary coll.Team. In a step,
//
//  1. each member writes its record, what it gives besides, and then its arrival word (layout.Upper);
//  2. the member that sees that all living members of the part have entered tells the agent;
//  3. the agents fold what their members gave, combine that along a tree of nodes, and write one result for each member;
//  4. each member waits for that result alone.
//
// So a step takes one round trip along the tree, whatever it carries, and all survivors return the same.
//
// # What a step carries
//
// A record has the words that members compare, flags, and the fault of a member that could not do its part. Members give bytes besides:
//
//   - Elements for a predefined operator, up to MostFolded bytes of each member: the agents fold them (Team.Fold). So a small
//     allreduce is one step of one size, whatever the team's size.
//   - Pieces, which come to all members with the result (Team.Gather): for values that only the program can fold, and for lengths. All
//     pieces together have to fit into a result. Beyond some 110 members that give one each, a step says that the pieces are there,
//     the members read them, each from all others, and another step says that all have done so.
//
// Larger data stay where they are, and are read in the same way.
//
// # Failures
//
// A result lists the members that have not entered the step, and why. That list is the same on all survivors.
//
//   - A tolerant team goes on without members that have died. Everything else breaks it.
//   - On a strict team, any such member makes the step fail for all. A member that knows another one to be dead enters the step, and its
//     record has the dead that it knows. The error comes from the result alone: a death before a member that left, that before one that
//     gave up. So all members get the same error with the same list, also from later collectives.
//   - A member whose context has ended leaves a mark.
//   - A member that agrees on what to do about a death enters the next collective of a strict team before that (postRefusal). So members in
//     that collective do not wait for it.
//   - A member that could not read what a dead one has given reports that as its fault in the next step. On a tolerant team all members
//     get ErrAgain then, and begin again without those that are missing in that step.
//
// Nobody hangs. A member waits for its agent, which ends only with its node. The agent waits for members, each of which comes, dies, or
// leaves a mark; and for other nodes, each of which answers or is lost.
//
// # Agreements
//
// Agreements are steps of a second line, with words of their own, which no fault of a collective stops. Each member gives its flags, and a
// bit for each member that it knows to be dead. The result has the AND of the flags and all these bits. Between nodes this is
// an allreduce of ftco.Machine, as agree.EarlyReturning is; only the dead are PEs instead of nodes.
//
// # Names and ids
//
// The words of a team lie at the id of its part, which is free with all members of the part. It differs from node to node. Between nodes
// a team goes by its name: a hash of its parent's name, the step that makes it, and its first PE. All members know it without
// a message.
//
// A member describes a new team to its agent before it enters the step that makes the team. Each member counts steps from a number that
// is greater than any that it has used with that id, so nothing that is left in its words looks like a step of the new team.
// Package coll argues when an id is free again; internal/agent/teams, why an older team with the same id does no harm.
package spanning
