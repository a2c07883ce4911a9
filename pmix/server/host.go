package server

import "github.com/goshmem/goshmem/pmix/codec"

// Host receives what the server learns about its clients and what they ask for that only the launcher can do.
//
//   - Concurrent calls: none, they come one after the other from one goroutine, without locks held. They must not block
//     and must not call Close. An upcall about a request returns before the request is answered: by the time that a
//     process which finalized ends, ClientFinalized has returned.
type Host interface {
	ClientConnected(p codec.Proc, pid int) // pid 0 when unknown
	ClientFinalized(p codec.Proc)
	ClientLost(p codec.Proc) // the connection closed without a finalize
	// Abort asks for the end of processes; one with the wildcard rank stands for a whole namespace, and none at all for
	// that of from.
	Abort(from codec.Proc, procs []codec.Proc, status int, msg string)
	// Spawn asks for a further job. The answer is Server.SpawnDone with the request's number, which must come.
	Spawn(r *SpawnRequest)
	// Control asks for signals to processes and for the end of them; targets are named as for Abort.
	Control(from codec.Proc, targets []codec.Proc, action ControlAction)
	// Log passes on text that a client wants to see on the launcher's own output.
	Log(from codec.Proc, toStderr bool, text []byte)
	// Stdin passes on what was pushed to the standard input of processes; eof ends it.
	Stdin(to []codec.Proc, data []byte, eof bool)
}

// SpawnRequest asks for a job of one or several programs.
type SpawnRequest struct {
	ID    uint64 // names the request in Server.SpawnDone
	From  codec.Proc
	Infos []codec.Info // about the whole job
	Apps  []SpawnApp
}

// SpawnApp is one program of a job.
type SpawnApp struct {
	Cmd      string   // the program's file
	Args     []string // the program's name and its arguments
	Env      []string // in addition to the environment that the job gets anyway
	Dir      string   // working directory; empty: the launcher's
	MaxProcs int      // number of processes
	Infos    []codec.Info
}

// ControlAction says what is to happen to processes.
type ControlAction struct {
	Signal    int // 0: none
	Kill      bool
	Terminate bool // ask first, kill later
	Pause     bool
	Resume    bool
}

// Exit says how a process ended.
type Exit struct {
	Code       int
	Signal     int  // that killed it; 0: none
	Unfinished bool // it had joined the job and left without a farewell
	NotStarted bool // there never was a process
}

// noHost is a host that does not listen.
type noHost struct{}

func (noHost) ClientConnected(codec.Proc, int)                 {}
func (noHost) ClientFinalized(codec.Proc)                      {}
func (noHost) ClientLost(codec.Proc)                           {}
func (noHost) Abort(codec.Proc, []codec.Proc, int, string)     {}
func (noHost) Spawn(*SpawnRequest)                             {}
func (noHost) Control(codec.Proc, []codec.Proc, ControlAction) {}
func (noHost) Log(codec.Proc, bool, []byte)                    {}
func (noHost) Stdin([]codec.Proc, []byte, bool)                {}
