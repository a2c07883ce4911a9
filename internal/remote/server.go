package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// Starter starts a node, as daemon.Start does. It may change what the front end has sent.
type Starter func(cfg daemon.Config, hooks daemon.Hooks) (daemon.Node, error)

// eventWindow is how many events may be on the way. Beyond that they wait in the step.
const eventWindow = 1024

// Server runs a node for a front end elsewhere: one node, which the front end starts and closes.
//
// # Loss of the front end
//
// Lost closes the node: its PEs are killed, and their output is dropped. Done is closed after that.
type Server struct {
	sender   *sender
	messages assembler // of Take
	start    Starter
	output   *outflow
	log      *logflow
	life     context.Context         // ends by the loss of the front end, with the cause
	end      context.CancelCauseFunc // ends life; the first cause counts
	turns    serial                  // what the front end wants, in the order in which it comes
	calls    sync.WaitGroup          // goroutines that carry that out
	events   sync.WaitGroup          // the goroutine that sends events
	room     chan int                // gets the numbers of events that the front end has taken
	closing  chan struct{}           // closed when the node is closed: no event is sent any more
	shutting sync.Once
	shutErr  error         // of the node's Close
	done     chan struct{} // closed at the end
	finished sync.Once
	err      error // what Wait returns

	mu    sync.Mutex  // held during the start of the node
	node  daemon.Node // nil: it has not started
	ended bool        // no node is to be started any more
}

// NewServer returns the server of the front end at the other side of a connection. Take and Lost may
// be called from now on.
func NewServer(peer Peer, start Starter) *Server {
	s := &Server{
		sender: newSender(peer), start: start, room: make(chan int, eventWindow),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.output, s.log = newOutflow(s.sender, s.life), &logflow{sender: s.sender}
	return s
}

// Wait returns when the node is closed: nil if the front end has closed it, otherwise why the front
// end was lost. The last frame has been given to the peer by then.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// Done returns a channel that is closed when Wait returns.
func (s *Server) Done() <-chan struct{} { return s.done }

// Lost is called when the front end is gone for good: err says why. The node is closed in the
// background, see Wait. It does not wait, and may be called at any time and by any goroutine.
func (s *Server) Lost(err error) {
	if s.life.Err() != nil {
		return
	}
	s.end(err)
	go func() {
		if cerr := s.shut(); cerr != nil {
			err = fmt.Errorf("%w; close: %w", err, cerr)
		}
		s.finish(err)
	}()
}

// finish ends the server. The first call counts.
func (s *Server) finish(err error) {
	s.finished.Do(func() {
		s.err = err
		close(s.done)
	})
}

// startNode starts the node.
func (s *Server) startNode(with setup) (daemon.Node, error) {
	began := time.Now().Add(-with.Age)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node != nil || s.ended {
		return nil, errors.New("start the step: the node has one, or is closed")
	}
	s.output.raw = with.Config.Raw
	node, err := s.start(with.Config, daemon.Hooks{
		Output: s.output.send, OutputEnd: s.output.end, Log: s.log.sendText,
		Notice: func(text string) { s.sender.send(wire.KindNotice, 0, []byte(clip(text))) },
		Credit: func(c daemon.Credit) { s.sender.send(wire.KindCredit, 0, encode(codeCredit, c)) },
		Spawn:  func(r daemon.SpawnRequest) { s.sender.send(wire.KindSpawn, 0, encode(codeSpawnRequest, r)) },
		Logger: zerolog.New(s.log).Level(with.Level), Began: began,
	})
	if err != nil {
		return nil, err
	}
	s.node = node
	s.events.Go(func() { s.sendEvents(node.Events()) })
	return node, nil
}

// running returns the node; nil: it has not started.
func (s *Server) running() daemon.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// shut closes the node, once; whoever calls it meanwhile waits for that.
func (s *Server) shut() error {
	s.shutting.Do(func() {
		s.mu.Lock()
		s.ended = true
		node := s.node
		s.mu.Unlock()
		if node != nil {
			s.shutErr = node.Close()
		}
		close(s.closing)
		s.events.Wait()
	})
	return s.shutErr
}

// sendEvents sends the events of the node until it is closed.
func (s *Server) sendEvents(events <-chan daemon.Event) {
	for room := eventWindow; ; {
		from := events
		if room == 0 {
			from = nil
		}
		select {
		case e := <-from:
			e.Msg = clip(e.Msg)
			s.sender.send(wire.KindEvent, 0, encode(codeEvent, e))
			room--
		case n := <-s.room:
			room += n
		case <-s.closing:
			return
		}
	}
}

// maxWords bounds what a PE can make the front end say.
const maxWords = 64 << 10

// clip cuts a text that a PE may have made long.
func clip(text string) string { return text[:min(len(text), maxWords)] }
