// Package session numbers the frames of a link, so that each is taken once and in order although connections break.
//
// It does no input or output: package control writes and reads what it says. A session is one end of a link. It
// outlives the connections, of which it has one at a time.
//
// # Numbers
//
// The frames of each direction have the numbers 1, 2, 3, ... No number is written: a connection keeps order, so it is
// enough that both ends know the number of the first frame. When a connection begins, each end says the number of the
// last frame that it has taken (package control does so in its hello and its welcome), and the other end goes on with
// the next one.
//
// # Argument
//
// Let R be the number of the last frame that the receiver has taken, and S the session of the sender.
//
//   - Invariant: S keeps all frames with numbers above base, and base <= R <= the number of the last frame written.
//     Base only grows by Ack and Resume, with numbers that the receiver said. The receiver says numbers that it has
//     reached, and R never falls.
//   - Each once: an end says R only after it has stopped reading the connection before. So R does not change between
//     the word and the first frame of the new connection. That frame is R+1, as Resume makes it the next one. What the
//     old connection still carried is lost, and is written again, as it is above R.
//   - In order: on one connection frames come in the order of the numbers, and the next connection begins at R+1.
//
// Acknowledgments are cumulative and late: one that is lost with its connection is made good by the next one, or by the
// number that begins the next connection. They only say what the sender need not keep.
package session

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/wire"
)

// An acknowledgment is due after so many frames or bytes. Below that, it goes with a keepalive.
const (
	ackFrames = 32
	ackBytes  = 64 << 10
)

// Session is one end of a link. The zero value is the end of a new link. Its methods must not be called concurrently.
type Session struct {
	kept  []wire.Frame // the frames base+1, base+2, ...
	base  uint64       // the peer has taken the frames up to this one
	next  int          // index in kept of the frame that the current connection carries next
	bytes int          // the bytes of kept on a connection

	received  uint64 // the last frame that this end has taken
	told      uint64 // the last number that the peer was told
	untold    int    // the bytes of the frames above told
	connected bool   // Resume was called for the current connection
}

// Push appends a frame to those that the peer has to take. The session keeps the body until the peer has taken it.
func (s *Session) Push(f wire.Frame) {
	s.kept = append(s.kept, f)
	s.bytes += size(f)
}

// Resume begins a connection. The peer has taken the frames up to number taken, and was told Received by this end.
// After an error the session is as before.
func (s *Session) Resume(taken uint64) error {
	if last := s.base + uint64(len(s.kept)); taken < s.base || taken > last {
		return fmt.Errorf("peer says that it has taken frames up to %d, want %d to %d", taken, s.base, last)
	}
	s.drop(taken)
	s.next = 0
	s.told, s.untold, s.connected = s.received, 0, true
	return nil
}

// Next returns the next frame to write on the current connection; ok is false if none is left or no connection began.
func (s *Session) Next() (f wire.Frame, ok bool) {
	if !s.connected || s.next == len(s.kept) {
		return f, false
	}
	s.next++
	return s.kept[s.next-1], true
}

// Break ends the connection. Next returns nothing until the next Resume.
func (s *Session) Break() { s.connected = false }

// Acknowledge takes the peer's word that it has taken the frames up to number taken. A number that was said before is
// no error, one of a frame that this connection has not carried is.
func (s *Session) Acknowledge(taken uint64) error {
	if written := s.base + uint64(s.next); taken > written {
		return fmt.Errorf("peer acknowledges frame %d, but the last one written is %d", taken, written)
	}
	if taken > s.base {
		s.drop(taken)
	}
	return nil
}

// drop removes the frames up to number taken, of which all are kept or were dropped before.
func (s *Session) drop(taken uint64) {
	n := int(taken - s.base)
	for i := range n {
		s.bytes -= size(s.kept[i])
		s.kept[i] = wire.Frame{} // its body may go
	}
	s.kept = s.kept[n:] // append moves what is left when the array is full
	s.next -= min(n, s.next)
	s.base = taken
	if len(s.kept) == 0 {
		s.kept = nil
	}
}

// Took counts a frame that this end has taken.
func (s *Session) Took(f wire.Frame) {
	s.received++
	s.untold += size(f)
}

// AckDue reports whether the peer keeps so much that it should be told Received now.
func (s *Session) AckDue() bool { return s.received-s.told >= ackFrames || s.untold >= ackBytes }

// Told notes that the current connection carries an acknowledgment of Received.
func (s *Session) Told() { s.told, s.untold = s.received, 0 }

// Received returns the number of the last frame that this end has taken.
func (s *Session) Received() uint64 { return s.received }

// Pushed returns the number of the last frame that was pushed.
func (s *Session) Pushed() uint64 { return s.base + uint64(len(s.kept)) }

// Taken returns the number of the last frame that the peer has taken, as far as this end knows.
func (s *Session) Taken() uint64 { return s.base }

// Kept returns how many frames the peer has not acknowledged, and their bytes on a connection.
func (s *Session) Kept() (frames, bytes int) { return len(s.kept), s.bytes }

func size(f wire.Frame) int { return wire.FrameHeader + len(f.Body) }
