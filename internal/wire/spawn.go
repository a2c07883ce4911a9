package wire

// The frames about jobs that PEs of several nodes spawn. KindAddJob to KindDropJob are requests of the front end, as
// KindConfig is one; KindEndJob and KindSpawnAnswer have no answer. KindSpawn comes from the node.
const (
	KindSpawn       Kind = 0x0600 + iota // a PE wants a further job
	KindAddJob                           // make a further job known
	KindStartJob                         // start its PEs
	KindDropJob                          // end them: the job could not be started everywhere
	KindEndJob                           // the job is over
	KindSpawnAnswer                      // the answer to KindSpawn
)
