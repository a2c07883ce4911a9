package codec

// Keys of events and of their registration.
const (
	KeyEventName            = "pmix.evname"      // a handler's name
	KeyEventFirst           = "pmix.evfirst"     // before all others
	KeyEventLast            = "pmix.evlast"      // after all others
	KeyEventFirstInCategory = "pmix.evfirstcat"  // before the others of its category
	KeyEventLastInCategory  = "pmix.evlastcat"   // after the others of its category
	KeyEventBefore          = "pmix.evbefore"    // before the handler named
	KeyEventAfter           = "pmix.evafter"     // after the handler named
	KeyEventPrepend         = "pmix.evprepend"   // at the head of its category
	KeyEventAppend          = "pmix.evappend"    // at the end of its category
	KeyEventCustomRange     = "pmix.evrange"     // the processes that an event with RangeCustom is for
	KeyEventActionTimeout   = "pmix.evtimeout"   // seconds after which the server acts by itself
	KeyEventOneShot         = "pmix.evone"       // a handler that is called once
	KeyEventTerminateJob    = "pmix.evterm.job"  // the server will end the job
	KeyEventTerminateNode   = "pmix.evterm.node" // the server will end all processes of the node
	KeyEventTerminateProc   = "pmix.evterm.proc" // the server will end the process
	KeyExitCode             = "pmix.exit.code"
	KeyProcTermStatus       = "pmix.proc.term.status"
)

// Keys that a programming model is declared with.
const (
	KeyModelLibraryName    = "pmix.mdl.name"
	KeyModelLibraryVersion = "pmix.mld.vrs" // as the standard spells it
	KeyThreadingModel      = "pmix.threads"
)

// Keys of groups.
const (
	KeyGroupID                = "pmix.grp.id"
	KeyGroupLeader            = "pmix.grp.ldr"
	KeyGroupOptional          = "pmix.grp.opt"     // those who end before they have joined are not missed
	KeyGroupNotifyTermination = "pmix.grp.notterm" // the others learn when a member ends without having left
	KeyGroupFTCollective      = "pmix.grp.ftcoll"  // operations go on without those who ended
	KeyGroupMembership        = "pmix.grp.mbrs"
	KeyGroupAssignContextID   = "pmix.grp.actxid"
	KeyGroupContextID         = "pmix.grp.ctxid"
	KeyGroupLocalOnly         = "pmix.grp.lcl"
)

// Keys that control and watch processes.
const (
	KeyJobCtrlID        = "pmix.jctrl.id"
	KeyJobCtrlPause     = "pmix.jctrl.pause"
	KeyJobCtrlResume    = "pmix.jctrl.resume"
	KeyJobCtrlKill      = "pmix.jctrl.kill"
	KeyJobCtrlSignal    = "pmix.jctrl.sig"
	KeyJobCtrlTerminate = "pmix.jctrl.term"

	KeyMonitorID             = "pmix.monitor.id"
	KeyMonitorCancel         = "pmix.monitor.cancel"
	KeyMonitorHeartbeat      = "pmix.monitor.mbeat"
	KeyMonitorHeartbeatTime  = "pmix.monitor.btime" // seconds without a heartbeat that count as one missed
	KeyMonitorHeartbeatDrops = "pmix.monitor.bdrop" // how many may be missed
)
