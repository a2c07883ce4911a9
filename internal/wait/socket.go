package wait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// ErrSocket is the error of a wait for bytes of a socket that has ended, has failed, or has been silent for as long as
// Socket.Patience.
var ErrSocket = errors.New("no bytes of the socket")

var errSilent = errors.New("the other end is silent")

// Socket is a wait for bytes of a stream socket, whose reads block for a short time (xunix.BlockFor).
type Socket struct {
	FD       int
	Buf      []byte        // takes the bytes
	Got      int           // bytes in Buf
	Least    int           // bytes in Buf that the wait is for
	Seen     uint64        // as in Cond
	Peer     int32         // as in Cond
	Patience time.Duration // 0: no limit

	silent time.Duration // the clock when a read first came back without bytes; 0: none has
}

// Receive waits until Least bytes are in Buf. It may be called again after an error of the wait, and goes on then.
//
//   - Phases: one. The read blocks in the kernel, as the answer is the next thing that happens. Each time it returns
//     without bytes, Receive does what Wait does before a sleep.
//   - Errors: as Wait; ErrSocket, with io.EOF at the end. What has come before the news of a death is in Buf, and no error if
//     it is enough.
func (w *Waiter) Receive(s *Socket, ctx context.Context) error { //nolint:revive // as Wait
	w.Beat()
	receive := xunix.ReceiveBlocking
	if w.giveWay() {
		receive = xunix.ReceiveSoon
	}
	for s.Got < s.Least {
		n, err := receive(s.FD, s.Buf[s.Got:])
		switch {
		case err == nil:
			s.Got += n
		case !errors.Is(err, xunix.ErrTimeout):
			return fmt.Errorf("%w: %w", ErrSocket, err)
		default:
			return w.receiveSlowly(s, ctx)
		}
	}
	return nil
}

// receiveSlowly is Receive after a read without bytes.
func (w *Waiter) receiveSlowly(s *Socket, ctx context.Context) error { //nolint:revive // as Wait
	w.sleepers.Add(1)
	defer w.leaveSleep()
	w.awaited.Store(uint64(s.Peer))
	if s.silent == 0 {
		s.silent = w.clock()
	}
	for s.Got < s.Least {
		died := w.diedSince(s.Seen)
		over := w.expired(ctx)
		late := s.Patience > 0 && w.clock()-s.silent > s.Patience
		w.ServePeers()
		n, err := xunix.ReceiveBlocking(s.FD, s.Buf[s.Got:]) // after the looks: what has come before them counts
		switch {
		case err == nil:
			s.Got += n
		case !errors.Is(err, xunix.ErrTimeout):
			return fmt.Errorf("%w: %w", ErrSocket, err)
		case over != nil:
			return over
		case died:
			return ErrFailure
		case late:
			return fmt.Errorf("%w: %w", ErrSocket, errSilent)
		}
	}
	return nil
}
