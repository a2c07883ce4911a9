// Package view holds the core by which the front end of a job decides which nodes are lost. It is pure: it has no clock
// and no sockets. Events and the time are inputs, and it answers with actions. Package detector/ring finds nodes that
// answer nobody; whether they are lost, or the network is in parts, is decided here and nowhere else.
//
// # Who goes on
//
// The front end and the nodes that it keeps are the only part of a job that goes on. A node without the front end ends
// itself when its lease ends. So two parts never go on, whatever the core decides. What the core adds:
//
//   - It does not give up nodes one by one when it is the front end that is cut off.
//   - It does not keep two nodes that cannot talk to each other.
//   - It never declares lost what answers it, unless that has been ended by a fence first.
//
// # Views
//
// The membership is a sequence of numbered views. Each view is smaller than the one before; no node comes back. The
// front end votes, so a view of n nodes has n + 1 votes.
//
//	what is known of a node                            it is lost                        votes that it costs
//	its kernel says that the daemon has ended          at once                           none: the next view has one less
//	it has confirmed a fence                           at once                           none
//	it has not answered the front end's probe          with all that are silent, if the  one
//	it has not confirmed a fence                       rest is a majority of the view    one
//
// A majority is more than half of the votes. Without one the job ends, unless Config.Continue is set. A node alone with
// the front end is one of two votes; each of two nodes may be lost, as the front end and the other are two of three. So
// losses one after the other go down to one node.
//
// # Silence
//
// An accusation and the loss of a link are reasons to ask, and no more: the front end's probe decides. When a first node
// is silent, the core asks all others, also those whose probe is open already, as its answer may be older. The silent
// ones are judged when Config.Window has passed since the first one was found and no task is open. At that time each
// member of the view is silent, or has answered a probe that began after the first silence was found. So a front end
// that has been cut off from half of its nodes before that finds all of them silent, and its job ends.
//
// Open fences are awaited, too: a node that does not confirm one counts among the silent ones.
//
// # Broken links
//
// If the accused answers, the link between the two is broken, and one of them goes. The accuser is asked as well. When
// Window has passed since the accused answered, all standing accusations are judged: the node with most broken links is
// fenced, of these the most accused, of these the one with the highest index; then the same without it, until each
// accusation has lost one end. Links count for both ends because a node that is cut off from the others accuses as many
// as it can: each of those has one accuser, and so has it.
//
// An accusation stands until one of its ends is lost. That of a node that is lost already is only a reason to ask.
//
// # Nodes without a link
//
// A node whose link has ended, and which answers the probe, may connect again until Config.Grace has passed. Then it is
// fenced.
//
// # States of a node
//
//	state      event                              becomes    actions
//	resting    Accuse, LinkLost, first silence    probing    Probe
//	probing    the same                           probing    none, but an answer is not believed: Probe again
//	probing    Answered                           resting    Probe of those that have accused it
//	probing    Silent                             silent     the first: Probe of all others
//	resting    Tick, Grace is over                fencing    Fence
//	resting    Tick, it is the worst              fencing    Fence
//	fencing    Fenced                             lost       Lose
//	fencing    FenceFailed                        silent     the first: Probe of all others
//	silent     LinkBack, no fence has failed      probing    Probe
//	silent     Tick, Window is over               lost       Lose, or EndJob
//	any        DaemonDead, a proven Accuse        lost       Lose
//
// # Holds
//
// Between Hold and Go nothing is judged, no task begins, and the core's clock stands still, so that deadlines move by the
// length of the hold. Proven deaths are lost all the same. The front end may stand still during a hold. So silence does
// not count if the task was open then: it begins again.
//
// # What ends
//
// An event begins at most one task of each node, apart from those that repeat a probe: each of these uses up an event that
// came while the probe was open. Probes and fences end, as the driver says so. So at some time no task is open, unless
// events come for ever. Then Due is the end of a Window or of a Grace. There the silent ones are lost or the job ends;
// nodes without a link are fenced; and each accusation loses an end. Each of these makes the view smaller. So a world in
// which nothing more happens comes to a state in which no node is silent, without a link, or accused.
//
// TestSmallWorlds visits all runs of small worlds and holds this against them: with each cut of two and three nodes, with
// a sample of the cuts of four and five. TestRandomWorlds draws runs of up to seven nodes.
package view
