package codec

import "strconv"

// Command is the number that starts a request.
type Command uint8

// Commands of a client, in the order of their numbers.
const (
	CmdRequestInit Command = iota // the job's description
	CmdAbort
	CmdCommit
	CmdFence
	CmdGet
	CmdFinalize
	CmdPublish
	CmdLookup
	CmdUnpublish
	CmdSpawn
	CmdConnect
	CmdDisconnect
	CmdNotify
	CmdRegisterEvents
	CmdDeregisterEvents
	CmdQuery
	CmdLog
	CmdAllocate
	CmdJobControl
	CmdMonitor
	CmdGetCredential
	CmdValidateCredential
	CmdIOFPull
	CmdIOFPush
	CmdGroupConstruct
	CmdGroupJoin
	CmdGroupInvite
	CmdGroupLeave
	CmdGroupDestruct
	CmdIOFDeregister
	CmdFabricRegister
	CmdFabricUpdate
	CmdDeviceDistances
)

var commandNames = [...]string{
	"REQ", "ABORT", "COMMIT", "FENCE", "GET", "FINALIZE", "PUBLISH", "LOOKUP", "UNPUBLISH", "SPAWN", "CONNECT",
	"DISCONNECT", "NOTIFY", "REGEVENTS", "DEREGEVENTS", "QUERY", "LOG", "ALLOC", "JOB_CONTROL", "MONITOR", "GET_CREDENTIAL",
	"VALIDATE_CREDENTIAL", "IOF_PULL", "IOF_PUSH", "GROUP_CONSTRUCT", "GROUP_JOIN", "GROUP_INVITE", "GROUP_LEAVE",
	"GROUP_DESTRUCT", "IOF_DEREG", "FABRIC_REGISTER", "FABRIC_UPDATE", "DEVICE_DISTANCES",
}

// String returns the command's name, or "command" and the number of an unknown one.
func (c Command) String() string {
	if int(c) < len(commandNames) {
		return commandNames[c]
	}
	return "command " + strconv.Itoa(int(c))
}
