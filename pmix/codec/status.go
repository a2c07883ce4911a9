package codec

import "strconv"

// Status is a PMIx status code: zero for success, negative for errors and events.
type Status int32

// Status codes, named as in the standard with Status for PMIX.
const (
	StatusSuccess                         Status = 0
	StatusError                           Status = -1
	StatusErrProcAborted                  Status = -7
	StatusErrProcRequestedAbort           Status = -8
	StatusErrExists                       Status = -11
	StatusErrInvalidCred                  Status = -12
	StatusErrWouldBlock                   Status = -15
	StatusErrUnknownDataType              Status = -16
	StatusErrTypeMismatch                 Status = -18
	StatusErrUnpackFailure                Status = -20
	StatusErrPackFailure                  Status = -21
	StatusErrNoPermissions                Status = -23
	StatusErrTimeout                      Status = -24
	StatusErrUnreach                      Status = -25
	StatusErrBadParam                     Status = -27
	StatusErrResourceBusy                 Status = -28
	StatusErrOutOfResource                Status = -29
	StatusErrInit                         Status = -31
	StatusErrNoMem                        Status = -32
	StatusErrNotFound                     Status = -46
	StatusErrNotSupported                 Status = -47
	StatusErrCommFailure                  Status = -49
	StatusErrUnpackPastEnd                Status = -50
	StatusErrConflictingCleanupDirectives Status = -51
	StatusErrPartialSuccess               Status = -52
	StatusErrDuplicateKey                 Status = -53
	StatusErrParamValueNotSupported       Status = -59
	StatusErrEmpty                        Status = -60
	StatusErrLostConnection               Status = -61
	StatusErrExistsOutsideScope           Status = -62
	StatusMonitorHeartbeatAlert           Status = -109
	StatusErrEventRegistration            Status = -144
	StatusEventJobEnd                     Status = -145
	StatusModelDeclared                   Status = -147
	StatusModelResources                  Status = -151
	StatusOpenMPParallelEntered           Status = -152
	StatusOpenMPParallelExited            Status = -153
	StatusOperationInProgress             Status = -156
	StatusOperationSucceeded              Status = -157
	StatusErrInvalidOperation             Status = -158
	StatusGroupInvited                    Status = -159
	StatusGroupLeft                       Status = -160
	StatusGroupInviteAccepted             Status = -161
	StatusGroupInviteDeclined             Status = -162
	StatusGroupInviteFailed               Status = -163
	StatusGroupMembershipUpdate           Status = -164
	StatusGroupConstructAbort             Status = -165
	StatusGroupConstructComplete          Status = -166
	StatusGroupLeaderFailed               Status = -168
	StatusGroupContextIDAssigned          Status = -169
	StatusGroupMemberFailed               Status = -170
	StatusErrJobAborted                   Status = -182
	StatusErrProcTermWoSync               Status = -200
	StatusEventProcTerminated             Status = -201
	StatusEventNodeDown                   Status = -231
	StatusEventNodeOffline                Status = -232
	StatusEventNoActionTaken              Status = -331
	StatusEventPartialActionTaken         Status = -332
	StatusEventActionDeferred             Status = -333
	StatusEventActionComplete             Status = -334
	StatusErrProcKilledByCmd              Status = -400
	StatusErrProcFailedToStart            Status = -401
	StatusErrProcAbortedBySig             Status = -402
	StatusErrExitNonzeroTerm              Status = -404
	StatusMaxErrConstant                  Status = -2147483648 // registers the default event handler
)

var statusNames = map[Status]string{
	StatusSuccess:                         "PMIX_SUCCESS",
	StatusError:                           "PMIX_ERROR",
	StatusErrProcAborted:                  "PMIX_ERR_PROC_ABORTED",
	StatusErrProcRequestedAbort:           "PMIX_ERR_PROC_REQUESTED_ABORT",
	StatusErrExists:                       "PMIX_ERR_EXISTS",
	StatusErrInvalidCred:                  "PMIX_ERR_INVALID_CRED",
	StatusErrWouldBlock:                   "PMIX_ERR_WOULD_BLOCK",
	StatusErrUnknownDataType:              "PMIX_ERR_UNKNOWN_DATA_TYPE",
	StatusErrTypeMismatch:                 "PMIX_ERR_TYPE_MISMATCH",
	StatusErrUnpackFailure:                "PMIX_ERR_UNPACK_FAILURE",
	StatusErrPackFailure:                  "PMIX_ERR_PACK_FAILURE",
	StatusErrNoPermissions:                "PMIX_ERR_NO_PERMISSIONS",
	StatusErrTimeout:                      "PMIX_ERR_TIMEOUT",
	StatusErrUnreach:                      "PMIX_ERR_UNREACH",
	StatusErrBadParam:                     "PMIX_ERR_BAD_PARAM",
	StatusErrResourceBusy:                 "PMIX_ERR_RESOURCE_BUSY",
	StatusErrOutOfResource:                "PMIX_ERR_OUT_OF_RESOURCE",
	StatusErrInit:                         "PMIX_ERR_INIT",
	StatusErrNoMem:                        "PMIX_ERR_NOMEM",
	StatusErrNotFound:                     "PMIX_ERR_NOT_FOUND",
	StatusErrNotSupported:                 "PMIX_ERR_NOT_SUPPORTED",
	StatusErrCommFailure:                  "PMIX_ERR_COMM_FAILURE",
	StatusErrUnpackPastEnd:                "PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER",
	StatusErrConflictingCleanupDirectives: "PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES",
	StatusErrPartialSuccess:               "PMIX_ERR_PARTIAL_SUCCESS",
	StatusErrDuplicateKey:                 "PMIX_ERR_DUPLICATE_KEY",
	StatusErrParamValueNotSupported:       "PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED",
	StatusErrEmpty:                        "PMIX_ERR_EMPTY",
	StatusErrLostConnection:               "PMIX_ERR_LOST_CONNECTION",
	StatusErrExistsOutsideScope:           "PMIX_ERR_EXISTS_OUTSIDE_SCOPE",
	StatusMonitorHeartbeatAlert:           "PMIX_MONITOR_HEARTBEAT_ALERT",
	StatusErrEventRegistration:            "PMIX_ERR_EVENT_REGISTRATION",
	StatusEventJobEnd:                     "PMIX_EVENT_JOB_END",
	StatusModelDeclared:                   "PMIX_MODEL_DECLARED",
	StatusModelResources:                  "PMIX_MODEL_RESOURCES",
	StatusOpenMPParallelEntered:           "PMIX_OPENMP_PARALLEL_ENTERED",
	StatusOpenMPParallelExited:            "PMIX_OPENMP_PARALLEL_EXITED",
	StatusOperationInProgress:             "PMIX_OPERATION_IN_PROGRESS",
	StatusOperationSucceeded:              "PMIX_OPERATION_SUCCEEDED",
	StatusErrInvalidOperation:             "PMIX_ERR_INVALID_OPERATION",
	StatusGroupInvited:                    "PMIX_GROUP_INVITED",
	StatusGroupLeft:                       "PMIX_GROUP_LEFT",
	StatusGroupInviteAccepted:             "PMIX_GROUP_INVITE_ACCEPTED",
	StatusGroupInviteDeclined:             "PMIX_GROUP_INVITE_DECLINED",
	StatusGroupInviteFailed:               "PMIX_GROUP_INVITE_FAILED",
	StatusGroupMembershipUpdate:           "PMIX_GROUP_MEMBERSHIP_UPDATE",
	StatusGroupConstructAbort:             "PMIX_GROUP_CONSTRUCT_ABORT",
	StatusGroupConstructComplete:          "PMIX_GROUP_CONSTRUCT_COMPLETE",
	StatusGroupLeaderFailed:               "PMIX_GROUP_LEADER_FAILED",
	StatusGroupContextIDAssigned:          "PMIX_GROUP_CONTEXT_ID_ASSIGNED",
	StatusGroupMemberFailed:               "PMIX_GROUP_MEMBER_FAILED",
	StatusErrJobAborted:                   "PMIX_ERR_JOB_ABORTED",
	StatusErrProcTermWoSync:               "PMIX_ERR_PROC_TERM_WO_SYNC",
	StatusEventProcTerminated:             "PMIX_EVENT_PROC_TERMINATED",
	StatusEventNodeDown:                   "PMIX_EVENT_NODE_DOWN",
	StatusEventNodeOffline:                "PMIX_EVENT_NODE_OFFLINE",
	StatusEventNoActionTaken:              "PMIX_EVENT_NO_ACTION_TAKEN",
	StatusEventPartialActionTaken:         "PMIX_EVENT_PARTIAL_ACTION_TAKEN",
	StatusEventActionDeferred:             "PMIX_EVENT_ACTION_DEFERRED",
	StatusEventActionComplete:             "PMIX_EVENT_ACTION_COMPLETE",
	StatusErrProcKilledByCmd:              "PMIX_ERR_PROC_KILLED_BY_CMD",
	StatusErrProcFailedToStart:            "PMIX_ERR_PROC_FAILED_TO_START",
	StatusErrProcAbortedBySig:             "PMIX_ERR_PROC_ABORTED_BY_SIG",
	StatusErrExitNonzeroTerm:              "PMIX_ERR_EXIT_NONZERO_TERM",
	StatusMaxErrConstant:                  "PMIX_MAX_ERR_CONSTANT",
}

// String returns the standard's name of the code, or "PMIX status" and the number of an unknown one.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return "PMIX status " + strconv.Itoa(int(s))
}
