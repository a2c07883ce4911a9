package nodes

import (
	"slices"

	"github.com/goshmem/goshmem/detector/responder"
)

// IsDaemonCommand says whether the arguments of a process, without its name, are those with which agents start daemons. The
// process then calls RunDaemon. It is oshrun, or a test program that plays it.
func IsDaemonCommand(args []string) bool { return slices.Equal(args, daemonWords) }

// IsHolderCommand says whether the arguments of a process, without its name, are those with which NetworkAgent starts the holder
// of the network. The process then calls HoldNetwork.
func IsHolderCommand(args []string) bool { return slices.Equal(args, holderWords) }

// IsAgentCommand says whether the arguments of a process, without its name, are those with which a daemon starts the agent
// of its node. The process then calls agent.RunProcess.
func IsAgentCommand(args []string) bool { return slices.Equal(args, []string{agentWord}) }

// IsHeartbeatCommand says whether the arguments of a process, without its name, are those with which a daemon starts the
// keeper of its responder. The process then calls KeepHeartbeat.
func IsHeartbeatCommand(args []string) bool { return slices.Equal(args, []string{heartbeatWord}) }

// KeepHeartbeat is the work of "oshrun heartbeat". It returns some time after the daemon that has started it has ended.
func KeepHeartbeat() error { return responder.RunKeeper() }
