package server

import "github.com/goshmem/goshmem/pmix/codec"

// connID names a connection for the life of the server; zero names none.
type connID uint64

// tick counts the driver's units of time since the server's start; zero stands for no deadline.
type tick uint64

type eventKind uint8

const (
	evClaim       eventKind = iota // conn claims to be proc, with the pid that the kernel reports; space: namespace of a tool
	evFrame                        // conn sent a request: tag, payload
	evClosed                       // conn has ended
	evAddJob                       // a namespace is added, spawned by proc: space
	evOutput                       // for the driver alone: proc wrote payload, stderr
	evSpawned                      // the host answers a spawn: request, status, proc.Nspace
	evRemoveJob                    // a namespace is over: proc.Nspace
	evExited                       // the process of proc ended: exit
	evNodeLost                     // procs have died with their node
	evNotify                       // the host raises an event: notice
	evTick                         // a deadline may have passed
	evClosing                      // the server ends
	evFenceCalled                  // another node is in a fence: fence, procs, flag (it spares the dead), status (an error spoils it)
	evFenceDone                    // the driver between the nodes answers this node's part: fence, status, payload
	evFetched                      // another node answered for proc and key: status, payload
	evServe                        // another node asks for proc and key: request
	evAsked                        // another node asks something: request, payload
	evAnswered                     // the answer to a question: request, payload; nil: the other side has died
	evTold                         // another node has news: payload
)

// event is one input of the core. Payloads are kept by reference and must not change.
type event struct {
	kind    eventKind
	now     tick
	conn    connID
	proc    codec.Proc
	space   *nspace
	exit    Exit
	pid     int
	tag     uint32
	stderr  bool
	status  codec.Status
	key     string
	fence   FenceID
	procs   []codec.Proc
	flag    bool
	request uint64
	notice  codec.Event
	payload []byte
}

type actionKind uint8

const (
	actAccept    actionKind = iota // accept conn's claim to be proc
	actReject                      // reject conn's claim: status
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
	actListen                      // use a new table of listeners: listen
	actCleanUp                     // remove files that processes registered: epilog
	actFence                       // hand in this node's part: fence, procs, status, flag, payload
	actExpire                      // tell the other nodes that the deadline of a fence has passed: fence, procs, flag
	actFetch                       // ask the node of proc for its data: key
	actJob                         // tell the driver between the nodes of a job: proc.Nspace, flag (it is over)
	actServed                      // answer another node's request: request, status, payload
	actAsk                         // ask another node, or the board: node, request, payload
	actTell                        // tell other nodes, or the board: node, payload
	actRefused                     // for the log: a request of conn (proc) was refused: status, text
)

// action is one output of the core.
type action struct {
	kind    actionKind
	conn    connID
	proc    codec.Proc
	procs   []codec.Proc
	pid     int
	tag     uint32
	status  codec.Status
	flag    bool
	text    string
	key     string
	fence   FenceID
	request uint64
	node    int
	spawn   *SpawnRequest
	control ControlAction
	epilog  epilog
	listen  []*listener
	payload []byte
	more    []byte // the rest of the payload
}
