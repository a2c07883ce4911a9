// Package detector lets the daemons of a job's nodes learn that one of them is dead. It drives the machines of packages
// ring (who watches whom, and when a silence is an accusation) and bmg (how a report reaches all) over UDP.
//
// # Sockets
//
// A node has two ports. The responder's port gets pings and fences; package detector/responder answers there, from the
// kernel if it can, so an answer needs no daemon. The detector's port is the socket of a [Detector]: pings leave from it,
// and answers, requests and news come to it. A [Prober] is the front end's side, with a socket of its own.
//
//	datagram     from                       to
//	Ping         a detector, the prober     the responder of Of
//	Answer       the responder of Of        the port that the ping came from
//	Ask          a detector, the prober     another detector, which pings Of and passes the answer on
//	Fence        a detector, the prober     the responder of Of, or a detector, which passes it on
//	Fenced       the responder of Of        the port that the fence came from
//	News         a detector                 a detector: a message of package bmg
//
// A datagram with a wrong MAC, or of another job, is counted and ignored.
//
// # What becomes of an accusation
//
//	reason                     what the detector does
//	Silent                     calls Silent: the front end decides, and NodeLost or nothing follows
//	DaemonDead, DaemonHung     sends fences until the node answers Fenced, 50 ms at most; then the report goes
//	Restarted                  to all nodes, and Proven is called
//
// A silent node stays dead for its accuser's ring, whatever the front end decides. If the front end finds that the node
// lives, then the link between the two is broken, and one of both is fenced.
//
// # Time
//
// One goroutine does everything, on a thread of its own. In each turn it reads all datagrams that have come, then the
// events of other goroutines, and only then lets the time of the last reading pass for the machines. So a detector that
// was late judges nobody before it has seen the answers that wait for it. The turn of a detector that has nothing else
// to do sends a ping and reads its answer, and allocates nothing.
//
// # Reports
//
// A message of package bmg goes in as many datagrams as it needs, of at most 1,200 bytes each. A datagram may be lost, so
// what a neighbor has not acknowledged goes out again after 30 ms, until it is acknowledged or the neighbor is dead.
package detector
