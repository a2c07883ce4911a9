package codec

// Keys of the job's description, named as in the standard with Key for PMIX.
const (
	KeyJobSize          = "pmix.job.size"
	KeyMaxProcs         = "pmix.max.size"
	KeyNumNodes         = "pmix.num.nodes"
	KeyJobNumApps       = "pmix.job.napps"
	KeyJobID            = "pmix.jobid"
	KeyNSDir            = "pmix.nsdir"
	KeyNodeList         = "pmix.nlist"
	KeyBfropsModule     = "pmix.bfrops.mod"
	KeySessionInfo      = "pmix.ssn.arr" // PMIX_SESSION_INFO_ARRAY
	KeySessionID        = "pmix.session.id"
	KeyUnivSize         = "pmix.univ.size"
	KeyTmpDir           = "pmix.tmpdir"
	KeyNodeInfo         = "pmix.node.arr" // PMIX_NODE_INFO_ARRAY
	KeyHostname         = "pmix.hname"
	KeyNodeSize         = "pmix.node.size"
	KeyNodeID           = "pmix.nodeid"
	KeyLocalPeers       = "pmix.lpeers"
	KeyLocalLdr         = "pmix.lldr"
	KeyLocalSize        = "pmix.local.size"
	KeyAppInfo          = "pmix.app.arr" // PMIX_APP_INFO_ARRAY
	KeyAppSize          = "pmix.app.size"
	KeyAppLdr           = "pmix.aldr"
	KeyProcBlob         = "pmix.pblob" // a byte object: rank, then that process's keys
	KeyRank             = "pmix.rank"
	KeyGlobalRank       = "pmix.grank"
	KeyLocalRank        = "pmix.lrank"
	KeyNodeRank         = "pmix.nrank"
	KeyAppNum           = "pmix.appnum"
	KeyAppRank          = "pmix.apprank"
	KeyProcDir          = "pmix.pdir"
	KeyHwlocXMLV2       = "pmix.hwlocxml2"
	KeyProgrammingModel = "pmix.pgm.model"
)

// Keys that direct a request.
const (
	KeyCollectData        = "pmix.collect"
	KeyTimeout            = "pmix.timeout"
	KeyImmediate          = "pmix.immediate"
	KeyOptional           = "pmix.optional"
	KeyGetRefreshCache    = "pmix.get.refresh"
	KeyRegisterCleanup    = "pmix.reg.cleanup"
	KeyRegisterCleanupDir = "pmix.reg.cleanupdir"
	KeyCleanupRecursive   = "pmix.clnup.recurse"
	KeyCleanupEmpty       = "pmix.clnup.empty"
	KeyCleanupIgnore      = "pmix.clnup.ignore"
	KeyCleanupLeaveTopdir = "pmix.clnup.lvtop"
)

// Keys that describe an event.
const (
	KeyEventAffectedProc  = "pmix.evproc"
	KeyEventAffectedProcs = "pmix.evaffected"
	KeyEventNonDefault    = "pmix.evnondef"
	KeyEventDoNotCache    = "pmix.evnocache"
	KeyEventTextMessage   = "pmix.evtext"
)
