package remote

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// errNoNode answers a request that comes before the step has started.
var errNoNode = errors.New("the step has not started on this node")

// Take takes a frame of the front end. A frame that no client sends ends the server as Lost does.
func (s *Server) Take(f wire.Frame) {
	if s.life.Err() != nil {
		return
	}
	if err := s.take(f); err != nil {
		s.Lost(fmt.Errorf("the front end has sent what is not understood: %w", err))
	}
}

func (s *Server) take(f wire.Frame) error {
	if f.Kind == wire.KindPieceTaken {
		s.sender.pieceTaken(f.Stream)
		return nil
	}
	f, whole, err := s.messages.take(f)
	if err != nil {
		return err
	}
	if !whole {
		s.sender.send(wire.KindPieceTaken, f.Stream, nil)
		return nil
	}
	switch f.Kind {
	case wire.KindOutputTaken:
		return s.credit(&f, func(n int) bool { return s.output.taken(f.Stream, n) })
	case wire.KindLogTaken:
		return s.credit(&f, s.log.taken)
	case wire.KindEventsTaken:
		return s.credit(&f, func(n int) bool {
			select {
			case s.room <- n:
				return n > 0
			default: // more than eventWindow counts: no client sends that
				return false
			}
		})
	}
	do, err := s.wish(&f)
	if err == nil {
		s.turns.add(&s.calls, do)
	}
	return err
}

// credit takes what the front end has taken.
func (s *Server) credit(f *wire.Frame, taken func(n int) bool) error {
	n, err := decode(f, wire.Integer[int])
	if err == nil && !taken(n) {
		err = fmt.Errorf("message of kind %#x: %d bytes or events are taken, which are not on the way", uint16(f.Kind), n)
	}
	return err
}

// wish returns what carries out what the front end wants.
func (s *Server) wish(f *wire.Frame) (do func(), err error) {
	switch f.Kind {
	case wire.KindSignal:
		return carry(s, f, wire.Integer, daemon.Node.Signal)
	case wire.KindSuspend:
		return carry(s, f, codeNothing, func(n daemon.Node, _ nothing) { n.Suspend() })
	case wire.KindResize:
		return carry(s, f, codeWindow, daemon.Node.Resize)
	case wire.KindRefuse:
		return carry(s, f, (*wire.Coder).Bool, daemon.Node.Refuse)
	case wire.KindFarFailed:
		return carry(s, f, codeFarFailure, func(n daemon.Node, far daemon.FarFailure) {
			if err := n.FarFailed(far); err != nil {
				s.sender.send(wire.KindNotice, 0, []byte(clip(err.Error())))
			}
		})
	case wire.KindEndJob:
		return carry(s, f, wire.Integer, daemon.Node.EndJob)
	case wire.KindSpawnAnswer:
		return carry(s, f, codeSpawnAnswer, daemon.Node.AnswerSpawn)
	case wire.KindAddJob:
		return ask(s, f, codeFurtherJob, func(n daemon.Node, j daemon.FurtherJob) (answer, error) { return answer{}, n.AddJob(j) })
	case wire.KindStartJob:
		return ask(s, f, wire.Integer, func(n daemon.Node, number int) (answer, error) { return answer{}, n.StartJob(number) })
	case wire.KindDropJob:
		return ask(s, f, wire.Integer, func(n daemon.Node, number int) (answer, error) { return answer{}, n.DropJob(number) })
	case wire.KindChunk:
		return carry(s, f, codeChunk, daemon.Node.Feed)
	case wire.KindCheck:
		return reply(s, f, codeConfig, func(cfg daemon.Config) (answer, error) { return answer{}, cfg.Check() })
	case wire.KindConfig:
		return reply(s, f, codeSetup, func(with setup) (answer, error) {
			n, err := s.startNode(with)
			if err != nil {
				return answer{}, err
			}
			return answer{Tier: n.Tier(), ToolURI: n.ToolURI(), Report: n.Report()}, nil
		})
	case wire.KindClose:
		return reply(s, f, codeNothing, func(nothing) (answer, error) { return answer{}, s.shut() })
	case wire.KindAgents:
		return ask(s, f, codeAgents, func(n daemon.Node, addrs []string) (answer, error) { return answer{}, n.SetAgents(addrs) })
	case wire.KindWatch:
		return ask(s, f, codeWatch, func(n daemon.Node, w daemon.Watch) (answer, error) {
			if n, watches := n.(daemon.Watcher); watches {
				return answer{}, n.Watch(w)
			}
			return answer{}, errors.New("this node cannot watch others")
		})
	case wire.KindLaunch:
		return ask(s, f, codeNothing, func(n daemon.Node, _ nothing) (answer, error) { return answer{}, n.Launch() })
	case wire.KindStopped:
		return ask(s, f, codeNothing, func(n daemon.Node, _ nothing) (answer, error) { return answer{Yes: n.Stopped()}, nil })
	case wire.KindPID:
		return ask(s, f, codeID, func(n daemon.Node, id daemon.ID) (answer, error) { return answer{PID: n.PID(id)}, nil })
	case wire.KindForsake:
		return ask(s, f, codeID, func(n daemon.Node, id daemon.ID) (answer, error) { return answer{Yes: n.Forsake(id)}, nil })
	case wire.KindAtWork:
		return ask(s, f, codeID, func(n daemon.Node, id daemon.ID) (answer, error) { return answer{Yes: n.IsAtWork(id)}, nil })
	case wire.KindHasGo:
		return ask(s, f, codeID, func(n daemon.Node, id daemon.ID) (answer, error) { return answer{Yes: n.HasGo(id)}, nil })
	case wire.KindTier:
		return ask(s, f, codeNothing, func(n daemon.Node, _ nothing) (answer, error) { return answer{Tier: n.Tier()}, nil })
	case wire.KindQuitGo:
		return ask(s, f, codeQuit, func(n daemon.Node, q quit) (answer, error) {
			n.QuitGo(q.ID, q.AtMost)
			return answer{}, nil
		})
	case wire.KindAsk:
		return ask(s, f, codeOrder, func(n daemon.Node, o order) (answer, error) { return answer{}, s.passAnswers(f.Stream, n, o) })
	}
	return nil, fmt.Errorf("message of kind %#x, which a front end does not send", uint16(f.Kind))
}

// passAnswers gives an order to the PEs and sends what they say.
func (s *Server) passAnswers(number uint32, n daemon.Node, o order) error {
	for _, a := range n.Ask(o.Order, o.AtMost) {
		if err := s.sender.sendPaced(s.life, wire.KindAsked, number, encode(codePEAnswer, a)); err != nil {
			return err
		}
	}
	return nil
}

// carry returns what carries out a wish without an answer. Without a node there is nothing to be done.
func carry[T any](s *Server, f *wire.Frame, code func(*wire.Coder, *T), do func(n daemon.Node, v T)) (func(), error) {
	v, err := decode(f, code)
	return func() {
		if n := s.running(); n != nil {
			do(n, v)
		}
	}, err
}

// ask returns what carries out a request to the node.
func ask[T any](s *Server, f *wire.Frame, code func(*wire.Coder, *T), do func(n daemon.Node, v T) (answer, error)) (func(), error) {
	return reply(s, f, code, func(v T) (answer, error) {
		if n := s.running(); n != nil {
			return do(n, v)
		}
		return answer{}, errNoNode
	})
}

// reply returns what begins a request, which runs in a goroutine of its own. The answer of KindClose is the last
// frame.
func reply[T any](s *Server, f *wire.Frame, code func(*wire.Coder, *T), do func(v T) (answer, error)) (func(), error) {
	v, err := decode(f, code)
	kind, number := f.Kind, f.Stream
	return func() {
		s.calls.Go(func() {
			a, err := do(v)
			if err != nil {
				a = answer{Failed: true, Failure: failureOf(err)}
			}
			s.sender.send(wire.KindAnswer, number, encode(codeAnswer, a))
			if kind == wire.KindClose {
				s.finish(nil)
			}
		})
	}, err
}
