// Package match pairs messages with receives, as MPI wants it: a receive takes the
// earliest message that fits it, a message the earliest receive that it fits.
//
// It is a pure core. A Queue is one communicator's side in one process; it holds
// the receives that wait for a message and the messages that wait for a receive,
// each with an item of the caller's. Never does it hold a receive and a message that
// fit each other, if the caller asks before it adds: Arrive before Keep, Take before
// Post.
//
// # Structure
//
// Everything that waits stands in lists in the order of arrival, which are found by
// an envelope, wildcards included. A receive is in one list, that of the envelope it
// names; a message is in up to four, those of the envelopes that fit it. So a receive looks
// at the head of one list, and a message at the heads of four, of which it takes the
// one that was posted first: both in constant time, however much waits. Kinds of
// receives that are not there at all, as those with wildcards mostly, are not looked
// for; and no message is put into the lists of wildcards that no receive has named yet. The
// first one that does makes those lists, of all that waits. What waits alone is in no list.
//
// Lists and what is in them are used again, so that nothing is allocated unless more waits
// than ever before. They are allocated in chunks and stay where they are, and the table by which
// lists are found grows by one bucket at a time: to add one takes a short time, however many wait.
package match
