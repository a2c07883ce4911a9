package codec

// Keys that say where the processes of a spawned job run.
const (
	KeyHost        = "pmix.host"        // hosts with commas between
	KeyAddHost     = "pmix.addhost"     // likewise: hosts that the job may not have yet
	KeyHostfile    = "pmix.hostfile"    // a file with a host on each line
	KeyAddHostfile = "pmix.addhostfile" // likewise: hosts that the job may not have yet
	KeyMapBy       = "pmix.mapby"
	KeyRankBy      = "pmix.rankby"
	KeyPPR         = "pmix.ppr" // number of processes on each resource, and the resource: 2:node
)
