// Package nodes starts the daemons of a job's nodes and connects them.
//
// The front end is the root. It starts a process "oshrun daemon" for each node by a launch
// agent: a local process, ssh, srun, or any command that passes standard input on. What a daemon
// needs to find the front end is its standard input (Handover). The daemon dials back over TLS,
// reports itself (Report), and is from then on a launch.Node of the front end: a
// remote.Client there, a remote.Server here.
//
// Each daemon dials the front end itself, however it was started, so the end of one daemon cuts no
// other one off. Daemons dial each other when they have something to say.
package nodes
