// Package flat runs the collectives of strict teams that span nodes: a meeting that compares arguments, the making of
// teams, and their end. Collectives between the agents of nodes will replace it. Package shmem uses it behind an
// interface for that reason.
//
// # How a step works
//
// The members of a team on one node are its part there, an ordinary coll.Team. The first member of a part leads it. The
// leader of the part that has member 0 is the root of the team. A step has four phases:
//
//  1. Each part folds what its members contribute (coll.ReduceValue).
//  2. Each leader sends the result to the root: a put of the data and a signal with the number of the step.
//  3. The root folds what comes from the nodes, in their order, and sends the decision to each leader.
//  4. Each leader broadcasts the decision in its part (coll.BroadcastPrivate).
//
// So a step takes one round trip between nodes, and all members return the same decision.
//
// # Failures
//
// The decision has a fault if a leader or the root could not complete the step. Then no member enters a further step:
// the team is broken.
//
//   - A member dies or gives up in phase 1 or 4. The collectives of its part fail, so its leader learns of it there, in
//     this step or in the next one. The leader sends UpperGaveUp to the root.
//   - A leader dies. Its part fails. The root waits for that leader alone, so the news of the death ends the wait: a
//     line that is not there then will never come.
//   - The root dies. Every leader waits for the root, and the news ends the wait in the same way.
//   - The context of a leader ends while it waits. It tells its part in phase 4, and sends UpperGaveUp.
//   - The root gives up: it sends UpperGaveUp to all leaders.
//   - A member leaves the team (Leave), as at the end of the world, without a step before that others are in. If it is a
//     leader or the root, it sends UpperLeft. Otherwise its part fails, and its leader gives up.
//
// Nobody hangs: a member waits for its leader, a leader for the root, the root for a leader. Each of them comes, dies,
// or gives up, and each of these ends the wait.
//
// If the root dies while it sends a decision, some parts may get it and others not. The team is strict, so all its
// later collectives fail for all survivors.
//
// # Upper ids
//
// The words of a team lie in the segments of its root and its leaders (layout.Upper), at an id that is free in all its
// members. Split chooses the lowest id that is free in all members of the parent that are to be in a team that spans
// nodes. An id is free again after Dissolve. Then the root has read all lines of the last step, and the leaders have
// read the decisions, so no line is under way. The id of a broken team stays taken: a line may still come.
//
// A new team begins at a number that is greater than any that its members have used, so nothing that is left in its
// lines looks like a step of its own.
package spanning
