// Package match pairs messages with receives in the order that MPI prescribes: a receive gets the earliest
// message that fits it, and a message goes to the earliest receive that it fits.
//
// It is a pure core. A Queue is the side of one communicator in one process. It holds receives that wait
// for a message and messages that wait for a receive, each with an item of the caller's. It never holds a
// receive and a message that fit each other, if the caller asks before it adds: Arrive before Keep, Take
// before Post.
//
// # Structure
//
//   - What waits is in lists, in the order of arrival. A list belongs to an envelope, which may have
//     wildcards.
//   - A receive is in one list, that of the envelope that it names.
//   - A message is in up to four lists, those of the envelopes that fit it. The list of all messages is a chain.
//   - A receive looks at the head of one list. A message looks at the heads of four lists and goes to the
//     receive that was posted first. Both take constant time, however many wait.
//   - A message skips the kinds of envelopes that no waiting receive has. Most programs have no wildcards.
//   - A message is in the list of a wildcard only if a receive has named that kind of envelope before. The
//     first such receive makes the lists of the kind, from all messages that wait.
//   - A receive or message that waits alone is in no list.
//
// # Memory
//
//   - Lists and their nodes are used again. Nothing is allocated unless more wait than ever before.
//   - Lists and nodes are allocated in chunks and never move. The table that finds lists grows by one
//     bucket at a time. So an addition takes a short time, however many wait.
//   - Receives are few, and fast to post: their nodes have pointers. Messages may be millions: theirs have numbers of
//     32 bits, and a message takes 24 bytes beside the caller's item, and up to 40 where each has an envelope of its own.
//     Each kind of one wildcard that was named adds 8.
package match
