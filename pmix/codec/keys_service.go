package codec

// Keys that direct publish, lookup and unpublish.
const (
	KeyRange             = "pmix.range"
	KeyPersistence       = "pmix.persist"
	KeyWait              = "pmix.wait" // number of values to wait for; zero for all
	KeyUserID            = "pmix.euid"
	KeyAccessPermissions = "pmix.aperms" // an array of the two below
	KeyAccessUserIDs     = "pmix.auids"
	KeyAccessGroupIDs    = "pmix.agids"
)

// Keys to ask for in a query, and those that narrow one.
const (
	KeyNspace                = "pmix.nspace"
	KeyProcID                = "pmix.procid"
	KeyQuerySupportedKeys    = "pmix.qry.keys"
	KeyQueryNamespaces       = "pmix.qry.ns"
	KeyQueryNamespaceInfo    = "pmix.qry.nsinfo"
	KeyQueryJobStatus        = "pmix.qry.jst"
	KeyQueryProcTable        = "pmix.qry.ptable"
	KeyQueryLocalProcTable   = "pmix.qry.lptable"
	KeyQuerySpawnSupport     = "pmix.qry.spawn"
	KeyQueryDebugSupport     = "pmix.qry.debug"
	KeyQueryNumPsets         = "pmix.qry.psetnum"
	KeyQueryPsetNames        = "pmix.qry.psets"
	KeyQueryNumGroups        = "pmix.qry.pgrpnum"
	KeyQueryGroupNames       = "pmix.qry.pgrp"
	KeyQueryGroupMembership  = "pmix.qry.pgrpmems"
	KeyQueryAttributeSupport = "pmix.qry.attrs"
	KeyQueryRefreshCache     = "pmix.qry.rfsh"
	KeyQueryLocalOnly        = "pmix.qry.local"
	KeyServerFunctions       = "pmix.srvr.fns"
	KeyServerAttributes      = "pmix.srvr.attrs"
	KeyHostFunctions         = "pmix.host.fns"
	KeyHostAttributes        = "pmix.host.attrs"
	KeyJobInfoArray          = "pmix.job.arr"
	KeyCommandLine           = "pmix.cmd.line"
	KeyProcPID               = "pmix.ppid"
	KeyProcState             = "pmix.proc.state"
	KeyVersion               = "pmix.version"
	KeyRMName                = "pmix.rm.name"
	KeyRMVersion             = "pmix.rm.version"
)

// States of a process in a process table.
const (
	ProcStateLaunchUnderway uint8 = 2
	ProcStateRunning        uint8 = 5
	ProcStateConnected      uint8 = 6
	ProcStateTerminated     uint8 = 20
	ProcStateKilledByCmd    uint8 = 51
	ProcStateFailedToStart  uint8 = 53
	ProcStateAbortedBySig   uint8 = 54
	ProcStateTermWoSync     uint8 = 55
	ProcStateCommFailed     uint8 = 56
	ProcStateCalledAbort    uint8 = 58
	ProcStateTermNonZero    uint8 = 62
)

// Keys of a log request.
const (
	KeyLogStdout       = "pmix.log.stdout"
	KeyLogStderr       = "pmix.log.stderr"
	KeyLogSyslog       = "pmix.log.syslog"
	KeyLogLocalSyslog  = "pmix.log.lsys"
	KeyLogGlobalSyslog = "pmix.log.gsys"
	KeyLogOnce         = "pmix.log.once"
)

// Persistence says how long a published value stays.
type Persistence uint8

// Persistence of published data.
const (
	PersistIndefinite Persistence = 0 // until it is unpublished
	PersistFirstRead  Persistence = 1
	PersistProc       Persistence = 2 // until the publisher ends
	PersistApp        Persistence = 3 // until the last process of the publisher's application ends
	PersistSession    Persistence = 4
)
