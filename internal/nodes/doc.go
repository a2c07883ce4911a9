// Package nodes starts the daemons of a job's nodes and connects them.
//
// The front end is the root. It starts a process "oshrun daemon" for each node by a launch
// agent: a local process, ssh, srun, or any command that passes standard input on. Daemons start
// the agents of other nodes by its order, so that there are not too many at one place. What a daemon
// needs to find the front end is its standard input (Handover). The daemon dials the front end over
// TLS (package control). From then on it is a launch.Node of the front end: a remote.Client there, a
// remote.Server here.
//
// Each daemon has a link to the front end of its own, however it was started, so the end of one
// daemon cuts no other one off. Daemons have no links to each other: what one has to say to another
// one goes by way of the front end (KindRelay).
//
// A job may get nodes later, for jobs that its PEs spawn: see root.addNodes. One whose PEs are all in the front end's
// machine begins without daemons: see local.
//
// # The end of a launch agent
//
// A launch agent that ends takes its daemon along as a rule: ssh does, and a local agent is the
// daemon. But a firewall can cut an ssh connection off, and some commands leave the daemon to
// itself. So the node is lost only if its link breaks as well: the link of a daemon that has ended
// does, as the daemon's machine closes its connection.
package nodes
