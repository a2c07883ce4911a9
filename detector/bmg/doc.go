// Package bmg holds the machine of a reliable broadcast among the daemons of a job's nodes. A machine is what one
// member does, as a pure core: it gets events and answers with actions. A driver moves the messages: package detector over
// UDP, and the simulator (sim/detect) in virtual time.
//
// The members form a binomial graph: member i has the neighbors i + 2^k and i - 2^k modulo N, for all 2^k below N. A
// member that gets a payload for the first time sends it to its neighbors and then delivers it. It is the propagation
// of Zhong, Bouteiller, Luo and Bosilca, General Failure Detection and Propagation in HPC and Distributed Systems,
// section 4.6. [Literal] is their algorithm as printed, and as it was in PRRTE 2.0.
//
// # What it differs in
//
//   - Neighbors are distinct, and no member is its own: with N a power of two, i + N/2 and i - N/2 are one member, and
//     2^log2(N) is none. Of 1,024 members each has 19 neighbors; the printed loop sends 22 messages.
//   - No member sends a payload back to the member that it first came from: N (degree - 1) + 1 messages in all.
//   - A payload has a [Key] with an incarnation. A message holds several payloads, each of which is judged by its own
//     key. So a successor's death is reported although its predecessor's was, and no payload is lost because it comes
//     with one that is known.
//   - A member marks a payload as seen before it asks the driver to send anything, so a driver may deliver at once.
//   - The report of a node's death is one payload: who ran on the node is in the job's map, which all members have.
//
// # What members get
//
//   - Each member delivers each payload at most once.
//   - If a survivor delivers a payload, then all survivors do that are connected to it by survivors. The graph of
//     survivors is connected as long as fewer members are dead than a member has neighbors: a circulant graph of this
//     kind has no smaller cut than the neighbors of one member.
//   - The same holds if the member that delivered dies afterwards, because it has sent before it delivered. If the first
//     member dies before any copy has left, then no other member ever had the payload.
//
// The argument for the second point: a member that delivers has asked for the payload to be sent to all of its
// neighbors that it does not know to be dead. The driver, or Config.Resend, delivers a message between survivors. A
// neighbor that gets the payload has delivered it, or delivers it now. The claim follows along a path of survivors. A
// member that wrongly believes a survivor to be dead does not exist: a report is true once it is made, because the
// accused is fenced.
//
// # Verdicts
//
// A report of a node's death goes to that node as well. A member that gets the report of its own incarnation's death
// answers with [Fenced], and neither delivers nor forwards. Survivors drop what comes from a member that they know to be
// dead.
//
// # Links that lose messages
//
// With Config.Resend, a member repeats a payload to each neighbor that is not known to have it or to be dead. A neighbor
// is known to have the payload when it acknowledges the payload or sends it itself. As two members that got it from
// elsewhere send it to each other, only the members that first sent it are answered by acknowledgments: N - 1 in all.
package bmg
