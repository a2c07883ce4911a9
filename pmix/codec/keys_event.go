package codec

// Keys of events and of their registration.
const (
	KeyEventName            = "pmix.evname"      // a handler's name
	KeyEventFirst           = "pmix.evfirst"     // the handler comes before all others
	KeyEventLast            = "pmix.evlast"      // the handler comes after all others
	KeyEventFirstInCategory = "pmix.evfirstcat"  // the handler comes first in its category
	KeyEventLastInCategory  = "pmix.evlastcat"   // the handler comes last in its category
	KeyEventBefore          = "pmix.evbefore"    // the handler comes before the one named
	KeyEventAfter           = "pmix.evafter"     // the handler comes after the one named
	KeyEventPrepend         = "pmix.evprepend"   // the handler comes at the head of its category
	KeyEventAppend          = "pmix.evappend"    // the handler comes at the end of its category
	KeyEventCustomRange     = "pmix.evrange"     // the receivers of an event with RangeCustom
	KeyEventActionTimeout   = "pmix.evtimeout"   // seconds after which the server acts by itself
	KeyEventOneShot         = "pmix.evone"       // the handler is called once
	KeyEventTerminateJob    = "pmix.evterm.job"  // the server will end the job
	KeyEventTerminateNode   = "pmix.evterm.node" // the server will end all processes of the node
	KeyEventTerminateProc   = "pmix.evterm.proc" // the server will end the process
	KeyExitCode             = "pmix.exit.code"
	KeyProcTermStatus       = "pmix.proc.term.status"
)

// Keys that declare a programming model.
const (
	KeyModelLibraryName    = "pmix.mdl.name"
	KeyModelLibraryVersion = "pmix.mld.vrs" // as the standard spells it
	KeyThreadingModel      = "pmix.threads"
)

// Keys of groups.
const (
	KeyGroupID                = "pmix.grp.id"
	KeyGroupLeader            = "pmix.grp.ldr"
	KeyGroupOptional          = "pmix.grp.opt"     // the group does without processes that end before they join
	KeyGroupNotifyTermination = "pmix.grp.notterm" // members are told when another ends without leaving
	KeyGroupFTCollective      = "pmix.grp.ftcoll"  // operations go on without members that ended
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
	KeyMonitorHeartbeatDrops = "pmix.monitor.bdrop" // how many heartbeats may be missed
)
