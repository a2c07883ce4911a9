package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Frame is a message between the front end and the daemons of a job's nodes, or between two
// daemons. On a connection it is
//
//	u32 length of the body, u16 kind, u16 version, u32 stream, body
//
// in little endian.
type Frame struct {
	Kind   Kind
	Stream uint32 // what the frame belongs to: see the kinds; 0 where a kind has no streams
	Body   []byte
}

// Kind says what a frame is.
type Kind uint16

// The kinds of a link between two processes: package control sends and takes them.
const (
	KindHello   Kind = 0x0100 + iota // who dials
	KindWelcome                      // the answer to a hello
	KindAck                          // frames up to a number have been taken, or nothing new: the sender lives
	KindBye                          // no frame follows (stream 0), and the peer knows it (stream 1): the link is not lost
	KindHold                         // the sender's process is about to be stopped: no time counts
	KindGo                           // it goes on
)

// The kinds between a front end and a node: package remote sends and takes them.
//
//   - KindConfig to KindTier are requests of the front end. The stream is the request's number, which its answer has,
//     too. KindSignal to KindChunk have no answer. All of them are begun in the order in which they come.
//   - KindAnswer to KindCredit come from the node. The stream of output is a number that KindOutputBegin gives to
//     standard output or standard error of a PE.
//   - KindOutputTaken to KindLogTaken say what the front end has taken, so that the node may send more.
//   - KindPiece to KindPieceTaken are parts of a message that is too large for a frame. The stream numbers the message.
const (
	KindConfig      Kind = 0x0200 + iota // what the node is to run: it starts its step
	KindCheck                            // whether the node has the programs of a configuration
	KindLaunch                           // start the PEs
	KindClose                            // end the PEs, pass on what they have written, free everything
	KindStopped                          // whether all PEs are stopped
	KindPID                              // the process of a PE
	KindForsake                          // declare a PE failed that has lost its connection
	KindAtWork                           // whether a process of a PE could run
	KindAsk                              // give an order to all PEs
	KindHasGo                            // whether a PE runs a Go program
	KindQuitGo                           // end the Go programs of a PE
	KindTier                             // how the node learns of ends
	KindSignal                           // send a signal to all PEs
	KindSuspend                          // ask all PEs to stop
	KindResize                           // the window size of the user's terminal
	KindRefuse                           // let no further job begin
	KindFarFailed                        // PEs of other nodes have failed
	KindChunk                            // standard input
	KindAnswer                           // the answer to a request, and its last frame
	KindAsked                            // what a PE says to the order of a request
	KindEvent                            // what has happened to a PE
	KindOutputBegin                      // which output of which PE has the number
	KindOutput                           // text of an output
	KindOutputEnd                        // no text of the output follows
	KindLog                              // text that a PE has sent for an output
	KindLogLine                          // a line of the node's log
	KindNotice                           // what the user should know
	KindCredit                           // standard input has been taken
	KindOutputTaken                      // bytes of an output
	KindEventsTaken                      // events
	KindLogTaken                         // bytes of the log
	KindPiece                            // a part of a message, which the last piece ends
	KindLastPiece                        // kind and stream of the message, and the rest of it
	KindPieceTaken                       // the next piece may come
)

// The kinds of PMIx between nodes: packages fence and courier send and take them. Each frame has a piece of a message, as
// Split cuts it.
const (
	KindFence    Kind = 0x0300 + iota // about a fence
	KindFetch                         // a server's request for the data of a process
	KindFetched                       // the answer
	KindQuestion                      // a server's request to another one, or to the root
	KindReply                         // the answer
	KindTell                          // what a server lets others know, or the root
)

// The kinds among a front end and its daemons: package nodes sends and takes them.
const (
	KindRelay      Kind = 0x0400 + iota // a frame between two nodes; the stream is the other node
	KindNodeDead                        // a node is lost; the stream is the node
	KindStartAgent                      // a daemon is to start the launch agent of another node, which is the stream
	KindKillAgent                       // it is to kill that agent
	KindAgentEnded                      // that agent has ended, and how
	KindNodes                           // the job has more nodes: the stream is how many
	KindFallen                          // the last word of a daemon whose node is lost, and why
	KindProbe                           // the front end measures the way: a daemon answers at once; the stream is a number
	KindProbed                          // the answer, with the same stream
	KindAccuse                          // a daemon holds a node for dead: the stream is the node; see Accusation
	KindLinkBack                        // a daemon has a connection again: does the job go on? The stream is a number
	KindGoesOn                          // the answer, with the same stream: it does
	KindEndNode                         // a daemon is to end its node at once; the body says why
)

const (
	// FrameHeader is the size of the part before the body.
	FrameHeader = 12
	// MaxBody bounds the body of a frame.
	MaxBody = 1 << 20

	frameVersion = 1
)

// Append appends the frame to b. The body has at most MaxBody bytes.
func (f *Frame) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Body)))
	b = binary.LittleEndian.AppendUint16(b, uint16(f.Kind))
	b = binary.LittleEndian.AppendUint16(b, frameVersion)
	b = binary.LittleEndian.AppendUint32(b, f.Stream)
	return append(b, f.Body...)
}

// ReadFrame reads a frame whose body has at most most bytes. The error is io.EOF if the reader ends before a frame.
func ReadFrame(r io.Reader, most int) (f Frame, err error) {
	var head [FrameHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	le := binary.LittleEndian
	length := le.Uint32(head[:])
	if v := le.Uint16(head[6:]); v != frameVersion {
		return f, fmt.Errorf("frame has version %d, want %d: the processes of the job were built from different versions", v, frameVersion)
	}
	if int64(length) > int64(min(most, MaxBody)) {
		return f, fmt.Errorf("frame of kind %#x has %d bytes, want at most %d", le.Uint16(head[4:]), length, min(most, MaxBody))
	}
	f = Frame{Kind: Kind(le.Uint16(head[4:])), Stream: le.Uint32(head[8:]), Body: make([]byte, length)}
	if _, err := io.ReadFull(r, f.Body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}
