package pmi1

import "github.com/goshmem/goshmem/pmix/codec"

// connID names a connection; zero names none.
type connID uint64

// eventKind is the kind of an event; the comments list the fields that it uses.
type eventKind uint8

const (
	evAddJob    eventKind = iota // a job is added: job
	evRemoveJob                  // a job is over: proc.Nspace
	evConnect                    // conn now belongs to proc
	evInput                      // conn sent data
	evClosed                     // conn has ended
	evExited                     // proc's process ended: failed
	evSpawned                    // the host answers spawn request id: text is the error, or empty
	evNames                      // the answer to question id about names: data; nil: there is none
	evCalled                     // another node of proc.Nspace is in barrier id
	evBarrier                    // all nodes of proc.Nspace were in barrier id, or it has failed: data, err
)

// event is one input of the core. The core does not keep data.
type event struct {
	kind eventKind
	conn connID
	proc codec.Proc
	job  *WorldSpec
	data []byte
	id   uint64
	text string
	err  error

	failed bool
}

// actionKind is the kind of an action; the comments list the fields that it uses.
type actionKind uint8

const (
	actSend      actionKind = iota // send text, a whole line, to conn
	actClose                       // close conn
	actJoined                      // upcall: proc
	actFinalized                   // upcall: proc
	actLost                        // upcall: proc
	actAbort                       // upcall: proc, status
	actSpawn                       // upcall: spawn
	actBarrier                     // hand in this node's part of a barrier: part
	actNames                       // ask the table of the job's nodes: id, question
	actRefused                     // for the log: proc broke the protocol: text
)

// action is one output of the core.
type action struct {
	kind   actionKind
	conn   connID
	proc   codec.Proc
	status int
	text   string
	spawn  *SpawnRequest
	part   BarrierPart

	id       uint64
	question []byte
}
