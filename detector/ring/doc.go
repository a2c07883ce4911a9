// Package ring holds the machine by which the daemons of a job's nodes learn that one of them is dead. A machine is what
// one member does, as a pure core without a clock and without sockets: time and messages are inputs, and it answers with
// actions. Package detector drives it over UDP, and the simulator (sim/detect) in virtual time. What an accusation becomes
// is not its business: package detector/bmg makes it known to all.
//
// It stands for the node-level detector of Zhong, Bouteiller, Luo and Bosilca, General Failure Detection and Propagation
// in HPC and Distributed Systems, section 4.5. [Literal] is that algorithm as printed, and as it was in PRRTE 2.0.
//
// # Who watches whom
//
// Member i watches i - g modulo N, where g is coprime to N and near 0.618 N ([Stride]). So all members are one ring, and
// nodes that die together because they are neighbors, as in a rack, have neighbors in the ring that live. A member whose
// target is dead watches the next one before it that it does not know to be dead.
//
// # Pings
//
// The observer asks and the target answers. An answer proves little of the target: that its kernel runs, if the kernel
// answers. So it says more: the incarnation, a tick that the daemon moves on, whether the daemon has ended, and whether
// the daemon gets no processor.
//
//	the answer                           means
//	a later incarnation                  the one that was watched is dead
//	an earlier incarnation               nothing: it is old
//	the daemon has ended                 dead, at once and without a doubt
//	the tick stands still for Daemon     the daemon hangs: dead, but not if it is starved
//	starved                              alive: it is waited for, however long
//
// # Deadlines
//
// An answer is due a round trip's mean after its ping, and late by the margin: four times the standard deviation of round
// trips, at least Timing.Margin. The clock may be any that never steps back; it need not agree with others' clocks.
//
// An observer that is late itself blames nobody for it:
//
//   - A driver hands over all messages that have come before it hands over a Tick.
//   - A ping that goes out late moves the deadline of its answer by as much. Only the first ping since an answer does so,
//     or an observer that is always late would never see a death.
//   - A member that looks late at a deadline grants it once as much time again, at most the margin: it may have been the
//     whole machine that stood still, with answers on their way.
//   - A member that is late with the pings of a verification sends those that are due at once, and puts the end of the
//     verification off by as much.
//
// # Suspicion, verification, accusation
//
// A missed deadline is a suspicion, and so is the end of a connection (the event Suspect). It is no verdict. The suspect
// gets [Timing].Probes pings in the time Verify, and as many by way of other members, the observer's neighbors in the
// graph of detector/bmg. One answer on any way ends the suspicion. Without an answer, the observer accuses.
//
//	state of the target   event                            becomes    actions
//	watched               Tick, a ping is due              watched    Ping
//	watched               answer                           watched
//	watched               Tick, the deadline has passed    suspected  Pings and Asks to it and the next Window - 1
//	watched               Suspect                          suspected  the same
//	suspected             Tick, a round is due             suspected  Ping, Ask
//	suspected             answer                           watched
//	suspected             Tick, Verify has passed          dead       Accuse
//	suspected             answer by way of another one     watched    Pings without Asks, until Direct has passed
//	watched, for Direct   no answer on the direct way      watched    Unreached
//	any                   answer: ended, later, hung       dead       Accuse
//	any                   PeerFailed                       dead
//	dead                  -                                           the next before it is watched, or suspected
//
// # Broken ways
//
// A suspect that answers by way of others only lives, and this member cannot talk to it. It gets pings on the direct way,
// 20 in the time [Timing].Direct. Any answer to this member on that way ends this. If all fail, the driver is told, once: the
// network between the two is broken, and one of them has to go, which is the front end's to decide (detector/view).
// Only suspects are tried: a broken way is noticed by the observer, and by whoever loses a connection.
//
// # Runs of dead members
//
// The literal algorithm waits for one timeout a member of the run. Here the members before the suspect are verified with
// it: Window of them, and twice as many each time that all are dead, so f dead ones cost log2(f/Window + 1) rounds of
// Verify, rounded up. Of those probed, only the dead ones next to the observer are accused, up to the first that answers:
// the others have an observer that lives.
//
// # Why a wrong accusation does not spread
//
// The accused that lives ends itself when it gets the report (detector/bmg, [bmg.Fenced]), or when its lease ends. Its
// observer goes on with the next member, which does not notice: it answers whoever asks. In the literal algorithm a
// member sends heartbeats to one observer only, so the accused loses those of the next member and accuses that one in
// turn, and so on around the ring.
//
// # What ends
//
// Each suspicion ends within Verify, and within three times as much and how late the observer is, if it is late. A member that knows all others to
// be dead watches nobody. Nothing else is waited for.
package ring
