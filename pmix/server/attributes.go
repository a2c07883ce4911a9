package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// attribute is a directive that a function takes.
type attribute struct {
	name string // in the standard
	key  string
	typ  wire.DataType
	text string
}

var (
	attrTimeout = attribute{"PMIX_TIMEOUT", wire.KeyTimeout, wire.TypeInt, "seconds after which the operation fails"}
	attrRange   = attribute{"PMIX_RANGE", wire.KeyRange, wire.TypeDataRange, "the processes that are meant"}
	attrMembers = attribute{"PMIX_EVENT_CUSTOM_RANGE", wire.KeyEventCustomRange, wire.TypeDataArray, "the processes of a custom range"}
)

// supported says what the server does, by function, and which directives it heeds.
var supported = map[string][]attribute{
	"PMIx_Init":     nil,
	"PMIx_Finalize": nil,
	"PMIx_Abort":    nil,
	"PMIx_Commit":   nil,
	"PMIx_Fence": {
		attrTimeout,
		{"PMIX_COLLECT_DATA", wire.KeyCollectData, wire.TypeBool, "exchange what the participants have committed"},
	},
	"PMIx_Get": {
		attrTimeout,
		{"PMIX_IMMEDIATE", wire.KeyImmediate, wire.TypeBool, "do not wait for data that is still to come"},
		{"PMIX_GET_REFRESH_CACHE", wire.KeyGetRefreshCache, wire.TypeBool, "ask although the process has data already"},
	},
	"PMIx_Publish": {
		attrRange, attrMembers,
		{"PMIX_PERSISTENCE", wire.KeyPersistence, wire.TypePersist, "how long the data stays"},
		{"PMIX_ACCESS_PERMISSIONS", wire.KeyAccessPermissions, wire.TypeDataArray, "who may read the data"},
		{"PMIX_ACCESS_USERIDS", wire.KeyAccessUserIDs, wire.TypeDataArray, "users who may read the data"},
	},
	"PMIx_Lookup": {
		attrTimeout, attrRange, attrMembers,
		{"PMIX_WAIT", wire.KeyWait, wire.TypeInt, "number of values to wait for, all if zero"},
	},
	"PMIx_Unpublish":  {attrRange},
	"PMIx_Query_info": {},
	"PMIx_Log": {
		{"PMIX_LOG_STDOUT", wire.KeyLogStdout, wire.TypeString, "text for the launcher's standard output"},
		{"PMIX_LOG_STDERR", wire.KeyLogStderr, wire.TypeString, "text for the launcher's standard error"},
		{"PMIX_LOG_ONCE", wire.KeyLogOnce, wire.TypeBool, "use the first of the channels only"},
	},
	"PMIx_Spawn": {
		{"PMIX_WDIR", wire.KeyWDir, wire.TypeString, "working directory, of the job or of an application"},
		{"PMIX_SET_ENVAR", wire.KeySetEnvar, wire.TypeEnvar, "set a variable"},
		{"PMIX_ADD_ENVAR", wire.KeyAddEnvar, wire.TypeEnvar, "set a variable unless it is set"},
		{"PMIX_UNSET_ENVAR", wire.KeyUnsetEnvar, wire.TypeString, "remove a variable"},
		{"PMIX_PREPEND_ENVAR", wire.KeyPrependEnvar, wire.TypeEnvar, "put text before the value of a variable"},
		{"PMIX_APPEND_ENVAR", wire.KeyAppendEnvar, wire.TypeEnvar, "put text after the value of a variable"},
		{"PMIX_FWD_STDOUT", wire.KeyFwdStdout, wire.TypeBool, "pass the job's standard output on to the caller"},
		{"PMIX_FWD_STDERR", wire.KeyFwdStderr, wire.TypeBool, "pass the job's standard error on to the caller"},
	},
	"PMIx_Connect":    {attrTimeout},
	"PMIx_Disconnect": {attrTimeout},
	"PMIx_Group_construct": {
		attrTimeout,
		{"PMIX_GROUP_ASSIGN_CONTEXT_ID", wire.KeyGroupAssignContextID, wire.TypeBool, "give the group a number"},
		{"PMIX_GROUP_OPTIONAL", wire.KeyGroupOptional, wire.TypeBool, "do without those who end before they join"},
		{"PMIX_GROUP_NOTIFY_TERMINATION", wire.KeyGroupNotifyTermination, wire.TypeBool, "tell members of the end of others"},
		{"PMIX_GROUP_FT_COLLECTIVE", wire.KeyGroupFTCollective, wire.TypeBool, "go on without those who end"},
	},
	"PMIx_Group_destruct":           {attrTimeout},
	"PMIx_Group_leave":              nil,
	"PMIx_Register_event_handler":   nil,
	"PMIx_Deregister_event_handler": nil,
	"PMIx_Notify_event": {
		{"PMIX_EVENT_NON_DEFAULT", wire.KeyEventNonDefault, wire.TypeBool, "not for default handlers"},
		{"PMIX_EVENT_DO_NOT_CACHE", wire.KeyEventDoNotCache, wire.TypeBool, "not for handlers that come later"},
		attrMembers,
	},
	"PMIx_Job_control": {
		{"PMIX_JOB_CTRL_SIGNAL", wire.KeyJobCtrlSignal, wire.TypeInt, "signal to send to the processes"},
		{"PMIX_JOB_CTRL_KILL", wire.KeyJobCtrlKill, wire.TypeBool, "end the processes at once"},
		{"PMIX_JOB_CTRL_TERMINATE", wire.KeyJobCtrlTerminate, wire.TypeBool, "ask the processes to end"},
		{"PMIX_JOB_CTRL_PAUSE", wire.KeyJobCtrlPause, wire.TypeBool, "stop the processes"},
		{"PMIX_JOB_CTRL_RESUME", wire.KeyJobCtrlResume, wire.TypeBool, "let stopped processes go on"},
		{"PMIX_REGISTER_CLEANUP", wire.KeyRegisterCleanup, wire.TypeString, "files to remove when the process has ended"},
		{"PMIX_REGISTER_CLEANUP_DIR", wire.KeyRegisterCleanupDir, wire.TypeString, "directories to remove when the process has ended"},
		{"PMIX_CLEANUP_RECURSIVE", wire.KeyCleanupRecursive, wire.TypeBool, "remove what is in the directories too"},
		{"PMIX_CLEANUP_EMPTY", wire.KeyCleanupEmpty, wire.TypeBool, "remove empty directories only"},
		{"PMIX_CLEANUP_IGNORE", wire.KeyCleanupIgnore, wire.TypeString, "files not to remove"},
		{"PMIX_CLEANUP_LEAVE_TOPDIR", wire.KeyCleanupLeaveTopdir, wire.TypeBool, "keep the directory itself"},
	},
	"PMIx_Process_monitor": {
		{"PMIX_MONITOR_HEARTBEAT", wire.KeyMonitorHeartbeat, wire.TypeBool, "watch for heartbeats"},
		{"PMIX_MONITOR_HEARTBEAT_TIME", wire.KeyMonitorHeartbeatTime, wire.TypeUint32, "seconds without one that count as a miss"},
		{"PMIX_MONITOR_HEARTBEAT_DROPS", wire.KeyMonitorHeartbeatDrops, wire.TypeUint32, "misses that are forgiven"},
		{"PMIX_MONITOR_CANCEL", wire.KeyMonitorCancel, wire.TypeString, "stop a monitor"},
	},
	"PMIx_IOF_pull":       nil,
	"PMIx_IOF_push":       nil,
	"PMIx_IOF_deregister": nil,
}

func (qs *queries) spawnSupport(*question) (wire.Value, bool) {
	attrs, ok := supported["PMIx_Spawn"]
	names := make([]string, len(attrs))
	for i, a := range attrs {
		names[i] = a.key
	}
	return wire.StringValue(strings.Join(names, ",")), ok
}

// unmet returns the first directive that a function must heed, as its caller says, and does not.
func unmet(function string, infos []wire.Info) (key string, found bool) {
	for _, info := range infos {
		heeded := slices.ContainsFunc(supported[function], func(a attribute) bool { return a.key == info.Key })
		if info.Flags&wire.InfoRequired != 0 && !heeded {
			return info.Key, true
		}
	}
	return "", false
}

// attributeSupport answers for each qualifier that asks about the server or its host, which are one here.
func (qs *queries) attributeSupport(q *question) (wire.Value, bool) {
	functions := strings.Join(slices.Sorted(maps.Keys(supported)), ",")
	var out []wire.Info
	for _, info := range q.infos {
		switch info.Key {
		case wire.KeyServerFunctions, wire.KeyHostFunctions:
			out = append(out, wire.Info{Key: info.Key, Value: wire.StringValue(functions)})
		case wire.KeyServerAttributes, wire.KeyHostAttributes:
			which, _ := info.Value.Str()
			out = append(out, describeFunctions(strings.Split(which, ","))...)
		}
	}
	return wire.InfosValue(out...), len(out) > 0
}

func describeFunctions(which []string) []wire.Info {
	var out []wire.Info
	for _, function := range slices.Sorted(maps.Keys(supported)) {
		attrs := supported[function]
		if len(attrs) == 0 || (!slices.Contains(which, function) && !slices.Contains(which, "all")) {
			continue
		}
		elems := make([]any, len(attrs))
		for i, a := range attrs {
			elems[i] = wire.RegAttr{Name: a.name, Key: a.key, Type: a.typ, Description: []string{a.text}}
		}
		value := wire.Value{Type: wire.TypeDataArray, Data: wire.Array{Type: wire.TypeRegAttr, Elems: elems}}
		out = append(out, wire.Info{Key: function, Value: value})
	}
	return out
}
