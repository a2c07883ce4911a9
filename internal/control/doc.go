// Package control connects the processes of a job: the front end with the daemons of the nodes, and daemons with each
// other.
//
//   - Secret: all processes of a job share 32 bytes, and nobody else has them. Both ends of a connection prove by
//     TLS 1.3 that they have the Ed25519 key that is derived from the secret. There are no names and no authorities.
//   - Listener: accepts the connections of others. Strangers get 2 s and a few KiB, at most 64 of them at a time,
//     and those of one address do not lock out those of another one.
//   - Dial: makes a link to a process that listens.
//   - Link: carries frames in both directions, in order and each once, also over connections that break. The end that
//     dialed dials again; the other one waits.
//
// # A link and its connections
//
// A link has one connection at a time. The dialing end begins it:
//
//	dialing end                                          accepting end
//	TLS handshake         <------------------------->    TLS handshake
//	hello    {session, attempt, last frame taken} --->   stops reading the connection before, if there is one
//	            <--- welcome {session, last frame taken}
//	frames, acknowledgments  <---------------------->    frames, acknowledgments
//
// Session is a random number that the dialing end chose for the link. Attempt grows with each hello.
//
// # Each frame once, and in order
//
// Package session has the argument for the numbers of frames. It needs two things of this package:
//
//   - An end says what it has taken only after it has stopped reading the connection before. At each end one goroutine,
//     Link.run, reads a connection to its end, and only then writes the hello or the welcome of the next one.
//   - Both ends mean the same connection. The dialing end takes one whose welcome answers its latest hello. The
//     accepting end gives up its connection for one with a higher attempt only. A hello that was on the way while the
//     dialing end gave it up is either followed by one with a higher attempt, or answered by a welcome that nobody
//     reads; then the connection ends at once, and the next hello has a higher attempt.
//
// Frames that were written but not acknowledged stay in memory, and go over the next connection again. A frame is
// acknowledged after Handler.Take has returned.
//
// # Ends
//
// Bye is a frame of the link as all are, so that it comes after them. The end that has said it waits until the peer
// has taken it, and tells the peer so by a last Bye without a number. The peer waits for that for a short time, and
// closes the connection; if the connection breaks before, it connects again to say what it has taken. An accepting end
// that has no such link any more answers that the link has ended, and how much it had taken.
//
// A link is lost if its ends have no contact for the lease (10 s). A connection that brings no byte for half of the
// lease is broken, and so is one that takes none. In the other half the dialing end tries to connect again. Each end
// decides for itself: a link can be lost for one end while the other one still waits. The end that has lost it refuses
// it from then on, so that the other end loses it as well.
//
// The two ends treat a broken connection differently. The accepting end closes it at once, and the dialing end takes
// that as the sign to dial again. The dialing end stops using it, but leaves it open until the next one is there or the
// link has ended. So the accepting end knows that the dialing process has ended, or has given the link up, if that
// process's machine closes the connection: Limits.Return is then the time that is left.
//
// No time counts while one of the processes is stopped, if it has said so before: see Link.Hold.
package control
