package server

import "github.com/goshmem/goshmem/pmix/wire"

// connID names a connection for the life of the server; zero names none.
type connID uint64

// tick counts the driver's units of time since the server's start; zero stands for no deadline.
type tick uint64

type eventKind uint8

const (
	evClaim     eventKind = iota // conn says that it is nspace, rank (pid: who it is to the kernel)
	evFrame                      // conn sent a request: tag, payload
	evClosed                     // conn is gone
	evExited                     // the process rank ended
	evTick                       // time went on
	evFenceDone                  // all nodes joined the fence id, or it failed: status, payload
	evFetched                    // another node answered for rank and key: status, payload
	evServe                      // another node asks for rank and key: request
)

// event is one input of the core. Payloads are kept by reference and must not change.
type event struct {
	kind    eventKind
	now     tick
	conn    connID
	nspace  string
	rank    wire.Rank
	pid     int
	tag     uint32
	status  wire.Status
	key     string
	fence   FenceID
	request uint64
	payload []byte
}

type actionKind uint8

const (
	actAccept    actionKind = iota // conn is rank from now on
	actReject                      // refuse conn: status
	actSend                        // to conn: tag, payload
	actConnected                   // upcall: rank, pid
	actFinalized                   // upcall: rank
	actLost                        // upcall: rank
	actAbort                       // upcall: rank, status, text
	actFence                       // to the other nodes: fence, ranks, payload
	actFetch                       // to the other nodes: rank, key
	actServed                      // answer to the other node's request: status, payload
	actRefused                     // for the log: a request of conn (rank) was refused: status, text
)

// action is one output of the core.
type action struct {
	kind    actionKind
	conn    connID
	rank    wire.Rank
	pid     int
	tag     uint32
	status  wire.Status
	text    string
	key     string
	fence   FenceID
	ranks   []uint32
	request uint64
	payload []byte
}
