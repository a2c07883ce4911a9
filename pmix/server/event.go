package server

import "github.com/goshmem/goshmem/pmix/wire"

// connID names a connection for the life of the server; zero names none.
type connID uint64

// tick counts the driver's units of time since the server's start; zero stands for no deadline.
type tick uint64

type eventKind uint8

const (
	evClaim       eventKind = iota // conn says that it is proc (pid: who it is to the kernel; space: a tool's)
	evFrame                        // conn sent a request: tag, payload
	evClosed                       // conn is gone
	evAddJob                       // a further namespace: space
	evOutput                       // for the driver alone: proc wrote payload, stderr
	evSpawned                      // the spawn request is done: status, proc.Nspace
	evRemoveJob                    // a namespace is over: proc.Nspace
	evExited                       // proc's process ended: exit
	evNotify                       // the host raises an event: notice
	evTick                         // time went on
	evClosing                      // the server ends
	evFenceCalled                  // another node is in the fence id with procs: status (an error: why it cannot end well), flag
	evFenceDone                    // all nodes joined the fence id, or it failed: status, payload
	evFetched                      // another node answered for proc and key: status, payload
	evServe                        // another node asks for proc and key: request
)

// event is one input of the core. Payloads are kept by reference and must not change.
type event struct {
	kind    eventKind
	now     tick
	conn    connID
	proc    wire.Proc
	space   *nspace
	exit    Exit
	pid     int
	tag     uint32
	stderr  bool
	status  wire.Status
	key     string
	fence   FenceID
	procs   []wire.Proc
	flag    bool
	request uint64
	notice  wire.Event
	payload []byte
}

type actionKind uint8

const (
	actAccept    actionKind = iota // conn is proc from now on
	actReject                      // refuse conn: status
	actSend                        // to conn: tag, payload, more
	actDrop                        // close conn
	actConnected                   // upcall: proc, pid
	actFinalized                   // upcall: proc
	actLost                        // upcall: proc
	actAbort                       // upcall: proc, procs, status, text
	actSpawn                       // upcall: spawn
	actControl                     // upcall: proc, procs, control
	actLog                         // upcall: proc, flag (to standard error), payload
	actStdin                       // upcall: procs, payload, flag (the end)
	actListen                      // who gets the output of processes has changed: listen
	actCleanUp                     // remove what processes left behind: epilog
	actFence                       // this node's part, to the other nodes: fence, procs, status, flag, payload
	actExpire                      // the deadline of a fence has passed, to the other nodes: fence, procs, flag
	actFetch                       // to the other nodes: proc, key
	actServed                      // answer to the other node's request: status, payload
	actRefused                     // for the log: a request of conn (proc) was refused: status, text
)

// action is one output of the core.
type action struct {
	kind    actionKind
	conn    connID
	proc    wire.Proc
	procs   []wire.Proc
	pid     int
	tag     uint32
	status  wire.Status
	flag    bool
	text    string
	key     string
	fence   FenceID
	request uint64
	spawn   *SpawnRequest
	control ControlAction
	epilog  epilog
	listen  []*listener
	payload []byte
	more    []byte // goes on where the payload ends
}
