package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// session sends a client's requests and knows whether the client is still in use. All services of a client share it.
type session struct {
	opts  Options
	conn  *conn
	lost  chan struct{} // closed when the connection ends before Finalize
	ended chan struct{} // closed when the last Finalize returns

	mu        sync.Mutex
	users     int // uses that have not been ended by Finalize
	finalized bool
}

func newSession(opts Options, conn *conn) *session {
	return &session{opts: opts, conn: conn, lost: make(chan struct{}), ended: make(chan struct{}), users: 1}
}

// proc returns this process's name.
func (s *session) proc() codec.Proc { return codec.Proc{Nspace: s.opts.Nspace, Rank: s.opts.Rank} }

// request sends a request and returns the body of its answer.
func (s *session) request(ctx context.Context, op string, r codec.Request) ([]byte, error) {
	if s.isFinalized() {
		return nil, fmt.Errorf("pmix %s: %w", op, ErrFinalized)
	}
	return s.exchange(ctx, op, r)
}

// exchange is request for a client that may be finalized.
func (s *session) exchange(ctx context.Context, op string, r codec.Request) ([]byte, error) {
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	answer, err := s.conn.exchange(ctx, body)
	switch {
	case err == nil:
		return answer, nil
	case !errors.Is(err, ErrLostConnection):
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	case s.isFinalized() && r.Command() != codec.CmdFinalize:
		return nil, fmt.Errorf("pmix %s: %w", op, ErrFinalized)
	default:
		return nil, &StatusError{Op: op, Status: codec.StatusErrLostConnection}
	}
}

// requestStatus sends a request whose answer is a status.
func (s *session) requestStatus(ctx context.Context, op string, r codec.Request) error {
	answer, err := s.request(ctx, op, r)
	if err != nil {
		return err
	}
	return decodeStatus(op, answer)
}

func decodeStatus(op string, answer []byte) error {
	status, err := codec.DecodeStatusReply(answer)
	if err != nil {
		return fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	return statusError(op, status)
}

// send sends a request that the server does not answer.
func (s *session) send(ctx context.Context, op string, r codec.Request) error {
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	tag, _ := s.conn.reserveTag()
	defer s.conn.releaseTag(tag)
	if err := s.conn.send(ctx, codec.AppendFrame(nil, 0, tag, body)); err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	return nil
}

// addUser adds a use of the client; false means that the client is finalized.
//
//   - Errors: ErrLostConnection: a client that lost its server takes no new users.
func (s *session) addUser() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false, nil
	}
	select {
	case <-s.lost:
		return false, &StatusError{Op: "init", Status: codec.StatusErrLostConnection}
	default:
		s.users++
		return true, nil
	}
}

// removeUser ends a use of the client. The last use finalizes it.
func (s *session) removeUser() (last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false, fmt.Errorf("pmix finalize: %w", ErrFinalized)
	}
	s.users--
	s.finalized = s.users == 0
	return s.finalized, nil
}

func (s *session) isFinalized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finalized
}

func (s *session) setFinalized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finalized = true
}

func appendTimeout(infos []codec.Info, d time.Duration) []codec.Info {
	if d <= 0 {
		return infos
	}
	return append(infos, codec.Info{Key: codec.KeyTimeout, Value: codec.IntValue(int32(wholeSeconds(d)))})
}

// wholeSeconds rounds d up to seconds, of which a C int can hold the number.
func wholeSeconds(d time.Duration) uint32 {
	return uint32(min((d+time.Second-1)/time.Second, 1<<31-1))
}
