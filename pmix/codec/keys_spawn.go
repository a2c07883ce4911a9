package codec

// Keys that say where the processes of a spawned job run.
const (
	KeyHost    = "pmix.host"    // hosts with commas between
	KeyAddHost = "pmix.addhost" // likewise
	KeyMapBy   = "pmix.mapby"
	KeyRankBy  = "pmix.rankby"
	KeyPPR     = "pmix.ppr" // number of processes on each resource, and the resource: 2:node
)
