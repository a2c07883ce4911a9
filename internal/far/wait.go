package far

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// ErrRefused is the error of a request that the target's agent found to be wrong, such as one beyond the heap.
var ErrRefused = errors.New("the agent of the target refused the request")

// DeadError is the error of an operation on a PE that is dead, or whose node is.
type DeadError struct {
	PE    layout.PE // -1: a whole node
	Cause error     // what Config.Dead or Config.Lost returned; nil: only the PE's agent has reported the death so far
}

func (e *DeadError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("PE %d is dead", e.PE)
	}
	return e.Cause.Error()
}

// Unwrap returns the cause.
func (e *DeadError) Unwrap() error { return e.Cause }

func isDeath(err error) bool {
	var dead *DeadError
	return errors.As(err, &dead)
}

// deaths says who is known to be dead.
type deaths struct {
	epoch func() uint64
	dead  func(pe layout.PE) error
	lost  func(node int) error // may be nil
}

// gone returns an error if the target is known to be dead.
func (d *deaths) gone(to target) error {
	if err := d.dead(to.pe); err != nil {
		return &DeadError{to.pe, err}
	}
	return nil
}

// lostNode returns an error if a node is known to be lost.
func (d *deaths) lostNode(node int) error {
	if d.lost == nil || d.epoch() == 0 {
		return nil
	}
	if err := d.lost(node); err != nil {
		return &DeadError{-1, err}
	}
	return nil
}

// await waits for a condition on a word that the agent writes, or until the target is dead.
func (p *Port) await(ctx context.Context, c *wait.Cond, to target) error {
	c.Peer, c.Agent, c.Alone = int32(to.pe)+1, true, true
	for {
		c.Seen = p.waiter.Epoch()
		if err := p.deaths.gone(to); err != nil && !c.Ready() {
			return err
		}
		if _, err := p.waiter.Wait(c, ctx); !errors.Is(err, wait.ErrFailure) {
			return err
		}
	}
}

// awaitNode waits until the first n records of a stream are executed, or the node is lost. Reports say that the wait is for peer,
// a PE of the node.
func (p *Port) awaitNode(ctx context.Context, s *stream, n uint64, peer layout.PE) error {
	c := wait.Cond{Addr: unsafe.Pointer(s.done), Val: n, Width: 8, Cmp: wait.GE, Peer: int32(peer) + 1, Agent: true, Alone: true}
	for {
		c.Seen = p.waiter.Epoch()
		if err := p.deaths.lostNode(int(s.node)); err != nil && !c.Ready() {
			return err
		}
		if _, err := p.waiter.Wait(&c, ctx); !errors.Is(err, wait.ErrFailure) {
			return err
		}
	}
}

// awaitAnswer waits until the answer is in a slot that the caller has, and returns an error if it says so.
func (p *Port) awaitAnswer(ctx context.Context, k int, to target) error {
	c := wait.Cond{Addr: unsafe.Pointer(&p.wire.Slots[k].Seq), Val: p.slots[k].number + 1, Width: 8}
	if err := p.await(ctx, &c, to); err != nil {
		return err
	}
	return p.judge(k, to)
}

// judge returns the error that an answer says.
func (p *Port) judge(k int, to target) error {
	return p.deaths.judge(record.Status(p.wire.Slots[k].Status), to)
}

// judge returns the error that the status of an answer says.
func (d *deaths) judge(status record.Status, to target) error {
	switch status {
	case record.StatusOK:
		return nil
	case record.StatusDead:
		return &DeadError{to.pe, d.dead(to.pe)}
	default:
		return fmt.Errorf("%w (%v)", ErrRefused, status)
	}
}

// supply is a wait until there is a block.
type supply struct {
	p     *Port
	to    target
	there func() bool // called with the Port locked
	epoch uint64
	err   error
}

// Poll looks once. It makes the progress that Wait would make for peers.
func (s *supply) Poll() wait.Look {
	if e := s.p.waiter.Epoch(); e != s.epoch {
		s.epoch = e
		if s.err = s.p.deaths.gone(s.to); s.err != nil {
			return wait.Over
		}
	}
	s.p.mu.Lock()
	there := s.there()
	s.p.mu.Unlock()
	switch {
	case there:
		return wait.Over
	case s.p.waiter.ServePeers():
		return wait.Moved
	default:
		return wait.Nothing
	}
}

// Awaits returns the number plus 1 of the PE that the wait is for.
func (s *supply) Awaits() int { return int(s.to.pe) + 1 }

// awaitSupply waits until there returns true, or the target is dead. Others may be faster: the caller looks again.
func (p *Port) awaitSupply(ctx context.Context, to target, there func() bool) error {
	s := &supply{p: p, to: to, there: there, epoch: p.waiter.Epoch()}
	if err := p.deaths.gone(to); err != nil {
		return err
	}
	if err := p.waiter.WaitPoll(s, ctx); err != nil {
		return err
	}
	return s.err
}
