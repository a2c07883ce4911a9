package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// attribute is a directive of a function.
type attribute struct {
	name string // in the standard
	key  string
	typ  codec.DataType
	text string
}

var (
	attrTimeout = attribute{"PMIX_TIMEOUT", codec.KeyTimeout, codec.TypeInt, "seconds after which the operation fails"}
	attrRange   = attribute{"PMIX_RANGE", codec.KeyRange, codec.TypeDataRange, "the processes that the operation is for"}
	attrMembers = attribute{"PMIX_EVENT_CUSTOM_RANGE", codec.KeyEventCustomRange, codec.TypeDataArray, "the processes of a custom range"}
)

// supported lists the functions that the server serves, and the directives that it follows.
var supported = map[string][]attribute{
	"PMIx_Init":     nil,
	"PMIx_Finalize": nil,
	"PMIx_Abort":    nil,
	"PMIx_Commit":   nil,
	"PMIx_Fence": {
		attrTimeout,
		{"PMIX_COLLECT_DATA", codec.KeyCollectData, codec.TypeBool, "exchange what the participants have committed"},
	},
	"PMIx_Get": {
		attrTimeout,
		{"PMIX_IMMEDIATE", codec.KeyImmediate, codec.TypeBool, "do not wait for data that is still to come"},
		{"PMIX_GET_REFRESH_CACHE", codec.KeyGetRefreshCache, codec.TypeBool, "ask again for data that the process has"},
	},
	"PMIx_Publish": {
		attrRange, attrMembers,
		{"PMIX_PERSISTENCE", codec.KeyPersistence, codec.TypePersist, "how long the data stays"},
		{"PMIX_ACCESS_PERMISSIONS", codec.KeyAccessPermissions, codec.TypeDataArray, "users who may read the data, in an array"},
		{"PMIX_ACCESS_USERIDS", codec.KeyAccessUserIDs, codec.TypeDataArray, "users who may read the data"},
	},
	"PMIx_Lookup": {
		attrTimeout, attrRange, attrMembers,
		{"PMIX_WAIT", codec.KeyWait, codec.TypeInt, "number of values to wait for, all if zero"},
	},
	"PMIx_Unpublish":  {attrRange},
	"PMIx_Query_info": {},
	"PMIx_Log": {
		{"PMIX_LOG_STDOUT", codec.KeyLogStdout, codec.TypeString, "text for the launcher's standard output"},
		{"PMIX_LOG_STDERR", codec.KeyLogStderr, codec.TypeString, "text for the launcher's standard error"},
		{"PMIX_LOG_ONCE", codec.KeyLogOnce, codec.TypeBool, "use the first of the channels only"},
	},
	"PMIx_Spawn": {
		{"PMIX_WDIR", codec.KeyWDir, codec.TypeString, "working directory, of the job or of an application"},
		{"PMIX_SET_ENVAR", codec.KeySetEnvar, codec.TypeEnvar, "set a variable"},
		{"PMIX_ADD_ENVAR", codec.KeyAddEnvar, codec.TypeEnvar, "set a variable unless it is set"},
		{"PMIX_UNSET_ENVAR", codec.KeyUnsetEnvar, codec.TypeString, "remove a variable"},
		{"PMIX_PREPEND_ENVAR", codec.KeyPrependEnvar, codec.TypeEnvar, "put text before the value of a variable"},
		{"PMIX_APPEND_ENVAR", codec.KeyAppendEnvar, codec.TypeEnvar, "put text after the value of a variable"},
		{"PMIX_FWD_STDOUT", codec.KeyFwdStdout, codec.TypeBool, "forward the job's standard output to the caller"},
		{"PMIX_FWD_STDERR", codec.KeyFwdStderr, codec.TypeBool, "forward the job's standard error to the caller"},
	},
	"PMIx_Connect":    {attrTimeout},
	"PMIx_Disconnect": {attrTimeout},
	"PMIx_Group_construct": {
		attrTimeout,
		{"PMIX_GROUP_ASSIGN_CONTEXT_ID", codec.KeyGroupAssignContextID, codec.TypeBool, "give the group a number"},
		{"PMIX_GROUP_OPTIONAL", codec.KeyGroupOptional, codec.TypeBool, "go on without processes that end before they join"},
		{"PMIX_GROUP_NOTIFY_TERMINATION", codec.KeyGroupNotifyTermination, codec.TypeBool, "tell members when another member ends"},
		{"PMIX_GROUP_FT_COLLECTIVE", codec.KeyGroupFTCollective, codec.TypeBool, "go on without members that end"},
	},
	"PMIx_Group_destruct":           {attrTimeout},
	"PMIx_Group_leave":              nil,
	"PMIx_Register_event_handler":   nil,
	"PMIx_Deregister_event_handler": nil,
	"PMIx_Notify_event": {
		{"PMIX_EVENT_NON_DEFAULT", codec.KeyEventNonDefault, codec.TypeBool, "default handlers do not get the event"},
		{"PMIX_EVENT_DO_NOT_CACHE", codec.KeyEventDoNotCache, codec.TypeBool, "handlers that register later do not get the event"},
		attrMembers,
	},
	"PMIx_Job_control": {
		{"PMIX_JOB_CTRL_SIGNAL", codec.KeyJobCtrlSignal, codec.TypeInt, "signal to send to the processes"},
		{"PMIX_JOB_CTRL_KILL", codec.KeyJobCtrlKill, codec.TypeBool, "end the processes at once"},
		{"PMIX_JOB_CTRL_TERMINATE", codec.KeyJobCtrlTerminate, codec.TypeBool, "ask the processes to end"},
		{"PMIX_JOB_CTRL_PAUSE", codec.KeyJobCtrlPause, codec.TypeBool, "stop the processes"},
		{"PMIX_JOB_CTRL_RESUME", codec.KeyJobCtrlResume, codec.TypeBool, "let stopped processes go on"},
		{"PMIX_REGISTER_CLEANUP", codec.KeyRegisterCleanup, codec.TypeString, "files to remove when the process has ended"},
		{"PMIX_REGISTER_CLEANUP_DIR", codec.KeyRegisterCleanupDir, codec.TypeString, "directories to remove when the process has ended"},
		{"PMIX_CLEANUP_RECURSIVE", codec.KeyCleanupRecursive, codec.TypeBool, "remove what is in the directories too"},
		{"PMIX_CLEANUP_EMPTY", codec.KeyCleanupEmpty, codec.TypeBool, "remove empty directories only"},
		{"PMIX_CLEANUP_IGNORE", codec.KeyCleanupIgnore, codec.TypeString, "files not to remove"},
		{"PMIX_CLEANUP_LEAVE_TOPDIR", codec.KeyCleanupLeaveTopdir, codec.TypeBool, "keep the directory itself"},
	},
	"PMIx_Process_monitor": {
		{"PMIX_MONITOR_HEARTBEAT", codec.KeyMonitorHeartbeat, codec.TypeBool, "watch for heartbeats"},
		{"PMIX_MONITOR_HEARTBEAT_TIME", codec.KeyMonitorHeartbeatTime, codec.TypeUint32, "seconds without one that count as a miss"},
		{"PMIX_MONITOR_HEARTBEAT_DROPS", codec.KeyMonitorHeartbeatDrops, codec.TypeUint32, "misses that raise no event"},
		{"PMIX_MONITOR_CANCEL", codec.KeyMonitorCancel, codec.TypeString, "stop a monitor"},
	},
	"PMIx_IOF_pull":       nil,
	"PMIx_IOF_push":       nil,
	"PMIx_IOF_deregister": nil,
}

// placing lists the directives of PMIx_Spawn that say where processes run. On one node there is nothing to choose.
var placing = []attribute{
	{"PMIX_HOST", codec.KeyHost, codec.TypeString, "hosts, with commas between and perhaps with slots: a:2,b"},
	{"PMIX_ADD_HOST", codec.KeyAddHost, codec.TypeString, "the same, also hosts that the job does not have yet"},
	{"PMIX_HOSTFILE", codec.KeyHostfile, codec.TypeString, "a file of hosts: on each line a host, perhaps with slots=N"},
	{"PMIX_ADD_HOSTFILE", codec.KeyAddHostfile, codec.TypeString, "the same, also hosts that the job does not have yet"},
	{"PMIX_MAPBY", codec.KeyMapBy, codec.TypeString, "order in which hosts are filled: slot, node, ppr:N:node"},
	{"PMIX_RANKBY", codec.KeyRankBy, codec.TypeString, "order in which processes are numbered: slot or node"},
	{"PMIX_PPR", codec.KeyPPR, codec.TypeString, "number of processes on each host: N:node"},
}

// attributesOf returns the directives that a function of this server follows.
func (c *common) attributesOf(function string) ([]attribute, bool) {
	attrs, served := supported[function]
	if c.remote && function == "PMIx_Spawn" {
		attrs = slices.Concat(attrs, placing)
	}
	return attrs, served
}

func (qs *queries) spawnSupport(*question) (codec.Value, bool) {
	attrs, ok := qs.attributesOf("PMIx_Spawn")
	names := make([]string, len(attrs))
	for i, a := range attrs {
		names[i] = a.key
	}
	return codec.StringValue(strings.Join(names, ",")), ok
}

// findUnmet returns the first directive that the caller marks as required and the function does not follow.
func (c *common) findUnmet(function string, infos []codec.Info) (key string, found bool) {
	attrs, _ := c.attributesOf(function)
	for _, info := range infos {
		followed := slices.ContainsFunc(attrs, func(a attribute) bool { return a.key == info.Key })
		if info.Flags&codec.InfoRequired != 0 && !followed {
			return info.Key, true
		}
	}
	return "", false
}

// attributeSupport answers each qualifier that asks about the server or its host. Here they are the same.
func (qs *queries) attributeSupport(q *question) (codec.Value, bool) {
	functions := strings.Join(slices.Sorted(maps.Keys(supported)), ",")
	var out []codec.Info
	for _, info := range q.infos {
		switch info.Key {
		case codec.KeyServerFunctions, codec.KeyHostFunctions:
			out = append(out, codec.Info{Key: info.Key, Value: codec.StringValue(functions)})
		case codec.KeyServerAttributes, codec.KeyHostAttributes:
			which, _ := info.Value.Str()
			out = append(out, qs.describeFunctions(strings.Split(which, ","))...)
		}
	}
	return codec.InfosValue(out...), len(out) > 0
}

func (c *common) describeFunctions(which []string) []codec.Info {
	var out []codec.Info
	for _, function := range slices.Sorted(maps.Keys(supported)) {
		attrs, _ := c.attributesOf(function)
		if len(attrs) == 0 || (!slices.Contains(which, function) && !slices.Contains(which, "all")) {
			continue
		}
		elems := make([]any, len(attrs))
		for i, a := range attrs {
			elems[i] = codec.RegAttr{Name: a.name, Key: a.key, Type: a.typ, Description: []string{a.text}}
		}
		value := codec.Value{Type: codec.TypeDataArray, Data: codec.Array{Type: codec.TypeRegAttr, Elems: elems}}
		out = append(out, codec.Info{Key: function, Value: value})
	}
	return out
}
