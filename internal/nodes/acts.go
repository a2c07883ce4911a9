package nodes

import "slices"

// IsDaemonCommand says whether the arguments of a process, without its name, are those with which agents start daemons. The
// process then calls RunDaemon. It is oshrun, or a test program that plays it.
func IsDaemonCommand(args []string) bool { return slices.Equal(args, daemonWords) }

// IsHolderCommand says whether the arguments of a process, without its name, are those with which NetworkAgent starts the holder
// of the network. The process then calls HoldNetwork.
func IsHolderCommand(args []string) bool { return slices.Equal(args, holderWords) }

// IsAgentCommand says whether the arguments of a process, without its name, are those with which a daemon starts the agent
// of its node. The process then calls agent.RunProcess.
func IsAgentCommand(args []string) bool { return slices.Equal(args, []string{agentWord}) }
