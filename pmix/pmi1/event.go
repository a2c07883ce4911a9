package pmi1

import "github.com/goshmem/goshmem/pmix/codec"

// connID names a connection; zero is none.
type connID uint64

// eventKind says what happened.
type eventKind uint8

const (
	evAddJob    eventKind = iota // a further job: job
	evRemoveJob                  // a job is over: proc.Nspace
	evConnect                    // conn belongs to proc from now on
	evInput                      // conn sent data
	evClosed                     // conn is gone
	evExited                     // proc's process ended
	evSpawned                    // the answer to the request id: text is why it failed, or empty
)

// event is one input of the core. Data is not kept.
type event struct {
	kind eventKind
	conn connID
	proc codec.Proc
	job  *Job
	data []byte
	id   uint64
	text string
}

// actionKind says what the driver has to do.
type actionKind uint8

const (
	actSend      actionKind = iota // to conn: text, a whole line
	actClose                       // conn
	actJoined                      // upcall: proc
	actFinalized                   // upcall: proc
	actLost                        // upcall: proc
	actAbort                       // upcall: proc, status
	actSpawn                       // upcall: spawn
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
}
