package server

import "github.com/goshmem/goshmem/pmix/codec"

// Host receives news of the server's clients, and their requests that only the launcher can carry out.
//
//   - Concurrent calls: none; one goroutine makes all calls, without locks held. They must not block and must not call
//     Close. An upcall about a request returns before the request is answered. So ClientFinalized has returned before
//     the process that finalized can end.
type Host interface {
	ClientConnected(p codec.Proc, pid int) // pid 0 when unknown
	ClientFinalized(p codec.Proc)
	ClientLost(p codec.Proc) // the connection closed without finalize
	// Abort asks the launcher to end processes. A wildcard rank stands for a whole namespace; no process stands for the
	// namespace of from.
	Abort(from codec.Proc, procs []codec.Proc, status int, msg string)
	// Spawn asks for a job. The launcher must answer by Server.SpawnDone with the request's number.
	Spawn(r *SpawnRequest)
	// Control asks for actions on processes. Targets are named as for Abort.
	Control(from codec.Proc, targets []codec.Proc, action ControlAction)
	// Log prints text of a client on the launcher's own output.
	Log(from codec.Proc, toStderr bool, text []byte)
	// Stdin writes data to the standard input of processes; eof ends it.
	Stdin(to []codec.Proc, data []byte, eof bool)
}

// SpawnRequest asks for a job of one or several programs.
type SpawnRequest struct {
	ID    uint64 // number of the request, for Server.SpawnDone
	From  codec.Proc
	Infos []codec.Info // about the whole job
	Apps  []SpawnApp
}

// SpawnApp is one program of a job.
type SpawnApp struct {
	Cmd      string   // the program's file
	Args     []string // the program's name and its arguments
	Env      []string // in addition to the job's environment
	Dir      string   // working directory; empty: the launcher's
	MaxProcs int      // number of processes
	Infos    []codec.Info
}

// ControlAction lists actions on processes.
type ControlAction struct {
	Signal    int  // send this signal; 0 sends none
	Kill      bool // end the processes at once
	Terminate bool // ask the processes to end, kill them later
	Pause     bool
	Resume    bool
}

// Exit says how a process ended.
type Exit struct {
	Code       int  // exit status
	Signal     int  // the signal that killed the process; 0: none
	Unfinished bool // the process had joined the job and left without finalize
	NotStarted bool // the process could not be started

	nodeLost bool // the process has died with its node, of which another event tells
}

// noHost ignores all calls.
type noHost struct{}

func (noHost) ClientConnected(codec.Proc, int)                 {}
func (noHost) ClientFinalized(codec.Proc)                      {}
func (noHost) ClientLost(codec.Proc)                           {}
func (noHost) Abort(codec.Proc, []codec.Proc, int, string)     {}
func (noHost) Spawn(*SpawnRequest)                             {}
func (noHost) Control(codec.Proc, []codec.Proc, ControlAction) {}
func (noHost) Log(codec.Proc, bool, []byte)                    {}
func (noHost) Stdin([]codec.Proc, []byte, bool)                {}
